//! Convolutions in which each channel has filters of its own, and how blocks of the engines `depthwise` and
//! `depthwise_gradient` share out their planes. Twin of `kernels/convolution/by_channel.cuh`.

use crate::engines::problem::{Computed, Convolution, Refusal};
use crate::engines::warpgroups::{MOST_COUNTED, THREADS};
use cudnn::convolution::Direction;
use gpu::Element;

/// The largest filter and stride along an axis.
const MOST_PLACES_ACROSS: usize = 32;
const MOST_STRIDE: usize = 4;
/// The most zeros before a row, and the largest dilation.
const MOST_PADDING: usize = 256;
/// The shared memory of a block that every device has, in bytes.
const SHARED: usize = 48 << 10;
/// The most floats that a thread reads of a row: more do not fit into registers, and take minutes to compile.
const MOST_OF_ROW: usize = 128;
/// The most tiles of a block along a row.
const MOST_RIGHT: usize = 64;
/// The numbers of a thread's tile along an axis.
const TILE: usize = 4;

/// A convolution of this kind, or one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByChannel(pub Convolution);

impl Computed for ByChannel {
    const TAKES_BIAS: bool = true;

    fn of(of: &Convolution) -> Result<Self, Refusal> {
        let Convolution { inputs, outputs, groups, filter, stride, padding, dilation, .. } = *of;
        let within = |values: [usize; 3], most: usize| values.iter().all(|value| (1..=most).contains(value));
        Refusal::unless([
            (inputs == groups && outputs.is_multiple_of(groups), "channels that share a filter"),
            (within(filter, MOST_PLACES_ACROSS), "a filter of too many places"),
            (within(stride, MOST_STRIDE), "strides that are too large"),
            (within(dilation, MOST_PADDING), "a dilation that is too large"),
            (padding.iter().all(|padding| *padding <= MOST_PADDING), "a padding that is too large"),
            (!of.is_exact || of.element == Element::Float, "exact products of a type that is not float"),
        ])
        .map(|()| Self(*of))
    }

    fn convolution(&self) -> Convolution {
        self.0
    }
}

impl ByChannel {
    /// Returns whether the kernels can count all elements, and the places that each axis reads.
    pub fn is_counted(&self) -> bool {
        let Convolution { images, inputs, outputs, x, y, filter, stride, .. } = self.0;
        if (0..3).any(|axis| y[axis].saturating_mul(stride[axis]) >= MOST_COUNTED) {
            return false;
        }
        let tensors = [([images, inputs], x), ([images, outputs], y), ([1, outputs], filter)];
        tensors.into_iter().all(|(counts, sizes)| {
            let elements = counts.iter().chain(&sizes).fold(1_usize, |product, size| product.saturating_mul(*size));
            (1..MOST_COUNTED).contains(&elements)
        })
    }

    /// The elements of all filters.
    pub fn filter_elements(&self) -> usize {
        self.0.outputs * self.0.filter.iter().product::<usize>()
    }

    /// The filters of each channel of x.
    pub fn each(&self) -> usize {
        self.0.outputs / self.0.inputs
    }

    /// Returns whether each channel that is written is of one channel and one filter.
    pub fn has_one_filter(&self) -> bool {
        match self.0.direction {
            Direction::Forward => true,
            Direction::BackwardData => self.each() == 1,
            Direction::BackwardFilter => false,
        }
    }

    /// The channels of the tensor that is written, where that is no filter's gradient.
    pub fn channels_written(&self) -> usize {
        if self.0.direction == Direction::BackwardData { self.0.inputs } else { self.0.outputs }
    }

    /// The sizes of the tensor that the kernel reads in shared memory, and of the one that its tiles are of.
    pub fn read_and_written(&self) -> [[usize; 3]; 2] {
        let Convolution { direction, x, y, .. } = self.0;
        if direction == Direction::BackwardData { [y, x] } else { [x, y] }
    }

    /// The rows, or the columns: axis 1 or 2, where a block has this number of the filter's places.
    pub fn axis(&self, axis: usize, places: usize) -> Axis {
        let Convolution { direction, stride, dilation, padding, .. } = self.0;
        let (is_gradient, [_, to]) = (direction == Direction::BackwardData, self.read_and_written());
        let stride = stride[axis];
        let tile = match (is_gradient, stride) {
            (false, _) | (true, 1) if to[axis] == 1 => 1,
            // Strides divide the tile.
            (true, 3) => 3,
            _ => TILE,
        };
        Axis { places, stride, dilation: dilation[axis], padding: padding[axis], tile, is_gradient }
    }
}

/// The rows or the columns of a block, as in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    places: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
    /// The numbers of a thread's tile.
    pub tile: usize,
    is_gradient: bool,
}

