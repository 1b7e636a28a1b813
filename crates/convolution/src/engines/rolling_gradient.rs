//! Gradients of filters of 3×3×3 of convolutions whose results have the size of their input: a slice of x is read once for
//! the three slices of dy that it meets.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::backward_filter::MOST_SUMMED;
use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{FilterGradient, Memory};
use crate::engines::sum_up::{MOST_PARTS, Sum, knobs_of, parts_of, workspace_of};
use crate::engines::warpgroups::strips::{FILTER, LINE, LINE_BYTES, MBARRIERS, STRIP, Strips, THREADS, sources_bytes};
use crate::engines::warpgroups::tile::access;
use crate::engines::warpgroups::{GROUP, Images, MOST_COUNTED, is_gradient_for_warpgroups, options_of};
use crate::problem::graph::Knob;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The stages of x, and the places of slices of dy, as in `kernels/convolution/rolling_gradient.cu`.
const X_STAGES: usize = 2;
const DY_PLACES: usize = 6;
/// The fewest channels of x and of dy: with fewer, most products would be empty.
const LEAST_CHANNELS: usize = 16;

/// The gradient of a filter.
#[derive(Clone, Copy, Debug)]
pub struct RollingGradient {
    of: FilterGradient,
    strips: Strips,
    /// The parts of the strips' slices.
    parts: usize,
}

/// The parameters of `rolling_gradient`.
#[repr(C)]
struct Parameters {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    sums: *mut c_void,
    images: Images,
    rows: i32,
    channels: i32,
    width: i32,
    lines: i32,
    parts: i32,
    alpha: f32,
    beta: f32,
}

impl RollingGradient {
    fn with(of: &FilterGradient, parts: usize) -> Self {
        Self { of: *of, strips: Strips::of(of.images, of.slices, of.dy), parts }
    }

    /// The tiles of the filter.
    fn tiles(&self) -> usize {
        self.of.k.div_ceil(LINE) * self.of.c.div_ceil(LINE)
    }

    fn shared_bytes(&self) -> usize {
        let lines = self.strips.lines();
        let slices = X_STAGES * lines + DY_PLACES * STRIP;
        slices * LINE_BYTES + X_STAGES * MBARRIERS + sources_bytes(lines) + sources_bytes(STRIP)
    }

    /// In as many parts as fill the device's multiprocessors, or fewer within a limit of the workspace. `None` if the kernel
    /// does not compute the gradient in so few.
    fn within(of: &FilterGradient, multiprocessors: usize, limit: usize) -> Option<Self> {
        let one = Self::with(of, 1);
        let most = one.strips.parts(one.tiles(), multiprocessors).min(MOST_PARTS);
        let within = (1..=most).rev().map(|parts| Self { parts, ..one }).find(|it| it.workspace() <= limit);
        within.filter(Self::is_possible)
    }

    /// Returns whether the kernel computes the gradient in this number of parts.
    fn is_possible(&self) -> bool {
        let Self { strips, parts, .. } = self;
        let counts = [strips.slices, self.tiles().saturating_mul(*parts)];
        counts.iter().all(|count| *count <= MOST_COUNTED)
            && strips.slices.div_ceil(*parts).saturating_mul(STRIP) <= MOST_SUMMED
    }
}

/// Returns whether the kernel computes gradients like this one on the device.
fn is_ours(device: Device, of: &FilterGradient) -> bool {
    is_gradient_for_warpgroups(of)
        && (of.filter, of.slices.filter, of.stride, of.padding) == ([FILTER; 2], FILTER, 1, FILTER / 2)
        && of.x == of.dy
        && [of.k, of.c].iter().all(|channels| channels.is_multiple_of(GROUP) && *channels >= LEAST_CHANNELS)
        && device.has_warpgroup_products(device.ordinal())
        && device.shared_bytes(device.ordinal()).is_some_and(|most| RollingGradient::with(of, 1).shared_bytes() <= most)
}

impl Engine for RollingGradient {
    type Problem = FilterGradient;
    const SOURCE: &'static KernelSource = &kernels::convolution::ROLLING_GRADIENT;
    const KERNELS: &'static [&'static CStr] = &[c"rolling_gradient", c"sum_up"];
    const IS_KEPT: bool = true;

    fn priority(_: &FilterGradient) -> Priority {
        Priority::OnWarpgroups
    }

    fn choices(device: Device, of: &FilterGradient, limit: usize) -> Vec<Vec<Knob>> {
        let multiprocessors = device.multiprocessors(device.ordinal()).filter(|_| is_ours(device, of));
        let within = multiprocessors.and_then(|multiprocessors| Self::within(of, multiprocessors, limit));
        within.map(|it| knobs_of(it.parts)).into_iter().collect()
    }

    fn new(device: Device, of: &FilterGradient, knobs: &[Knob]) -> Option<Self> {
        let parts = parts_of(knobs)?;
        Some(Self::with(of, parts)).filter(|it| is_ours(device, of) && it.is_possible())
    }

    fn problem(&self) -> &FilterGradient {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, .. } = self;
        let access = access(of.dy[0] * of.dy[1]);
        let own = [of.element.option().to_owned(), format!("-DFILTER={FILTER}"), format!("-DACCESS={access}")];
        own.into_iter().chain(options_of(of.slices)).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.shared_bytes() as u32)?)
    }

    /// The parts' sums.
    fn workspace(&self) -> usize {
        workspace_of(self.parts, self.of.elements())
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, strips, parts } = self;
        let Memory { x, w: dw, y: dy, workspace: sums, .. } = memory;
        let counts = [of.k, of.c, strips.width, strips.lines(), *parts].map(|count| count as i32);
        let [rows, channels, width, lines, count] = counts;
        let images = Images::of_volumes(of.images, of.slices, 1, of.dy);
        let mut parameters =
            Parameters { x, dy, dw, sums, images, rows, channels, width, lines, parts: count, alpha, beta };
        let launch = Launch {
            grid: [(self.tiles() * parts) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: self.shared_bytes() as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        let launched = unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) };
        let summed = Sum { sums: sums.cast_const(), dw, elements: of.elements() as i32, count, alpha, beta };
        // SAFETY: the caller promises dw and the workspace. Both kernels have this number of threads.
        unsafe { summed.launch_after(launched.is_ok(), &kernels[1], THREADS, stream) }
    }
}
