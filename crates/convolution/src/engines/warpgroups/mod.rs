//! Shared by our engines on the tensor cores of warpgroups. Their kernels read NCHW directly, whatever the alignment of
//! an image's rows. cuDNN's engines first convert both tensors.

pub mod strips;
#[cfg(test)]
pub mod tests;
pub mod tile;

use super::problem::{Correlation, FilterGradient, Slices};
use gpu::jit::Launch;
use gpu::{Device, Element};

/// Threads of a block in all of these kernels.
pub const THREADS: usize = 256;
/// The pixels of a group.
pub const GROUP: usize = 8;
/// The most blocks of a launch, and of pixels that a kernel counts.
pub const MOST_COUNTED: usize = 1 << 30;
/// The largest filter side.
const MOST_PLACES_ACROSS: usize = 5;
/// With fewer channels on either side, most of a block would be idle.
const LEAST_DEPTH: usize = 16;
const LEAST_ROWS: usize = 32;

/// Returns whether the device has the products that a correlation needs, and the result has its input's size.
pub fn is_same(device: Device, of: &Correlation) -> bool {
    is_for_warpgroups(device, of) && (of.stride, of.padding) == (1, of.filter / 2) && of.from == of.to
}

/// Returns whether the kernels support a correlation with enough work in it, and the device has the products that it
/// needs.
pub fn is_for_warpgroups(device: Device, of: &Correlation) -> bool {
    // The kernels also count positions beside a tensor, so the lengths leave room for them.
    let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 31).contains(&count));
    let is_small = |lengths: &[usize; 2]| lengths.iter().all(|length| *length < 1 << 28);
    of.element != Element::Float
        && !of.is_exact
        && of.filter % 2 == 1
        && of.filter <= MOST_PLACES_ACROSS
        && of.padding < of.filter
        && (1..=2).contains(&of.stride)
        && !(of.is_gradient && of.stride > 1)
        && of.depth >= LEAST_DEPTH
        && of.rows >= LEAST_ROWS
        && is_small(&of.from)
        && is_small(&of.to)
        && of.counts().into_iter().all(is_counted)
        && device.has_warpgroup_products(device.ordinal())
}

/// Returns whether the kernels can count what a filter gradient in a two-byte type has, and its filter is not too large.
pub fn is_gradient_for_warpgroups(of: &FilterGradient) -> bool {
    let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
    let images = [of.images, of.slices.count];
    let filters = [of.k, of.c, of.slices.filter, of.filter[0], of.filter[1]];
    let counts = [&images[..], &of.x, &of.dy, &filters].map(product);
    // The kernels also count positions beside a tensor, so the limit leaves room for them.
    let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 30).contains(&count));
    of.element != Element::Float
        && of.filter.iter().all(|places| (1..=MOST_PLACES_ACROSS).contains(places))
        && (1..=2).contains(&of.stride)
        && of.padding < of.filter[0].min(of.filter[1])
        && counts.into_iter().all(is_counted)
}

/// A launch of `blocks` blocks, each with `shared_bytes` bytes of shared memory.
pub fn launch_of(blocks: usize, shared_bytes: usize) -> Launch {
    Launch {
        grid: [blocks as u32, 1, 1],
        block: [THREADS as u32, 1, 1],
        shared_bytes: shared_bytes as u32,
        ..Launch::default()
    }
}

/// Twin of `Images` in `kernels/convolution/groups.cuh`.
#[repr(C)]
pub struct Images {
    count: i32,
    height: i32,
    width: i32,
    depth: i32,
}

impl Images {
    pub fn of(count: usize, [height, width]: [usize; 2]) -> Self {
        Self { count: count as i32, height: height as i32, width: width as i32, depth: 1 }
    }

    /// Those of this number of volumes, each of which is `at_once` slices.
    pub fn of_volumes(count: usize, slices: Slices, at_once: usize, sizes: [usize; 2]) -> Self {
        let images = count * slices.count.div_ceil(at_once);
        Self { depth: slices.count as i32, ..Self::of(images, sizes) }
    }
}

/// The compiler's options for volumes.
pub fn options_of(slices: Slices) -> impl Iterator<Item = String> {
    let is_volume = slices != Slices::ONE;
    let options = is_volume.then(|| ["-DVOLUMES".to_owned(), format!("-DSLICES={}", slices.filter)]);
    options.into_iter().flatten()
}
