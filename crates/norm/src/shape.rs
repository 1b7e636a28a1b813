//! How a tensor is cut into channels, rows and vectors, and shared out to blocks.

use std::fmt;

use gpu::{Divisor, Element};

/// The bytes that a thread reads at once.
pub const VECTOR_BYTES: usize = 16;
/// The most vectors of a channel. The kernels count them in an int, and add some to it.
const MOST_VECTORS: usize = 1 << 30;
/// The most channels: a launch has up to 16 blocks for each.
const MOST_CHANNELS: usize = 1 << 26;

/// A packed tensor in NCHW, or in NCDHW: a plane is a channel of an image, of height × width, or depth × height × width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planes {
    pub element: Element,
    pub images: usize,
    pub channels: usize,
    /// The elements of a plane.
    pub plane: usize,
}

impl fmt::Display for Planes {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self { element, images, channels, plane } = *self;
        write!(formatter, "{images} images of {channels} channels of {plane} elements in {}", element.name())
    }
}

impl Planes {
    fn per_vector(&self) -> usize {
        VECTOR_BYTES / self.element.bytes()
    }

    /// Returns whether each plane is whole vectors.
    pub fn is_whole(&self) -> bool {
        self.plane.is_multiple_of(self.per_vector())
    }

    /// The tensor whose channels are the groups of this one's channels, each of one image: a group's elements follow each
    /// other.
    pub fn of_groups(&self, groups: usize) -> Self {
        let plane = self.channels / groups.max(1) * self.plane;
        Self { images: 1, channels: self.images.saturating_mul(groups), plane, ..*self }
    }

    /// The fewest vectors that hold a plane.
    fn least_row(&self) -> usize {
        self.plane.div_ceil(self.per_vector())
    }

    /// The most vectors that a plane touches.
    fn most_row(&self) -> usize {
        if self.is_whole() { self.least_row() } else { (self.plane + 2 * (self.per_vector() - 1)) / self.per_vector() }
    }

    /// The most vectors of a channel. `None` if our kernels do not take the tensor: an image must be whole vectors, and a
    /// channel's vectors must be few enough to count.
    pub fn vectors(&self) -> Option<usize> {
        let Self { images, channels, plane, .. } = *self;
        if [images, channels, plane].contains(&0) {
            return None;
        }
        let image = channels.checked_mul(plane).filter(|elements| elements.is_multiple_of(self.per_vector()))?;
        let vectors = images.checked_mul(self.most_row())?;
        let is_counted = vectors <= MOST_VECTORS
            && channels <= MOST_CHANNELS
            && [images, plane, image].iter().all(|&n| i32::try_from(n).is_ok());
        is_counted.then_some(vectors)
    }
}

/// Twin of `Flat` in `kernels/norm/inference.cu`: a tensor whose elements are read one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Flat {
    plane: Divisor,
    channels: Divisor,
    elements: i32,
}

impl Flat {
    /// `None` if our kernels do not take the tensor: an int must hold the number of its elements.
    pub fn new(planes: &Planes) -> Option<Self> {
        let Planes { images, channels, plane, .. } = *planes;
        let elements = images.checked_mul(channels)?.checked_mul(plane)?;
        let elements = i32::try_from(elements).ok().filter(|&elements| elements > 0)?;
        Some(Self { plane: Divisor::new(plane), channels: Divisor::new(channels), elements })
    }

    pub fn elements(&self) -> usize {
        self.elements as usize
    }
}

/// Twin of `Groups` in `kernels/norm/groups.cuh`: the groups of a tensor's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Groups {
    plane: Divisor,
    channels: i32,
    groups: i32,
    images: i32,
}

impl Groups {
    /// The groups of a tensor that our kernels take: [`Planes::vectors`] of its [`Planes::of_groups`] says so.
    pub fn new(planes: &Planes, groups: usize) -> Self {
        let Planes { images, channels, plane, .. } = *planes;
        let [channels, groups, images] = [channels / groups, groups, images].map(|count| count as i32);
        Self { plane: Divisor::new(plane), channels, groups, images }
    }
}

