//! Convolutions of volumes by filters of 3×3×3 and few channels, and their input gradients: a slice is read once for the
//! three slices of the result that it has a part in.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{Correlation, Memory};
use crate::engines::warpgroups::strips::{FILTER, LINE, LINE_BYTES, MBARRIERS, Strips, THREADS, sources_bytes};
use crate::engines::warpgroups::tile::access;
use crate::engines::warpgroups::{GROUP, Images, MOST_COUNTED, is_same, options_of};
use crate::problem::graph::Knob;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The channels of a block's results.
const ROWS: usize = 32;
/// The bytes of the filters of a line's channels.
const FILTER_BYTES: usize = FILTER * FILTER * FILTER * ROWS * LINE_BYTES;
/// The bytes of the sums of all warps that multiply, on their way to the tensor.
const SUMS: usize = 8 * (ROWS / 2) * 20 * size_of::<f32>();
/// The most and the fewest stages: one is multiplied, and the others are on their way.
const MOST_STAGES: usize = 4;
const LEAST_STAGES: usize = 2;

/// How blocks work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    strips: Strips,
    stages: usize,
    /// The blocks that share out the strips.
    parts: usize,
}

impl Tiling {
    /// The fastest tiling for a device with these multiprocessors, on which a block may have `shared` bytes of shared
    /// memory. `None` if the bytes are too few.
    fn of(of: &Correlation, shared: usize, multiprocessors: usize) -> Option<Self> {
        let strips = Strips::of(of.images, of.slices, of.from);
        let parts = strips.parts(of.rows.div_ceil(ROWS), multiprocessors);
        let at_stages = |stages| Self { strips, stages, parts };
        (LEAST_STAGES..=MOST_STAGES).rev().map(at_stages).find(|tiling| tiling.shared_bytes(of) <= shared)
    }

    fn shared_bytes(&self, of: &Correlation) -> usize {
        let lines = self.strips.lines();
        let filters = of.depth.div_ceil(LINE) * FILTER_BYTES;
        filters + self.stages * (lines * LINE_BYTES + MBARRIERS) + SUMS + sources_bytes(lines)
    }
}

/// A convolution of volumes by a filter of 3×3×3, or its input gradient.
#[derive(Clone, Copy, Debug)]
pub struct RollingConvolution {
    of: Correlation,
    tiling: Tiling,
}

/// The parameters of `rolling`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    channels: i32,
    rows: i32,
    width: i32,
    lines: i32,
    stages: i32,
    parts: i32,
    alpha: f32,
    beta: f32,
}

impl Engine for RollingConvolution {
    type Problem = Correlation;
    const SOURCE: &'static KernelSource = &kernels::convolution::ROLLING;
    const KERNELS: &'static [&'static CStr] = &[c"rolling"];
    const IS_KEPT: bool = true;

    fn priority(_: &Correlation) -> Priority {
        Priority::OnWarpgroups
    }

    fn new(device: Device, of: &Correlation, knobs: &[Knob]) -> Option<Self> {
        let is_ours = is_same(device, of) && of.filter == FILTER && of.slices.filter == FILTER;
        if !knobs.is_empty() || !is_ours || !of.depth.is_multiple_of(GROUP) {
            return None;
        }
        let ordinal = device.ordinal();
        let tiling = Tiling::of(of, device.shared_bytes(ordinal)?, device.multiprocessors(ordinal)?)?;
        (tiling.strips.slices <= MOST_COUNTED).then_some(Self { of: *of, tiling })
    }

    fn problem(&self) -> &Correlation {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, .. } = self;
        let gradient = of.is_gradient.then(|| "-DGRADIENT".to_owned());
        let access = access(of.from[0] * of.from[1]);
        let own = [of.element.option().to_owned(), format!("-DFILTER={FILTER}"), format!("-DACCESS={access}")];
        own.into_iter().chain(options_of(of.slices)).chain(gradient).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.tiling.shared_bytes(&self.of) as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling: Tiling { strips, stages, parts } } = self;
        let [from, to] = of.images_in(memory);
        let images = Images::of_volumes(of.images, of.slices, 1, of.from);
        let counts = [of.depth, of.rows, strips.width, strips.lines(), *stages, *parts];
        let [channels, rows, width, lines, stages, parts] = counts.map(|count| count as i32);
        let mut parameters =
            Parameters { w: memory.w, from, to, images, channels, rows, width, lines, stages, parts, alpha, beta };
        let launch = Launch {
            grid: [(self.tiling.parts * of.rows.div_ceil(ROWS)) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: self.tiling.shared_bytes(of) as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
