//! Gradients of 3×3 filters of convolutions whose results have the size of their input, also of volumes: the products of
//! a filter's row read the same pixels, shifted.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::backward_filter::MOST_SUMMED;
use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{FilterGradient, Memory, Slices};
use crate::engines::shifted::result_slices;
use crate::engines::sum_up::{MOST_PARTS, Sum, knobs_of, parts_of, workspace_of};
use crate::engines::warpgroups::tile::{ROWS, access};
use crate::engines::warpgroups::{
    GROUP, Images, MOST_COUNTED, THREADS, is_gradient_for_warpgroups, launch_of, options_of,
};
use crate::problem::graph::Knob;
use gpu::jit::Function;
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The filter's rows, which equal its columns.
const FILTER: usize = 3;
/// The columns of a tile.
const COLUMNS: usize = 128;
/// The groups of a chunk, as in `kernels/convolution/shifted_gradient.cu`.
const CHUNK_GROUPS: usize = 14;
/// The bytes of a chunk: two blocks of lines of x, and one of dy, each with the lines of two more groups.
const CHUNK_BYTES: usize = 3 * (CHUNK_GROUPS + 2) * GROUP * 64 * 2;
const SHARED_BYTES: usize = 2 * CHUNK_BYTES;
/// Times in microseconds: of a chunk, and of a million elements' sums in one part. The chunks that take as long as a
/// block's begin and end. Measured on an H100.
const CHUNK_TIME: f64 = 1.0;
const SUM_TIME: f64 = 4.0;
const ENDS: usize = 4;
/// How many times as long as in the fastest number of parts it may take for images.
const MOST_SLOWER: f64 = 2.0;

/// The gradient of a filter.
#[derive(Clone, Copy, Debug)]
pub struct ShiftedGradient {
    of: FilterGradient,
    /// The parts of the pixels.
    parts: usize,
}

/// The parameters of `kernels/convolution/shifted_gradient.cu`.
#[repr(C)]
struct Parameters {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    sums: *mut c_void,
    images: Images,
    rows: i32,
    channels: i32,
    parts: i32,
    alpha: f32,
    beta: f32,
}

impl ShiftedGradient {
    /// The neighbouring slices of dy whose channels a tile's rows are. Each has sums of its own.
    fn result_slices(&self) -> usize {
        result_slices(self.of.k, self.of.slices)
    }

    /// The tiles of the filter.
    fn tiles(&self) -> usize {
        let Self { of, .. } = self;
        let slices = of.slices.filter + self.result_slices() - 1;
        let columns = slices * FILTER * of.c;
        of.k.div_ceil(ROWS / self.result_slices()) * columns.div_ceil(COLUMNS)
    }

    /// The chunks of all images, with zeros behind each row.
    fn chunks(&self) -> usize {
        let Self { of, .. } = self;
        let [height, width] = of.dy;
        let images = of.images.saturating_mul(of.slices.count.div_ceil(self.result_slices()));
        let groups = height * (width + FILTER / 2).div_ceil(GROUP);
        images.saturating_mul(groups).div_ceil(CHUNK_GROUPS)
    }

    /// About the time on this number of multiprocessors, in microseconds. It serves to compare numbers of parts.
    fn time(&self, multiprocessors: usize) -> f64 {
        let rounds = (self.tiles() * self.parts).div_ceil(multiprocessors);
        let chunks = rounds * (self.chunks().div_ceil(self.parts) + ENDS);
        let sums = if self.sums() > 1 { self.sums() } else { 0 };
        CHUNK_TIME * chunks as f64 + SUM_TIME * (sums * self.of.elements()) as f64 / 1e6
    }

    /// The sums of each element.
    fn sums(&self) -> usize {
        self.parts * self.result_slices()
    }

    /// Returns whether the kernel computes the gradient in this number of parts.
    fn is_possible(&self) -> bool {
        let Self { of, parts } = self;
        // The kernel counts groups of pixels, and a chunk behind them; and elements of a tensor.
        let places = of.images.saturating_mul(of.slices.count).saturating_mul(of.dy[0] * of.dy[1]);
        let elements = |channels: usize| places.saturating_mul(channels);
        let groups = self.chunks().saturating_mul(CHUNK_GROUPS);
        let counts = [groups, elements(of.k), elements(of.c), self.tiles().saturating_mul(*parts)];
        counts.iter().all(|count| *count <= MOST_COUNTED)
            && self.chunks().div_ceil(*parts) * CHUNK_GROUPS * GROUP <= MOST_SUMMED
    }
}

