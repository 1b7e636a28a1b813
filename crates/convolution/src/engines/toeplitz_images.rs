//! Convolutions in which each channel has filters of its own, and the gradients of their inputs, on tensor cores, of many
//! images whose rows a block's warps share out: the same rows of 16 images are multiplied at once. They need no
//! workspace.

#[cfg(test)]
pub mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::by_channel::ByChannel;
use crate::engines::engine::{Engine, Priority};
use crate::engines::image_rows::{ImageRows, count, is_for_images, is_read, shares};
use crate::engines::planes::{Axis, axes, pieces};
use crate::engines::problem::Memory;
use crate::engines::sum_up::MOST_PARTS;
use crate::engines::turns::parts_of_turns;
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use gpu::jit::{Function, Launch};
use gpu::{Device, Divisor, Stream};
use kernels::KernelSource;

/// The most steps that are copied or in use at once.
const MOST_STAGES: usize = 3;

/// A convolution by channel, or the gradient of its input.
#[derive(Clone, Copy, Debug)]
pub struct ToeplitzImages {
    of: ByChannel,
    cut: Cut,
    /// The blocks that share out a channel's strips.
    parts: usize,
}

/// How blocks and warps share out the planes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    block: ImageRows,
    /// The numbers that are copied at once.
    piece: usize,
    /// The columns before the first result that the first tile has, and before the first that a result reads, so that
    /// pieces are aligned.
    lead: usize,
    shift: usize,
    /// The steps that are copied or in use at once.
    stages: usize,
    /// The blocks that share a multiprocessor.
    blocks: usize,
}

/// The parameters of `kernels/convolution/toeplitz_images.cu`.
#[repr(C)]
struct Parameters {
    from: *const c_void,
    w: *const c_void,
    bias: *const c_void,
    to: *mut c_void,
    channels: i32,
    from_channels: i32,
    each: Divisor,
    count: i32,
    strips: i32,
    parts: i32,
    steps: i32,
    slices: Divisor,
    height: i32,
    width: i32,
    out_height: i32,
    out_width: i32,
    before_rows: i32,
    first_column: i32,
    filter_columns: i32,
    is_turned_round: i32,
    shift: i32,
    lead: i32,
    out_pitch: i32,
    staged: i32,
    pieces: Divisor,
    at_once: i32,
    alpha: f32,
    beta: f32,
}

impl Cut {
    /// With as few tiles as can be, and then with the largest pieces. A block alone may have `most` bytes of shared memory.
    fn of(of: &ByChannel, most: usize) -> Option<Self> {
        let [rows, columns] = axes(of);
        // Pairs of results are in one plane. A copy of one number would not be asynchronous.
        let leads = pieces(columns.from).filter(|piece| *piece > 1).flat_map(|piece| {
            [0, 2, 4, 6].map(|lead| (piece, lead, (-columns.before() - lead as i32).rem_euclid(piece as i32) as usize))
        });
        let possible = leads.filter(|(_, _, shift)| is_read(*shift, columns.places));
        let cuts = possible.filter_map(|(piece, lead, shift)| {
            let block = ImageRows::of(rows.places, lead + columns.to)?;
            shares(most).find_map(|(shared, blocks)| {
                let cut = |stages| Self { block, piece, lead, shift, stages, blocks };
                (2..=MOST_STAGES).rev().map(cut).find(|cut| cut.shared_bytes(&columns, of) <= shared)
            })
        });
        cuts.min_by_key(|cut| cut.block.tiles())
    }

    /// From the results of a plane in a step to those of the next plane: an odd number of eights, so that the same
    /// places of eight planes are in different banks.
    fn out_pitch(&self, columns: &Axis) -> usize {
        ((self.block.rows() * columns.to).div_ceil(8) | 1) * 8
    }

    /// Those of all steps that are there at once, and of the results of two.
    fn shared_bytes(&self, columns: &Axis, of: &ByChannel) -> usize {
        let Self { block, stages, .. } = self;
        (stages * block.stage() + 2 * block.images() * self.out_pitch(columns)) * of.0.element.bytes()
    }

