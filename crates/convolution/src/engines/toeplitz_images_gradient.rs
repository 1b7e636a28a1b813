//! Gradients of the filters of convolutions in which each channel has filters of its own, on tensor cores, of many images
//! whose rows a block's warps share out: the depth of products is 16 images.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::by_channel::ByChannel;
use crate::engines::engine::{Engine, Priority};
use crate::engines::image_rows::{ImageRows, count, is_for_images, is_read, shares};
use crate::engines::planes::{axes, pieces};
use crate::engines::problem::Memory;
use crate::engines::sum_up::{Sum, knobs_of, parts_of, parts_within, workspace_of};
use crate::engines::turns::parts_of_turns;
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use gpu::jit::{Function, Launch};
use gpu::{Device, Divisor, Stream};
use kernels::KernelSource;

/// The steps that are copied or in use at once.
const STAGES: usize = 2;
/// The images of a product's depth.
const DEPTH: usize = 16;
/// The most products of a sum on tensor cores, so that it is short in each type.
const MOST_OF_SUM: usize = 1 << 14;
/// The floats of a warp's sums of the products with a row.
const WARP_SUMS: usize = 16 * (8 + 1);

/// The gradient of a filter.
#[derive(Clone, Copy, Debug)]
pub struct ToeplitzImagesGradient {
    of: ByChannel,
    cut: Cut,
    /// The blocks that share out a channel's strips.
    parts: usize,
}

/// How blocks and warps share out the planes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    block: ImageRows,
    /// The numbers of x, and of dy, that are copied at once.
    piece_x: usize,
    piece_dy: usize,
    /// The columns of x that are read before the first that a product needs, so that pieces are aligned.
    shift: usize,
    /// The blocks that share a multiprocessor.
    blocks: usize,
}

/// The parameters of `kernels/convolution/toeplitz_images_gradient.cu`.
#[repr(C)]
struct Parameters {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    sums: *mut c_void,
    channels: i32,
    x_channels: i32,
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
    shift: i32,
    alpha: f32,
    beta: f32,
}

impl Cut {
    /// A block alone may have `most` bytes of shared memory.
    fn of(of: &ByChannel, most: usize) -> Option<Self> {
        let [rows, columns] = axes(of);
        let block = ImageRows::of(rows.places, columns.to)?;
        // A copy of one number would not be asynchronous.
        let aligned = pieces(columns.from).filter(|piece| *piece > 1);
        let mut aligned = aligned.map(|piece| (piece, (-columns.before()).rem_euclid(piece as i32) as usize));
        let (piece_x, shift) = aligned.find(|(_, shift)| is_read(*shift, columns.places))?;
        let piece_dy = pieces(columns.to).next().filter(|piece| *piece > 1)?;
        shares(most).find_map(|(shared, blocks)| {
            let cut = Self { block, piece_x, piece_dy, shift, blocks };
            (cut.shared_bytes(of) <= shared).then_some(cut)
        })
    }

    /// Likewise for a device.
    fn on(device: Device, of: &ByChannel) -> Option<Self> {
        Self::of(of, device.shared_bytes(device.ordinal())?)
    }

    /// Those of a block's steps, of dy and of x; or of its sums at the end.
    fn shared_bytes(&self, of: &ByChannel) -> usize {
        let steps = 2 * STAGES * self.block.stage() * of.0.element.bytes();
        let sums = THREADS / 32 * (WARP_SUMS + of.0.filter[1] * of.0.filter[2]) * size_of::<f32>();
        steps.max(sums)
    }

    /// The most strips of a part: in each, a warp's sums get a product of each row of each image.
    fn most_strips(&self, of: &ByChannel) -> usize {
        (MOST_OF_SUM / (DEPTH * self.block.rows() * self.block.steps(of.0.y[1]))).max(1)
    }
}

impl ToeplitzImagesGradient {
    /// Returns whether the kernel computes it in this number of parts.
    fn is_possible(&self) -> bool {
        let counts = [self.of.0.outputs, self.of.filter_elements()];
        counts.iter().all(|count| count.saturating_mul(self.parts) < MOST_COUNTED)
            && self.cut.block.strips(&self.of).div_ceil(self.parts) <= self.cut.most_strips(&self.of)
    }
}

