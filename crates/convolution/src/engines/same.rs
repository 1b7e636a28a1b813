//! Convolutions whose results have the size of their input, their input gradients, and convolutions by 1×1 filters with
//! strides. They need no workspace.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{Correlation, Memory, Slices};
use crate::engines::warpgroups::tile::Tile;
use crate::engines::warpgroups::{Images, MOST_COUNTED, is_for_warpgroups, is_same, launch_of};
use crate::problem::graph::Knob;
use gpu::jit::Function;
use gpu::{Device, Stream};
use kernels::KernelSource;

/// A convolution whose result has the size of its input, or an input gradient, or a convolution by a 1×1 filter with
/// strides.
#[derive(Clone, Copy, Debug)]
pub struct SameConvolution {
    of: Correlation,
    tile: Tile,
}

/// The parameters of `kernels/convolution/same.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    from_images: Images,
    channels: i32,
    rows: i32,
    alpha: f32,
    beta: f32,
}

impl Engine for SameConvolution {
    type Problem = Correlation;
    const SOURCE: &'static KernelSource = &kernels::convolution::SAME;
    const KERNELS: &'static [&'static CStr] = &[c"same"];
    const IS_KEPT: bool = true;

    fn priority(_: &Correlation) -> Priority {
        Priority::OnWarpgroups
    }

    fn new(device: Device, of: &Correlation, knobs: &[Knob]) -> Option<Self> {
        // Filters are read 8 at once.
        let along = if of.is_gradient { of.rows } else { of.depth };
        let is_sample = is_for_warpgroups(device, of) && (of.filter, of.padding) == (1, 0);
        let is_ours = (is_same(device, of) || is_sample)
            && of.slices == Slices::ONE
            && of.depth.is_multiple_of(8)
            && along.is_multiple_of(8);
        if !is_ours || !knobs.is_empty() {
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
        let gradient = of.is_gradient.then(|| "-DGRADIENT".to_owned());
        let stride = (of.stride > 1).then(|| format!("-DSTRIDE={}", of.stride));
        let own = [of.element.option().to_owned(), format!("-DFILTER={}", of.filter)];
        own.into_iter().chain(stride).chain(tile.options()).chain(gradient).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.tile.shared_bytes() as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tile } = self;
        let [from, to] = of.images_in(memory);
        let [channels, rows] = [of.depth, of.rows].map(|count| count as i32);
        let [images, from_images] = [of.to, of.from].map(|size| Images::of(of.images, size));
        let mut parameters = Parameters { w: memory.w, from, to, images, from_images, channels, rows, alpha, beta };
        let launch = launch_of(tile.blocks(of), tile.shared_bytes());
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