    /// The numbers that are written at once.
    fn access(columns: &Axis) -> usize {
        pieces(columns.to).next().unwrap_or(1)
    }
}

impl Engine for ToeplitzImages {
    type Problem = ByChannel;
    const SOURCE: &'static KernelSource = &kernels::convolution::TOEPLITZ_IMAGES;
    const KERNELS: &'static [&'static CStr] = &[c"toeplitz_images"];
    const IS_KEPT: bool = false;

    fn priority(_: &ByChannel) -> Priority {
        Priority::Fast
    }

    /// None where images leave much of the tiles or of the device empty.
    fn choices(device: Device, of: &ByChannel, _: usize) -> Vec<Vec<Knob>> {
        let its = Self::new(device, of, &[]).zip(device.multiprocessors(device.ordinal()));
        let is_chosen = its.is_some_and(|(its, multiprocessors)| its.cut.block.is_worth_it(of, multiprocessors));
        if is_chosen { vec![vec![]] } else { vec![] }
    }

    fn new(device: Device, of: &ByChannel, knobs: &[Knob]) -> Option<Self> {
        let is_ours = knobs.is_empty() && of.has_one_filter() && is_for_images(device, of);
        let multiprocessors = device.multiprocessors(device.ordinal()).filter(|_| is_ours)?;
        let cut = Cut::of(of, device.shared_bytes(device.ordinal())?)?;
        let parts = parts_of_turns(cut.block.strips(of), of.0.outputs, cut.blocks * multiprocessors, MOST_PARTS);
        (of.0.outputs * parts <= MOST_COUNTED).then_some(Self { of: *of, cut, parts })
    }

    fn problem(&self) -> &ByChannel {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, cut, .. } = self;
        let [_, columns] = axes(of);
        let values = [("PIECE", cut.piece), ("ACCESS", Cut::access(&columns))];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        let volumes = (of.0.x[0] > 1).then(|| "-DVOLUMES".to_owned());
        let element = of.0.element.option().to_owned();
        [element].into_iter().chain(cut.block.options(cut.stages)).chain(values).chain(volumes).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        let [_, columns] = axes(&self.of);
        Ok(kernels[0].allow_shared(self.cut.shared_bytes(&columns, &self.of) as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, cut, .. } = self;
        let Memory { x, w, y, bias, .. } = memory;
        let is_gradient = of.0.direction == Direction::BackwardData;
        let (from, to) = if is_gradient { (y, x) } else { (x, y) };
        let [[_, height, width], [slices, out_height, out_width]] = of.read_and_written();
        let [rows, columns] = axes(of);
        let pieces = cut.block.rows() * out_width / Cut::access(&columns);
        let mut parameters = Parameters {
            from,
            w,
            bias,
            to,
            channels: of.0.outputs as i32,
            from_channels: of.0.inputs as i32,
            each: Divisor::new(of.each()),
            count: count(of) as i32,
            strips: cut.block.strips(of) as i32,
            parts: self.parts as i32,
            steps: cut.block.steps(out_height) as i32,
            slices: Divisor::new(slices),
            height: height as i32,
            width: width as i32,
            out_height: out_height as i32,
            out_width: out_width as i32,
            before_rows: rows.before(),
            first_column: -(columns.before() + (cut.lead + cut.shift) as i32),
            filter_columns: of.0.filter[2] as i32,
            is_turned_round: is_gradient.into(),
            shift: cut.shift as i32,
            lead: cut.lead as i32,
            out_pitch: cut.out_pitch(&columns) as i32,
            staged: (cut.block.images() * cut.out_pitch(&columns)) as i32,
            pieces: Divisor::new(pieces),
            at_once: (THREADS / pieces).max(1) as i32,
            alpha,
            beta,
        };
        let grid = [of.0.outputs as u32, self.parts as u32, 1];
        let launch = Launch { grid, ..launch_of(1, cut.shared_bytes(&columns, of)) };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
