//! Gradients of the filters of convolutions in which each channel has filters of its own, in float arithmetic.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::by_channel::{Axis, Block, ByChannel, Planes, SliceAxis};
use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::Memory;
use crate::engines::sum_up::{Sum, knobs_of, parts_of, parts_within, workspace_of};
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use gpu::jit::Function;
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The most places of a filter that a thread has sums for.
const MOST_PLACES: usize = 64;
/// As many blocks share a multiprocessor, about.
const BLOCKS: usize = 4;
/// The tiles of a part: at least so many that the end of a block, which takes about as long as two, is a small share;
/// and at most so many that the part's sums stay exact.
const LEAST_TILES: usize = 4;
const MOST_TILES: usize = 512;

/// The gradient of a filter.
#[derive(Clone, Copy, Debug)]
pub struct DepthwiseGradient {
    of: ByChannel,
    axes: [Axis; 2],
    /// The filter's rows of a block.
    rows: usize,
    block: Block,
    parts: usize,
}

/// The parameters of `kernels/convolution/depthwise_gradient.cu`.
#[repr(C)]
struct Parameters {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    sums: *mut c_void,
    channels: i32,
    each: i32,
    count: i32,
    filter_rows: i32,
    padding_rows: i32,
    padding_columns: i32,
    from: Planes,
    to: Planes,
    slices: SliceAxis,
    block: Block,
    parts: i32,
    alpha: f32,
    beta: f32,
}

impl DepthwiseGradient {
    /// Cuts the gradient. `None` if what a tile reads does not fit into shared memory.
    fn cut(of: &ByChannel, parts: usize) -> Option<Self> {
        let [_, filter_rows, filter_columns] = of.0.filter;
        let rows = (MOST_PLACES / filter_columns).clamp(1, filter_rows);
        let axes = [of.axis(1, rows), of.axis(2, filter_columns)];
        let block = Block::of(axes, [of.0.y[1], of.0.y[2]], of.0.images * of.0.y[0])?;
        Some(Self { of: *of, axes, rows, block, parts })
    }

    /// Returns whether the kernel computes it in this number of parts.
    fn is_possible(&self) -> bool {
        let counts = [self.filters(), self.of.filter_elements()].map(|count| count.saturating_mul(self.parts));
        counts.iter().all(|count| *count < MOST_COUNTED) && self.tiles().div_ceil(self.parts) <= MOST_TILES
    }

    /// The planes of dy of a channel, in all images.
    fn count(&self) -> usize {
        self.of.0.images * self.of.0.y[0]
    }

    /// A channel's tiles.
    fn tiles(&self) -> usize {
        self.block.count(self.axes, [self.of.0.y[1], self.of.0.y[2]], self.count())
    }

    /// The blocks that share out the channels' filters.
    fn filters(&self) -> usize {
        let [slices, rows, _] = self.of.0.filter;
        self.of.0.outputs.saturating_mul(slices).saturating_mul(rows.div_ceil(self.rows))
    }
}

/// Returns whether the kernel computes gradients like this one on the device.
fn is_ours(device: Device, of: &ByChannel) -> bool {
    of.0.direction == Direction::BackwardFilter && of.is_counted() && device.multiprocessors(device.ordinal()).is_some()
}

impl Engine for DepthwiseGradient {
    type Problem = ByChannel;
    const SOURCE: &'static KernelSource = &kernels::convolution::DEPTHWISE_GRADIENT;
    const KERNELS: &'static [&'static CStr] = &[c"depthwise_gradient", c"sum_up"];
    const IS_KEPT: bool = false;

    fn priority(_: &ByChannel) -> Priority {
        Priority::Fast
    }

    /// As many parts as fill the device, within the limit.
    fn choices(device: Device, of: &ByChannel, limit: usize) -> Vec<Vec<Knob>> {
        let multiprocessors = device.multiprocessors(device.ordinal()).filter(|_| is_ours(device, of));
        let whole = multiprocessors.and_then(|count| Some((count, Self::cut(of, 1)?)));
        let Some((multiprocessors, whole)) = whole else { return vec![] };
        let tiles = whole.tiles();
        let wanted = (BLOCKS * multiprocessors).div_ceil(whole.filters()).min(tiles / LEAST_TILES);
        let parts = parts_within(limit, of.filter_elements(), [tiles, MOST_TILES], |_| wanted);
        let is_possible = Self { parts, ..whole }.is_possible();
        is_possible.then(|| knobs_of(parts)).into_iter().collect()
    }

    fn new(device: Device, of: &ByChannel, knobs: &[Knob]) -> Option<Self> {
        let parts = parts_of(knobs)?;
        if is_ours(device, of) { Self::cut(of, parts).filter(Self::is_possible) } else { None }
    }

    fn problem(&self) -> &ByChannel {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let [rows, columns] = self.axes;
        let element = self.of.0.element.option().to_owned();
        let axes = rows.options("ROWS").chain(columns.options("COLUMNS"));
        [element].into_iter().chain(axes).collect()
    }

    fn allow(&self, _: Device, _: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    /// The parts' sums.
    fn workspace(&self) -> usize {
        workspace_of(self.parts, self.of.filter_elements())
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, block, parts, .. } = self;
        let Memory { x, w: dw, y: dy, workspace: sums, .. } = memory;
        let [from, to] = of.read_and_written().map(Planes::of);
        let mut parameters = Parameters {
            x,
            dy,
            dw,
            sums,
            channels: of.0.outputs as i32,
            each: of.each() as i32,
            count: self.count() as i32,
            filter_rows: of.0.filter[1] as i32,
            padding_rows: of.0.padding[1] as i32,
            padding_columns: of.0.padding[2] as i32,
            from,
            to,
            slices: SliceAxis::of(of),
            block: *block,
            parts: *parts as i32,
            alpha,
            beta,
        };
        let for_sums = THREADS / 32 * MOST_PLACES * size_of::<f32>();
        let launch = launch_of(self.filters() * parts, block.shared_bytes().max(for_sums));
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        let launched = unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) };
        let (elements, count) = (of.filter_elements() as i32, *parts as i32);
        let summed = Sum { sums: sums.cast_const(), dw, elements, count, alpha, beta };
        // SAFETY: the caller promises dw and the workspace.
        unsafe { summed.launch_after(launched.is_ok(), &kernels[1], THREADS, stream) }
    }
}
