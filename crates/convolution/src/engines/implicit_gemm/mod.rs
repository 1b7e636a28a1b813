//! Convolutions and input gradients on tensor cores by our own kernel, which reads NCHW directly and needs no workspace:
//! of images and volumes, with groups and dilation, and with filters, strides and paddings that differ by axis. cuDNN's
//! engines first convert both tensors, in a workspace as large as the tensors. Our kernel also multiplies floats exactly;
//! cuDNN's exact engines use no tensor cores, or a workspace of several times that size.

pub mod problem;
#[cfg(test)]
mod tests;
mod tiling;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority, is_short};
use crate::engines::problem::Memory;
use crate::problem::graph::Knob;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};
use kernels::KernelSource;
use problem::GroupedCorrelation;
use tiling::Tiling;

/// The threads of a block, as in `kernels/convolution/implicit_gemm.cu`.
const THREADS: usize = 256;
/// The most blocks of a launch.
const MOST_COUNTED: usize = 1 << 30;

/// Convolutions and input gradients on tensor cores.
#[derive(Clone, Copy, Debug)]
pub struct ImplicitGemm {
    /// Flattened if possible.
    of: GroupedCorrelation,
    tiling: Tiling,
}

/// The parameters of `kernels/convolution/implicit_gemm.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    groups: i32,
    depth: i32,
    rows: i32,
    slices: i32,
    height: i32,
    width: i32,
    z: i32,
    p: i32,
    q: i32,
    alpha: f32,
    beta: f32,
}

impl Engine for ImplicitGemm {
    type Problem = GroupedCorrelation;
    const SOURCE: &'static KernelSource = &kernels::convolution::IMPLICIT_GEMM;
    const KERNELS: &'static [&'static CStr] = &[c"implicit_gemm"];
    const IS_KEPT: bool = false;

    fn priority(of: &GroupedCorrelation) -> Priority {
        if of.is_exact || !of.is_usual() { Priority::Fast } else { Priority::Slow }
    }

    fn has_short_sums(of: &GroupedCorrelation) -> bool {
        is_short(of.element, of.depth.saturating_mul(of.places()))
    }

    fn new(device: Device, of: &GroupedCorrelation, knobs: &[Knob]) -> Option<Self> {
        if !knobs.is_empty() || !of.is_for_us() || !device.copies_asynchronously(device.ordinal()) {
            return None;
        }
        let of = of.flattened();
        let multiprocessors = device.multiprocessors(device.ordinal())?;
        let tiling = Tiling::of(&of, device.shared_bytes(device.ordinal())?, multiprocessors)?;
        (tiling.blocks(&of) <= MOST_COUNTED).then_some(Self { of, tiling })
    }

    fn problem(&self) -> &GroupedCorrelation {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        self.tiling.options(&self.of)
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.tiling.shared_bytes(&self.of) as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling } = self;
        let [from, to] = if of.is_gradient { [memory.y, memory.x] } else { [memory.x, memory.y] };
        let [images, groups, depth, rows] = [of.images, of.groups, of.depth, of.rows].map(|count| count as i32);
        let [[slices, height, width], [z, p, q]] = [of.from, of.to].map(|sizes| sizes.map(|size| size as i32));
        let mut parameters = Parameters {
            w: memory.w,
            from,
            to,
            images,
            groups,
            depth,
            rows,
            slices,
            height,
            width,
            z,
            p,
            q,
            alpha,
            beta,
        };
        let launch = Launch {
            grid: [tiling.blocks(of) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: tiling.shared_bytes(of) as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
