//! Gradients of the filters of convolutions in which each channel has filters of its own, on tensor cores.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::by_channel::ByChannel;
use crate::engines::engine::{Engine, Priority};
use crate::engines::planes::{Axis, Lines, axes, pieces, pitch};
use crate::engines::problem::Memory;
use crate::engines::sum_up::{Sum, knobs_of, parts_of, parts_within, workspace_of};
use crate::engines::toeplitz::{evenly, is_for_matrices, shared_of};
use crate::engines::turns::parts_of_turns;
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use gpu::jit::{Function, Launch};
use gpu::{Device, Divisor, Stream};
use kernels::KernelSource;

/// The rows and the columns of a tile of dy, and the columns of x of one product; the columns of dy of one.
const TILE: usize = 16;
const EIGHT: usize = 8;
/// The most registers of a thread's sums, and of what it multiplies at once.
const MOST_REGISTERS: usize = 91;
/// The shared memory of a block, in bytes: what every device has; and where a multiprocessor has much, so that two
/// blocks share it.
const LEAST_SHARED: usize = 48 << 10;
const MOST_SHARED: usize = 96 << 10;
/// The tiles of a block at once, at best: its warps take four each, because they wait for one another after these.
const TASKS: usize = 32;
/// The blocks that share a multiprocessor.
const BLOCKS: usize = 2;
/// The most products of a sum on tensor cores, so that it is short in each type.
const MOST_OF_SUM: usize = 1 << 14;

/// The gradient of a filter.
#[derive(Clone, Copy, Debug)]
pub struct ToeplitzGradient {
    of: ByChannel,
    cut: Cut,
    parts: usize,
}

/// How blocks and warps share out the planes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The numbers of x, and of dy, that are copied at once.
    piece_x: usize,
    piece_dy: usize,
    /// The columns of x that are read before the first that a product needs, so that pieces are aligned.
    shift: usize,
    /// The columns of x that eight columns of dy meet, in eights.
    depth: usize,
    /// The filter's rows of a block.
    rows: usize,
    /// Planes of one row are the rows of one plane.
    is_along: bool,
    /// The tiles of a plane along a column and along a row.
    down: usize,
    across: usize,
    /// The planes that a block has at once.
    planes: usize,
}

/// The parameters of `kernels/convolution/toeplitz_gradient.cu`.
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
    planes: i32,
    slices: Divisor,
    height: i32,
    width: i32,
    out_height: i32,
    out_width: i32,
    filter_rows: i32,
    filter_columns: i32,
    padding_rows: i32,
    padding_columns: i32,
    shift: i32,
    lines_x: Lines,
    lines_dy: Lines,
    down: Divisor,
    across: Divisor,
    tiles: [Divisor; 2],
    parts: i32,
    alpha: f32,
    beta: f32,
}

impl Cut {
    /// `None` if one tile does not fit into shared memory.
    fn of(device: Device, of: &ByChannel) -> Option<Self> {
        let shared = shared_of(device, LEAST_SHARED, MOST_SHARED, BLOCKS)?;
        let [rows_axis, columns] = axes(of);
        let (piece_x, shift, depth) = columns.pieces()?;
        let piece_dy = pieces(columns.to).next()?;
        let multiplied = 2 * ((TILE / EIGHT - 1) * columns.down + depth) + rows_axis.down;
        let rows = evenly(rows_axis.places, MOST_REGISTERS.saturating_sub(multiplied) / (4 * products(depth)));
        let is_along = rows_axis.from == 1 && rows_axis.to == 1 && rows_axis.places == 1;
        let count = Self::count(of);
        let all_down = if is_along { count } else { rows_axis.to }.div_ceil(TILE);
        let all_across = columns.to.div_ceil(TILE);
        let across = evenly(all_across, TASKS);
        let down = evenly(all_down, TASKS.div_ceil(across));
        let planes = if is_along { 1 } else { TASKS.div_ceil(across * down).min(count) };
        let mut cut = Self { piece_x, piece_dy, shift, depth, rows, is_along, down, across, planes };
        while cut.shared_bytes(of) > shared {
            match (cut.planes, cut.down, cut.across) {
                (2.., _, _) => cut.planes -= 1,
                (_, 2.., _) => cut.down = evenly(all_down, cut.down - 1),
                (_, _, 2..) => cut.across = evenly(all_across, cut.across - 1),
                _ => return None,
            }
        }
        if is_along {
            cut.planes = cut.down * TILE;
        }
        Some(cut)
    }

