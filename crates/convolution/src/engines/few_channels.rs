//! Convolutions of images with few channels, such as a network's first layer. They need no workspace.

#[cfg(test)]
pub mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{Correlation, Memory, Slices};
use crate::engines::warpgroups::tile::Tile;
use crate::engines::warpgroups::{Images, MOST_COUNTED, launch_of};
use crate::problem::graph::Knob;
use gpu::jit::Function;
use gpu::{Device, Element, Stream};
use kernels::KernelSource;

/// The most channels of the images. With more, other engines waste less.
const MOST_CHANNELS: usize = 8;
/// The largest filter side, stride and padding: each combination is compiled.
const MOST_PLACES_ACROSS: usize = 16;
const MOST_STRIDE: usize = 8;

/// A convolution of images with few channels.
#[derive(Clone, Copy, Debug)]
pub struct FewChannels {
    of: Correlation,
    tile: Tile,
}

/// The parameters of `kernels/convolution/few_channels.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    height: i32,
    width: i32,
    channels: i32,
    rows: i32,
    alpha: f32,
    beta: f32,
}

impl Engine for FewChannels {
    type Problem = Correlation;
    const SOURCE: &'static KernelSource = &kernels::convolution::FEW_CHANNELS;
    const KERNELS: &'static [&'static CStr] = &[c"few_channels"];
    const IS_KEPT: bool = true;

    fn priority(_: &Correlation) -> Priority {
        Priority::OnWarpgroups
    }

    fn new(device: Device, of: &Correlation, knobs: &[Knob]) -> Option<Self> {
        // The kernel also counts positions beside a tensor, so there is room for them.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 30).contains(&count));
        let is_ours = knobs.is_empty()
            && of.element != Element::Float
            && !of.is_gradient
            && of.slices == Slices::ONE
            && of.depth <= MOST_CHANNELS
            && (1..=MOST_PLACES_ACROSS).contains(&of.filter)
            && (1..=MOST_STRIDE).contains(&of.stride)
            && of.padding < of.filter
            && of.counts().into_iter().all(is_counted)
            && device.has_warpgroup_products(device.ordinal());
        if !is_ours {
            return None;
        }
        let tile = Tile::of_correlation(of, device.shared_bytes(device.ordinal())?)?;
        (tile.blocks(of) <= MOST_COUNTED).then_some(Self { of: *of, tile })
    }

    fn problem(&self) -> &Correlation {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, tile } = self;
        let values = [("FILTER", of.filter), ("STRIDE", of.stride), ("PADDING", of.padding)];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        // Reads of two numbers are then aligned, and both are in the image or neither is.
        let words = (of.from[1].is_multiple_of(2) && of.stride.is_multiple_of(2)).then(|| "-DWORDS".to_owned());
        [of.element.option().to_owned()].into_iter().chain(values).chain(words).chain(tile.options()).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.tile.shared_bytes() as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tile } = self;
        let Memory { x: from, w, y: to, .. } = memory;
        let [channels, rows, height, width] = [of.depth, of.rows, of.from[0], of.from[1]].map(|count| count as i32);
        let images = Images::of(of.images, of.to);
        let mut parameters = Parameters { w, from, to, images, height, width, channels, rows, alpha, beta };
        let launch = launch_of(tile.blocks(of), tile.shared_bytes());
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
