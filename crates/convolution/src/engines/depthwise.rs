//! Convolutions in which each channel has filters of its own, and the gradients of their inputs, in float arithmetic.
//! They need no workspace. Images of one channel are of this kind.

#[cfg(test)]
pub mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::by_channel::{Axis, Block, ByChannel, Planes, SliceAxis};
use crate::engines::engine::{Engine, Priority, is_short};
use crate::engines::problem::Memory;
use crate::engines::warpgroups::{MOST_COUNTED, launch_of};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use gpu::jit::Function;
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The numbers that a thread writes at once where it can. Twin of `ACCESS` in the kernel.
const ACCESS: usize = 4;

/// A convolution by channel, or the gradient of its input.
#[derive(Clone, Copy, Debug)]
pub struct Depthwise {
    of: ByChannel,
    axes: [Axis; 2],
    block: Block,
}

/// The parameters of `kernels/convolution/depthwise.cu`.
#[repr(C)]
struct Parameters {
    from: *const c_void,
    w: *const c_void,
    bias: *const c_void,
    to: *mut c_void,
    channels: i32,
    each: i32,
    count: i32,
    from_planes: Planes,
    to_planes: Planes,
    moved: [i32; 2],
    slices: SliceAxis,
    block: Block,
    is_aligned: i32,
    alpha: f32,
    beta: f32,
}

impl Depthwise {
    /// The planes that are written.
    fn count(&self) -> usize {
        let [_, to] = self.of.read_and_written();
        self.of.0.images * self.of.channels_written() * to[0]
    }

    fn blocks(&self) -> usize {
        let [_, to] = self.of.read_and_written();
        self.block.count(self.axes, [to[1], to[2]], self.count())
    }

    /// Whether threads write [`ACCESS`] numbers at once.
    fn is_aligned(&self) -> bool {
        let ([_, columns], [_, to]) = (self.axes, self.of.read_and_written());
        columns.tile == ACCESS && to[2].is_multiple_of(ACCESS)
    }

    fn is_gradient(&self) -> bool {
        self.of.0.direction == Direction::BackwardData
    }
}

impl Engine for Depthwise {
    type Problem = ByChannel;
    const SOURCE: &'static KernelSource = &kernels::convolution::DEPTHWISE;
    const KERNELS: &'static [&'static CStr] = &[c"depthwise"];
    const IS_KEPT: bool = false;

    fn priority(_: &ByChannel) -> Priority {
        Priority::Fast
    }

    fn has_short_sums(of: &ByChannel) -> bool {
        let filters = if of.0.direction == Direction::BackwardData { of.each() } else { 1 };
        is_short(of.0.element, filters * of.0.filter.iter().product::<usize>())
    }

    fn new(device: Device, of: &ByChannel, knobs: &[Knob]) -> Option<Self> {
        let is_ours = knobs.is_empty()
            && of.0.direction != Direction::BackwardFilter
            && of.is_counted()
            && device.multiprocessors(device.ordinal()).is_some();
        if !is_ours {
            return None;
        }
        let axes = [1, 2].map(|axis| of.axis(axis, of.0.filter[axis]));
        let [_, to] = of.read_and_written();
        let block = Block::of(axes, [to[1], to[2]], of.0.images * of.channels_written() * to[0])?;
        Some(Self { of: *of, axes, block }).filter(|it| it.blocks() <= MOST_COUNTED)
    }

    fn problem(&self) -> &ByChannel {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let [rows, columns] = self.axes;
        let gradient = self.is_gradient().then(|| "-DGRADIENT".to_owned());
        let axes = rows.options("ROWS").chain(columns.options("COLUMNS"));
        [self.of.0.element.option().to_owned()].into_iter().chain(gradient).chain(axes).collect()
    }

    fn allow(&self, _: Device, _: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, block, .. } = self;
        let Memory { x, w, y, bias, .. } = memory;
        let (from, to) = if self.is_gradient() { (y, x) } else { (x, y) };
        let [from_planes, to_planes] = of.read_and_written().map(Planes::of);
        let mut parameters = Parameters {
            from,
            w,
            bias,
            to,
            channels: of.channels_written() as i32,
            each: of.each() as i32,
            count: self.count() as i32,
            from_planes,
            to_planes,
            moved: self.axes.map(|axis| axis.moved()),
            slices: SliceAxis::of(of),
            block: *block,
            is_aligned: self.is_aligned().into(),
            alpha,
            beta,
        };
        let launch = launch_of(self.blocks(), block.shared_bytes());
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