/// Returns whether the kernel computes gradients like this one on the device.
fn is_ours(device: Device, of: &FilterGradient) -> bool {
    is_gradient_for_warpgroups(of)
        && (of.filter, of.stride, of.padding) == ([FILTER; 2], 1, FILTER / 2)
        && of.x == of.dy
        // A thread reads four channels at once, and tensors are whole reads of 8 elements.
        && of.k.is_multiple_of(8)
        && of.c.is_multiple_of(8)
        && device.has_warpgroup_products(device.ordinal())
        && device.shared_bytes(device.ordinal()).is_some_and(|shared| SHARED_BYTES <= shared)
}

impl Engine for ShiftedGradient {
    type Problem = FilterGradient;
    const SOURCE: &'static KernelSource = &kernels::convolution::SHIFTED_GRADIENT;
    const KERNELS: &'static [&'static CStr] = &[c"shifted_gradient", c"sum_up"];
    const IS_KEPT: bool = true;

    fn priority(_: &FilterGradient) -> Priority {
        Priority::OnWarpgroups
    }

    /// The fastest number of parts within the limit. None if that is far from the fastest of all: the engine that shares
    /// the pixels out in clusters, without workspace, is then faster. It computes no volumes.
    fn choices(device: Device, of: &FilterGradient, limit: usize) -> Vec<Vec<Knob>> {
        let Some(multiprocessors) = device.multiprocessors(device.ordinal()).filter(|_| is_ours(device, of)) else {
            return vec![];
        };
        let engines = (1..=MOST_PARTS).map(|parts| Self { of: *of, parts }).filter(Self::is_possible);
        let timed: Vec<_> = engines.map(|engine| (engine, engine.time(multiprocessors))).collect();
        let least = |limit: usize| {
            let within = timed.iter().filter(|(engine, _)| engine.workspace() <= limit);
            within.min_by(|(_, one), (_, other)| one.total_cmp(other))
        };
        let (Some((best, time)), Some((_, least))) = (least(limit), least(usize::MAX)) else { return vec![] };
        let is_fast = of.slices != Slices::ONE || *time <= MOST_SLOWER * least;
        is_fast.then(|| knobs_of(best.parts)).into_iter().collect()
    }

    fn new(device: Device, of: &FilterGradient, knobs: &[Knob]) -> Option<Self> {
        let parts = parts_of(knobs)?;
        Some(Self { of: *of, parts }).filter(|it| is_ours(device, of) && it.is_possible())
    }

    fn problem(&self) -> &FilterGradient {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, .. } = self;
        let own = [of.element.option().to_owned(), format!("-DFILTER={FILTER}")];
        let access = format!("-DACCESS={}", access(of.dy[1]));
        let slices = (self.result_slices() > 1).then(|| format!("-DRESULT_SLICES={}", self.result_slices()));
        own.into_iter().chain([access]).chain(options_of(of.slices)).chain(slices).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(SHARED_BYTES as u32)?)
    }

    /// The parts' sums.
    fn workspace(&self) -> usize {
        workspace_of(self.sums(), self.of.elements())
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, parts } = self;
        let Memory { x, w: dw, y: dy, workspace: sums, .. } = memory;
        let [rows, channels, parts] = [of.k, of.c, *parts].map(|count| count as i32);
        let images = Images::of_volumes(of.images, of.slices, self.result_slices(), of.dy);
        let mut parameters = Parameters { x, dy, dw, sums, images, rows, channels, parts, alpha, beta };
        let launch = launch_of(self.tiles() * self.parts, SHARED_BYTES);
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        let launched = unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) };
        let (elements, count) = (of.elements() as i32, self.sums() as i32);
        let summed = Sum { sums: sums.cast_const(), dw, elements, count, alpha, beta };
        // SAFETY: the caller promises dw and the workspace. Both kernels have this number of threads.
        unsafe { summed.launch_after(launched.is_ok(), &kernels[1], THREADS, stream) }
    }
}