    /// The planes of a channel in all images.
    fn count(of: &ByChannel) -> usize {
        of.0.images * of.0.y[0]
    }

    /// The lines that a block has of each class of x's rows, and of each plane of dy.
    fn lines(&self, of: &ByChannel) -> [usize; 2] {
        let [rows, _] = axes(of);
        if self.is_along { [1, 1] } else { [rows.further_lines(self.rows), 0].map(|lines| self.down * TILE + lines) }
    }

    /// Those of a block's lines, of dy and of x, at once and next; or of its sums at the end.
    fn shared_bytes(&self, of: &ByChannel) -> usize {
        let [rows, _] = axes(of);
        let ([lines_x, lines], [columns_x, columns]) = (self.lines(of), self.columns(of));
        let planes = if self.is_along { self.down * TILE } else { self.planes };
        let of_plane = lines * pitch(columns) + rows.down * lines_x * pitch(columns_x);
        let buffers = 2 * planes * of_plane * of.0.element.bytes();
        let places = self.rows * of.0.filter[2];
        let sums = THREADS / 32 * (products(self.depth) * TILE * (EIGHT + 1) + places) * size_of::<f32>();
        buffers.max(sums)
    }

    /// The columns of a block's lines of x and of dy.
    fn columns(&self, of: &ByChannel) -> [usize; 2] {
        let [_, Axis { down, .. }] = axes(of);
        let eights = self.across * TILE / EIGHT;
        [(eights - 1) * down + self.depth, eights].map(|eights| eights * EIGHT)
    }

    /// Returns whether a block has all rows of the filter, its tiles are as large as a plane, and its lines have room
    /// for all of x. The rest of its lines is zeros.
    fn is_whole(&self, of: &ByChannel) -> bool {
        let all = axes(of);
        let fits =
            all.iter().zip([self.down, self.across]).all(|(axis, tiles)| tiles * TILE >= axis.to && axis.reads_all());
        !self.is_along && self.rows == all[0].places && fits
    }

    /// The lines that a block copies of each plane of x and of dy.
    fn copied(&self, of: &ByChannel) -> [Lines; 2] {
        let ([rows, columns], [lines_x, lines], [columns_x, columns_dy]) = (axes(of), self.lines(of), self.columns(of));
        let [x, dy] = if self.is_whole(of) {
            [[rows.from, columns.from], [rows.to, columns.to]]
        } else {
            [[rows.down * lines_x, columns_x], [lines, columns_dy]]
        };
        [
            Lines::new(x, self.piece_x, [lines_x, pitch(columns_x)]),
            Lines::new(dy, self.piece_dy, [lines, pitch(columns_dy)]),
        ]
    }

    /// A block's parts of a plane along a row and along a column.
    fn tiles(&self, of: &ByChannel) -> [usize; 2] {
        let [_, [_, out_height, out_width]] = of.read_and_written();
        let along = if self.is_along { 1 } else { out_height.div_ceil(self.down * TILE) };
        [out_width.div_ceil(self.across * TILE), along]
    }

    /// What a channel's blocks go through, at once each.
    fn turns(&self, of: &ByChannel) -> usize {
        let [across, along] = self.tiles(of);
        across * along * Self::count(of).div_ceil(self.planes)
    }

    /// The most turns of a part: in each, a warp's sums get the products of some tiles, of 16 rows of each eight
    /// columns.
    fn most_turns(&self) -> usize {
        let tiles = if self.is_along { 1 } else { self.planes } * self.down * self.across;
        (MOST_OF_SUM / (TILE * (TILE / EIGHT) * tiles.div_ceil(THREADS / 32))).max(1)
    }

    /// The blocks that share out a filter's rows.
    fn windows(&self, of: &ByChannel) -> usize {
        of.0.filter[1].div_ceil(self.rows)
    }

    /// The blocks that share out the channels' filters.
    fn filters(&self, of: &ByChannel) -> usize {
        of.0.outputs.saturating_mul(self.windows(of))
    }
}

impl ToeplitzGradient {
    /// Returns whether the kernel computes it in this number of parts.
    fn is_possible(&self) -> bool {
        let counts = [self.cut.filters(&self.of), self.of.filter_elements()];
        counts.iter().all(|count| count.saturating_mul(self.parts) < MOST_COUNTED)
            && self.cut.turns(&self.of).div_ceil(self.parts) <= self.cut.most_turns()
    }
}