/// How the blocks of a launch share out a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Clusters, each with a channel.
    Clusters(Shape),
    /// Vectors one after the other, whatever channel they are of.
    Flat(Flat),
}

impl fmt::Display for Cut {
    /// The name in the database and in reports.
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Clusters(shape) => write!(formatter, "clusters of {}", shape.blocks()),
            Self::Flat(_) => formatter.write_str("one sweep"),
        }
    }
}

/// What a device offers to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub multiprocessors: usize,
    /// The most bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// The most blocks of a cluster.
    pub cluster_blocks: usize,
}

/// Twin of `Shape` in `kernels/norm/planes.cuh`: a tensor, and how the blocks of a cluster share out a channel of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Shape {
    images: i32,
    plane: i32,
    image: i32,
    lengths: [Divisor; 2],
    share: i32,
    resident: i32,
    blocks: i32,
}

impl Shape {
    /// A shape for clusters of so many blocks. `room` is the bytes of a block's shared memory for vectors of `tensors`
    /// tensors. `None` if our kernels do not take the tensor.
    pub fn new(planes: &Planes, blocks: usize, room: usize, tensors: usize) -> Option<Self> {
        let share = planes.vectors()?.div_ceil(blocks);
        let resident = share.min(room / (VECTOR_BYTES * tensors));
        Some(Self {
            images: planes.images as i32,
            plane: planes.plane as i32,
            image: (planes.channels * planes.plane / planes.per_vector()) as i32,
            lengths: [planes.least_row(), planes.least_row() + 1].map(Divisor::new),
            share: share as i32,
            resident: resident as i32,
            blocks: blocks as i32,
        })
    }

    /// The blocks of a cluster.
    pub fn blocks(&self) -> usize {
        self.blocks as usize
    }

    /// A block's vectors of a tensor that stay in its shared memory.
    pub fn resident(&self) -> usize {
        self.resident as usize
    }

    /// Returns whether all of a block's vectors stay in its shared memory.
    pub fn is_resident(&self) -> bool {
        self.resident == self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_that_are_taken() {
        let half = |images, channels, plane| Planes { element: Element::Half, images, channels, plane };
        assert_eq!(half(128, 64, 3136).vectors(), Some(128 * 392));
        // 49 elements touch at most 7 vectors of 8: from any place in the first.
        assert_eq!(half(2, 8, 49).vectors(), Some(14));
        assert_eq!(half(2, 8, 2).vectors(), Some(4));
        let others = [half(2, 3, 49), half(0, 8, 8), half(1, 0, 8), half(1, 8, 0), half(1 << 20, 8, 1 << 20)];
        assert!(others.iter().all(|planes| planes.vectors().is_none()));
        assert!(half(usize::MAX, 8, usize::MAX).vectors().is_none());
        // Sizes as texts may name them: nothing overflows.
        assert!(half(1, 0, usize::MAX).vectors().is_none());
        let float = Planes { element: Element::Float, ..half(2, 4, 49) };
        assert_eq!((float.vectors(), float.is_whole()), (Some(2 * 13), false));
    }

    #[test]
    fn groups_are_channels_of_one_image() {
        let half = |images, channels, plane| Planes { element: Element::Half, images, channels, plane };
        assert_eq!(half(2, 32, 49).of_groups(8), half(1, 16, 4 * 49));
        // Groups that end within a vector are taken, if all elements together are whole vectors.
        assert_eq!(half(2, 4, 3).of_groups(2).vectors(), Some(2));
        let others = [half(1, 3, 3).of_groups(3), half(0, 8, 8).of_groups(2), half(1, 8, 0).of_groups(2)];
        assert!(others.iter().all(|planes| planes.vectors().is_none()));
        assert!(half(1 << 20, 8, 1 << 20).of_groups(8).vectors().is_none());
    }
}