impl Axis {
    /// The numbers that a tile reads.
    fn read(&self) -> usize {
        let Self { places, stride, dilation, padding, tile, is_gradient } = *self;
        let reach = (places - 1) * dilation;
        if is_gradient {
            let [least, most] = [padding as i64 - reach as i64, (tile - 1 + padding) as i64];
            (most.div_euclid(stride as i64) - least.div_euclid(stride as i64) + 1) as usize
        } else {
            (tile - 1) * stride + reach + 1
        }
    }

    /// From what a tile reads to what the next one reads.
    fn step(&self) -> usize {
        if self.is_gradient { self.tile / self.stride } else { self.tile * self.stride }
    }

    /// How many numbers a thread reads of a row in shared memory.
    fn line(&self) -> usize {
        let together = [4, 2, 1].into_iter().find(|&together| self.step().is_multiple_of(together)).unwrap_or(1);
        self.read().next_multiple_of(together)
    }

    /// The part of the padding that is compiled: of a gradient of the input, it decides which places meet.
    fn compiled_padding(&self) -> Option<usize> {
        self.is_gradient.then_some(self.padding % self.stride)
    }

    /// What the rest of the padding adds to the numbers that are read.
    pub fn moved(&self) -> i32 {
        let rest = self.padding - self.compiled_padding().unwrap_or(0);
        if self.is_gradient { (rest / self.stride) as i32 } else { -(rest as i32) }
    }

    /// The compiler's options for it.
    pub fn options(&self, name: &str) -> impl Iterator<Item = String> + use<> {
        let Self { places, stride, dilation, tile, .. } = *self;
        let values = [("FILTER", places), ("STRIDE", stride), ("DILATION", dilation), ("TILE", tile)];
        let values = values.into_iter().chain(self.compiled_padding().map(|padding| ("PADDING", padding)));
        let name = name.to_owned();
        values.map(move |(what, value)| format!("-D{what}_{name}={value}"))
    }
}

/// How a block's tiles lie. Twin of the struct in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Block {
    pub down: i32,
    pub right: i32,
    pub planes: i32,
    rows: i32,
    pitch: i32,
}

impl Block {
    /// As many tiles as a block has threads, of rows as long as possible, and of several planes where one has fewer
    /// tiles. `None` if a single tile reads too much for shared memory, or too much of a row.
    pub fn of([rows, columns]: [Axis; 2], [height, width]: [usize; 2], planes: usize) -> Option<Self> {
        if columns.line() > MOST_OF_ROW {
            return None;
        }
        let evenly = |count: usize, most: usize| count.div_ceil(count.div_ceil(most.clamp(1, count)));
        let [all_down, all_right] = [height.div_ceil(rows.tile), width.div_ceil(columns.tile)];
        let mut right = evenly(all_right, MOST_RIGHT);
        let mut down = evenly(all_down, THREADS / right);
        let mut planes = (THREADS / (right * down)).min(planes).max(1);
        loop {
            let its = Self {
                down: down as i32,
                right: right as i32,
                planes: planes as i32,
                rows: ((down - 1) * rows.step() + rows.read()) as i32,
                // Two numbers and four begin aligned.
                pitch: ((right - 1) * columns.step() + columns.line()).next_multiple_of(4) as i32,
            };
            if its.shared_bytes() <= SHARED {
                return Some(its);
            }
            match (planes, down, right) {
                (2.., _, _) => planes -= 1,
                (_, 2.., _) => down = evenly(all_down, down - 1),
                (_, _, 2..) => right = evenly(all_right, right - 1),
                _ => return None,
            }
        }
    }

    pub fn shared_bytes(&self) -> usize {
        let Self { planes, rows, pitch, .. } = *self;
        [planes, rows, pitch].iter().fold(size_of::<f32>(), |bytes, count| bytes.saturating_mul(*count as usize))
    }

    /// The tiles of this number of planes, as blocks have them.
    pub fn count(&self, [rows, columns]: [Axis; 2], [height, width]: [usize; 2], planes: usize) -> usize {
        let Self { down, right, planes: at_once, .. } = *self;
        let along = |size: usize, count: i32, axis: Axis| size.div_ceil(count as usize * axis.tile);
        along(height, down, rows) * along(width, right, columns) * planes.div_ceil(at_once as usize)
    }
}

/// Twin of the struct in the kernels.
#[repr(C)]
pub struct Planes([i32; 3]);

impl Planes {
    pub fn of(sizes: [usize; 3]) -> Self {
        Self(sizes.map(|size| size as i32))
    }
}

/// Twin of the struct in the kernels.
#[repr(C)]
pub struct SliceAxis {
    filter: i32,
    stride: i32,
    dilation: i32,
    padding: i32,
}

impl SliceAxis {
    pub fn of(ByChannel(of): &ByChannel) -> Self {
        let [filter, stride, dilation, padding] =
            [of.filter, of.stride, of.dilation, of.padding].map(|values| values[0] as i32);
        Self { filter, stride, dilation, padding }
    }
}