/// The products, each with sums in registers, of eight columns of dy with what they meet in a row of x.
fn products(depth: usize) -> usize {
    (depth * EIGHT).div_ceil(TILE)
}

/// Returns whether the kernel computes gradients like this one on the device.
fn is_ours(device: Device, of: &ByChannel) -> bool {
    of.0.direction == Direction::BackwardFilter && is_for_matrices(device, of)
}

impl Engine for ToeplitzGradient {
    type Problem = ByChannel;
    const SOURCE: &'static KernelSource = &kernels::convolution::TOEPLITZ_GRADIENT;
    const KERNELS: &'static [&'static CStr] = &[c"toeplitz_gradient", c"sum_up"];
    const IS_KEPT: bool = false;

    fn priority(_: &ByChannel) -> Priority {
        Priority::Fast
    }

    /// As many parts as fill the device, within the limit.
    fn choices(device: Device, of: &ByChannel, limit: usize) -> Vec<Vec<Knob>> {
        let multiprocessors = device.multiprocessors(device.ordinal()).filter(|_| is_ours(device, of));
        let whole = multiprocessors.and_then(|count| Some((count, Cut::of(device, of)?)));
        let Some((multiprocessors, cut)) = whole else { return vec![] };
        let turns = cut.turns(of);
        let wanted = |most| parts_of_turns(turns, cut.filters(of), BLOCKS * multiprocessors, most);
        let parts = parts_within(limit, of.filter_elements(), [turns, cut.most_turns()], wanted);
        let is_possible = Self { of: *of, cut, parts }.is_possible();
        is_possible.then(|| knobs_of(parts)).into_iter().collect()
    }

    fn new(device: Device, of: &ByChannel, knobs: &[Knob]) -> Option<Self> {
        let parts = parts_of(knobs).filter(|_| is_ours(device, of))?;
        Some(Self { of: *of, cut: Cut::of(device, of)?, parts }).filter(Self::is_possible)
    }

    fn problem(&self) -> &ByChannel {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Cut { piece_x, piece_dy, depth, rows, is_along, .. } = self.cut;
        let [stride_rows, stride_columns] = axes(&self.of).map(|axis| axis.stride());
        let values = [
            ("STRIDE_ROWS", stride_rows),
            ("STRIDE_COLUMNS", stride_columns),
            ("FILTER_ROWS", rows),
            ("DEPTH", depth),
            ("PIECE_X", piece_x),
            ("PIECE_DY", piece_dy),
        ];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        let is_of_volumes = self.of.0.x[0] > 1;
        let flags = [("-DALONG", is_along), ("-DWHOLE", self.cut.is_whole(&self.of)), ("-DVOLUMES", is_of_volumes)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.to_owned());
        [self.of.0.element.option().to_owned()].into_iter().chain(values).chain(flags).collect()
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
        let [[_, height, width], [_, out_height, out_width]] =
            of.read_and_written().map(|sizes| sizes.map(|size| size as i32));
        let [_, padding_rows, padding_columns] = of.0.padding.map(|padding| padding as i32);
        let [lines_x, lines_dy] = cut.copied(of);
        let mut parameters = Parameters {
            x,
            dy,
            dw,
            sums,
            channels: of.0.outputs as i32,
            x_channels: of.0.inputs as i32,
            each: Divisor::new(of.each()),
            count: Cut::count(of) as i32,
            planes: cut.planes as i32,
            slices: Divisor::new(of.0.x[0]),
            height,
            width,
            out_height,
            out_width,
            filter_rows: of.0.filter[1] as i32,
            filter_columns: of.0.filter[2] as i32,
            padding_rows,
            padding_columns,
            shift: cut.shift as i32,
            lines_x,
            lines_dy,
            down: Divisor::new(cut.down),
            across: Divisor::new(cut.across),
            tiles: cut.tiles(of).map(Divisor::new),
            parts: *parts as i32,
            alpha,
            beta,
        };
        let grid = [of.0.outputs as u32, *parts as u32, cut.windows(of) as u32];
        let launch = Launch { grid, ..launch_of(1, cut.shared_bytes(of)) };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        let launched = unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) };
        let (elements, count) = (of.filter_elements() as i32, *parts as i32);
        let summed = Sum { sums: sums.cast_const(), dw, elements, count, alpha, beta };
        // SAFETY: the caller promises dw and the workspace.
        unsafe { summed.launch_after(launched.is_ok(), &kernels[1], THREADS, stream) }
    }
}