/// Returns whether the kernel computes gradients like this one on the device.
fn is_ours(device: Device, of: &ByChannel) -> bool {
    of.0.direction == Direction::BackwardFilter && is_for_images(device, of)
}

impl Engine for ToeplitzImagesGradient {
    type Problem = ByChannel;
    const SOURCE: &'static KernelSource = &kernels::convolution::TOEPLITZ_IMAGES_GRADIENT;
    const KERNELS: &'static [&'static CStr] = &[c"toeplitz_images_gradient", c"sum_up"];
    const IS_KEPT: bool = false;

    fn priority(_: &ByChannel) -> Priority {
        Priority::Fast
    }

    /// As many parts as fill the device, within the limit. None where images leave much of the tiles or of the device
    /// empty.
    fn choices(device: Device, of: &ByChannel, limit: usize) -> Vec<Vec<Knob>> {
        let multiprocessors = device.multiprocessors(device.ordinal()).filter(|_| is_ours(device, of));
        let whole = multiprocessors.and_then(|count| Some((count, Cut::on(device, of)?)));
        let Some((multiprocessors, cut)) = whole.filter(|(count, cut)| cut.block.is_worth_it(of, *count)) else {
            return vec![];
        };
        let strips = cut.block.strips(of);
        let wanted = |most| parts_of_turns(strips, of.0.outputs, cut.blocks * multiprocessors, most);
        let parts = parts_within(limit, of.filter_elements(), [strips, cut.most_strips(of)], wanted);
        let is_possible = Self { of: *of, cut, parts }.is_possible();
        is_possible.then(|| knobs_of(parts)).into_iter().collect()
    }

    fn new(device: Device, of: &ByChannel, knobs: &[Knob]) -> Option<Self> {
        let parts = parts_of(knobs).filter(|_| is_ours(device, of))?;
        Some(Self { of: *of, cut: Cut::on(device, of)?, parts }).filter(Self::is_possible)
    }

    fn problem(&self) -> &ByChannel {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Cut { block, piece_x, piece_dy, .. } = self.cut;
        let values = [("PIECE_X", piece_x), ("PIECE_DY", piece_dy)];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        let volumes = (self.of.0.x[0] > 1).then(|| "-DVOLUMES".to_owned());
        let element = self.of.0.element.option().to_owned();
        [element].into_iter().chain(block.options(STAGES)).chain(values).chain(volumes).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.cut.shared_bytes(&self.of) as u32)?)
    }

    /// The parts' sums.
    fn workspace(&self) -> usize {
        workspace_of(self.parts, self.of.filter_elements())
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, cut, parts } = self;
        let Memory { x, w: dw, y: dy, workspace: sums, .. } = memory;
        let [[_, height, width], [_, out_height, out_width]] = of.read_and_written();
        let [rows, columns] = axes(of);
        let mut parameters = Parameters {
            x,
            dy,
            dw,
            sums,
            channels: of.0.outputs as i32,
            x_channels: of.0.inputs as i32,
            each: Divisor::new(of.each()),
            count: count(of) as i32,
            strips: cut.block.strips(of) as i32,
            parts: *parts as i32,
            steps: cut.block.steps(out_height) as i32,
            slices: Divisor::new(of.0.x[0]),
            height: height as i32,
            width: width as i32,
            out_height: out_height as i32,
            out_width: out_width as i32,
            before_rows: rows.before(),
            first_column: -(columns.before() + cut.shift as i32),
            filter_columns: of.0.filter[2] as i32,
            shift: cut.shift as i32,
            alpha,
            beta,
        };
        let grid = [of.0.outputs as u32, *parts as u32, 1];
        let launch = Launch { grid, ..launch_of(1, cut.shared_bytes(of)) };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        let launched = unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) };
        let (elements, count) = (of.filter_elements() as i32, *parts as i32);
        let summed = Sum { sums: sums.cast_const(), dw, elements, count, alpha, beta };
        // SAFETY: the caller promises dw and the workspace.
        unsafe { summed.launch_after(launched.is_ok(), &kernels[1], THREADS, stream) }
    }
}
