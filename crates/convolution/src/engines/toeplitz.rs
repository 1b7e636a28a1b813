//! Convolutions in which each channel has filters of its own, and the gradients of their inputs, on tensor cores, which
//! multiply by the filters' rows as Toeplitz matrices. They need no workspace.

#[cfg(test)]
pub mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::by_channel::ByChannel;
use crate::engines::engine::{Engine, Priority};
use crate::engines::planes::{Axis, Lines, axes, pitch};
use crate::engines::problem::{Convolution, Memory};
use crate::engines::sum_up::MOST_PARTS;
use crate::engines::turns::parts_of_turns;
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use gpu::jit::{Function, Launch};
use gpu::{Device, Divisor, Element, Stream};
use kernels::KernelSource;

/// The rows and the columns of a tile of results.
const TILE_ROWS: usize = 16;
const TILE_COLUMNS: usize = 8;
/// The most tiles along a row of a warp: each has sums in registers. With strides, the places of lines and of results
/// take more of these.
const MOST_COLUMN_TILES: usize = 8;
const MOST_STRIDED_TILES: usize = 6;
/// The most registers of a thread's sums, and of the numbers that it multiplies at once.
const MOST_REGISTERS: usize = 52;
/// The shared memory of a block, in bytes: what every device has; and where a multiprocessor has much, so that four
/// blocks share it.
const LEAST_SHARED: usize = 48 << 10;
const MOST_SHARED: usize = 56 << 10;
/// The tiles of a block at once, at best: its warps take two each.
const TASKS: usize = 16;
/// The blocks that share a multiprocessor.
const BLOCKS: usize = 4;

/// A convolution by channel, or the gradient of its input.
#[derive(Clone, Copy, Debug)]
pub struct Toeplitz {
    of: ByChannel,
    cut: Cut,
    /// The blocks that share out a channel's planes.
    parts: usize,
}

/// How blocks and warps share out the planes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The numbers that are copied at once.
    piece: usize,
    /// The columns that are read before the first that a product needs, so that pieces are aligned.
    shift: usize,
    /// The numbers of a product's depth, in eights.
    depth: usize,
    /// Planes of one row are rows of some tiles.
    is_along: bool,
    /// The tiles along a row of a warp.
    column_tiles: usize,
    /// How many times as many a block has, and its tiles along a column.
    right: usize,
    down: usize,
    /// The planes that a block has at once.
    planes: usize,
    /// Results go through shared memory, so that whole planes are written without gaps.
    is_staged: bool,
}

/// The parameters of `kernels/convolution/toeplitz.cu`.
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
    planes: i32,
    turns: i32,
    parts: i32,
    slices: Divisor,
    height: i32,
    width: i32,
    out_height: i32,
    out_width: i32,
    before_rows: i32,
    before_columns: i32,
    rest_rows: i32,
    rest_columns: i32,
    filter_rows: i32,
    filter_columns: i32,
    is_turned_round: i32,
    shift: i32,
    lines: Lines,
    right: Divisor,
    down: Divisor,
    tiles: [Divisor; 2],
    staged: i32,
    pieces: Divisor,
    alpha: f32,
    beta: f32,
}

/// Returns whether the kernels multiply by the filters' rows in a convolution, on the device.
pub fn is_for_matrices(device: Device, of: &ByChannel) -> bool {
    let Convolution { element, filter, stride, padding, dilation, x, y, .. } = of.0;
    element != Element::Float
        && (filter[0], stride[0], padding[0], x[0]) == (1, 1, 0, y[0])
        && filter.iter().zip(dilation).all(|(places, dilation)| *places == 1 || dilation == 1)
        && of.is_counted()
        && device.copies_asynchronously(device.ordinal())
}

/// The shared memory of a block: `most` where a multiprocessor has it for this number of blocks, else `least`.
pub fn shared_of(device: Device, least: usize, most: usize, blocks: usize) -> Option<usize> {
    // A block may have all of a multiprocessor's, but for some KiB.
    let its = device.shared_bytes(device.ordinal())?;
    Some(if its >= blocks * most { most } else { least })
}

/// How many planes a block has at once. A plane has `tiles` tiles, and the block at most about `tasks`. Of the numbers
/// that fit, the one that leaves the fewest warps idle is chosen, and the largest of several.
pub fn planes_of(tiles: usize, tasks: usize, count: usize, fits: impl Fn(usize) -> bool) -> usize {
    const WARPS: usize = THREADS / 32;
    let most = tasks.div_ceil(tiles).min(count);
    let idle = |planes: &usize| {
        let all = planes * tiles;
        // In thousandths of their time.
        1000 - 1000 * all / all.next_multiple_of(WARPS)
    };
    (1..=most).rev().filter(|planes| fits(*planes)).min_by_key(idle).unwrap_or(1)
}

/// The size of the least parts of equal size, at most `most` each, that share out a count.
pub fn evenly(count: usize, most: usize) -> usize {
    count.div_ceil(count.div_ceil(most.clamp(1, count)))
}

impl Cut {
    /// `None` if a tile does not fit into shared memory.
    fn of(of: &ByChannel, shared: usize) -> Option<Self> {
        let [rows, columns] = axes(of);
        let (piece, shift, depth) = columns.pieces()?;
        let is_along = rows.from == 1 && rows.to == 1 && rows.places == 1;
        // Tiles that read the same numbers are a warp's.
        let all_across = if is_along { 1 } else { columns.to.div_ceil(TILE_COLUMNS * columns.up) };
        let results = if is_along { columns.to.div_ceil(TILE_COLUMNS * columns.up) } else { rows.alike() };
        let all_down = results.div_ceil(TILE_ROWS);
        let most = if rows.stride() * columns.stride() > 1 { MOST_STRIDED_TILES } else { MOST_COLUMN_TILES };
        let registers = |tiles: usize| 4 * tiles + 2 * ((tiles - 1) * columns.down / columns.up + depth);
        let fits = |count: &usize| registers(count * columns.up) <= MOST_REGISTERS;
        let most = (1..=most / columns.up).rev().find(fits);
        let across = evenly(all_across, most.unwrap_or(1));
        let all_right = all_across.div_ceil(across);
        let right = evenly(all_right, TASKS);
        let down = evenly(all_down, TASKS.div_ceil(right * rows.up));
        let column_tiles = across * columns.up;
        let mut cut = Self { piece, shift, depth, is_along, column_tiles, right, down, planes: 1, is_staged: false };
        while cut.shared_bytes(of) > shared {
            match (cut.down, cut.right) {
                (2.., _) => cut.down = evenly(all_down, cut.down - 1),
                (_, 2..) => cut.right = evenly(all_right, cut.right - 1),
                _ => return None,
            }
        }
        cut.is_staged = cut.is_whole(of) && Self { is_staged: true, ..cut }.shared_bytes(of) <= shared;
        cut.planes = planes_of(cut.right * cut.down * rows.up, TASKS, Self::count(of), |planes| {
            (Self { planes, ..cut }).shared_bytes(of) <= shared
        });
        Some(cut)
    }

    /// The planes of a channel in all images.
    fn count(of: &ByChannel) -> usize {
        of.0.images * of.0.y[0]
    }

    /// The lines that a block reads of each class, and those that its tiles read.
    fn lines(&self, of: &ByChannel) -> [usize; 2] {
        let [rows, _] = axes(of);
        let lines = if self.is_along { 1 } else { self.down * TILE_ROWS };
        [lines.min(rows.alike()), lines].map(|lines| lines + rows.further_lines(rows.places))
    }

    /// The columns that a block reads, and their pitch.
    fn columns(&self, of: &ByChannel) -> [usize; 2] {
        let [_, Axis { down, up, .. }] = axes(of);
        let rows = if self.is_along { (self.down * TILE_ROWS - 1) * down } else { 0 };
        let columns = (rows + (self.right * self.column_tiles - 1) * down / up + self.depth) * TILE_COLUMNS;
        [columns, pitch(columns)]
    }

    fn shared_bytes(&self, of: &ByChannel) -> usize {
        let [rows, columns] = axes(of);
        let matrices = rows.places * columns.up * self.depth.div_ceil(2) * 2 * 32 * size_of::<u32>();
        let staged = if self.is_staged { self.planes * rows.to * columns.to } else { 0 };
        matrices + (self.read_elements(of) + staged) * of.0.element.bytes()
    }

    /// The elements of a block's lines at once and next, and of those that its tiles read beyond.
    fn read_elements(&self, of: &ByChannel) -> usize {
        let [rows, _] = axes(of);
        let ([read, used], [_, pitch]) = (self.lines(of), self.columns(of));
        (2 * self.planes * rows.down * read + used - read) * pitch
    }

    /// A block's tiles along a row and along a column of a plane.
    fn tiles(&self, of: &ByChannel) -> [usize; 2] {
        let [rows, columns] = axes(of);
        if self.is_along {
            return [1, columns.to.div_ceil(TILE_COLUMNS * columns.up).div_ceil(TILE_ROWS * self.down)];
        }
        let across = TILE_COLUMNS * self.column_tiles * self.right;
        [columns.to.div_ceil(across), rows.alike().div_ceil(TILE_ROWS * self.down)]
    }

    /// Returns whether a block's tile is a whole plane, and its lines have room for all that is read. The rest of the
    /// lines is zeros.
    fn is_whole(&self, of: &ByChannel) -> bool {
        !self.is_along && self.tiles(of) == [1, 1] && axes(of).iter().all(Axis::reads_all)
    }

    /// The lines that a block copies of each plane.
    fn copied(&self, of: &ByChannel) -> Lines {
        let [rows, columns] = axes(of);
        let ([lines, _], [read, pitch]) = (self.lines(of), self.columns(of));
        let sizes = if self.is_whole(of) { [rows.from, columns.from] } else { [rows.down * lines, read] };
        Lines::new(sizes, self.piece, [lines, pitch])
    }

    /// The most numbers, of those that a thread has, that can be written at once.
    fn access(&self, of: &ByChannel) -> usize {
        let [_, [_, height, width]] = of.read_and_written();
        // Few tiles are written in pairs, and so they come into shared memory.
        let is_in_pairs = !self.is_staged && (self.column_tiles < 3 || self.is_along);
        let all: &[usize] = if is_in_pairs { &[2] } else { &[8, 4, 2] };
        let size = if self.is_staged && width.is_multiple_of(2) { height * width } else { width };
        all.iter().copied().find(|&count| size.is_multiple_of(count)).unwrap_or(1)
    }

    /// What a channel's blocks go through, at once each.
    fn turns(&self, of: &ByChannel) -> usize {
        let [across, along] = self.tiles(of);
        (across * along).saturating_mul(Self::count(of).div_ceil(self.planes))
    }
}

impl Engine for Toeplitz {
    type Problem = ByChannel;
    const SOURCE: &'static KernelSource = &kernels::convolution::TOEPLITZ;
    const KERNELS: &'static [&'static CStr] = &[c"toeplitz"];
    const IS_KEPT: bool = false;

    fn priority(_: &ByChannel) -> Priority {
        Priority::Fast
    }

    fn new(device: Device, of: &ByChannel, knobs: &[Knob]) -> Option<Self> {
        let is_ours = knobs.is_empty() && of.has_one_filter() && is_for_matrices(device, of);
        let multiprocessors = device.multiprocessors(device.ordinal()).filter(|_| is_ours)?;
        let cut = Cut::of(of, shared_of(device, LEAST_SHARED, MOST_SHARED, BLOCKS)?)?;
        let parts = parts_of_turns(cut.turns(of), of.0.outputs, BLOCKS * multiprocessors, MOST_PARTS);
        (of.0.outputs * parts <= MOST_COUNTED).then_some(Self { of: *of, cut, parts })
    }

    fn problem(&self) -> &ByChannel {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, cut, .. } = self;
        let [_, [slices, _, _]] = of.read_and_written();
        let [rows, columns] = axes(of);
        let is_gradient = rows.up * columns.up > 1;
        let values = [
            ("STRIDE_ROWS", rows.stride()),
            ("STRIDE_COLUMNS", columns.stride()),
            ("DEPTH", cut.depth),
            ("COLUMN_TILES", cut.column_tiles),
            ("PIECE", cut.piece),
            ("ACCESS", cut.access(of)),
        ];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        let flags = [
            ("-DGRADIENT", is_gradient),
            ("-DALONG", cut.is_along),
            ("-DWHOLE", cut.is_whole(of)),
            ("-DSTAGED", cut.is_staged),
            ("-DVOLUMES", slices > 1),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.to_owned());
        [of.0.element.option().to_owned()].into_iter().chain(values).chain(flags).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.cut.shared_bytes(&self.of) as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, cut, .. } = self;
        let Memory { x, w, y, bias, .. } = memory;
        let is_gradient = of.0.direction == Direction::BackwardData;
        let (from, to) = if is_gradient { (y, x) } else { (x, y) };
        let [[_, height, width], [slices, out_height, out_width]] = of.read_and_written();
        let [rows, columns] = axes(of);
        let mut parameters = Parameters {
            from,
            w,
            bias,
            to,
            channels: of.0.outputs as i32,
            from_channels: of.0.inputs as i32,
            each: Divisor::new(of.each()),
            count: Cut::count(of) as i32,
            planes: cut.planes as i32,
            turns: cut.turns(of) as i32,
            parts: self.parts as i32,
            slices: Divisor::new(slices),
            height: height as i32,
            width: width as i32,
            out_height: out_height as i32,
            out_width: out_width as i32,
            before_rows: rows.before(),
            before_columns: columns.before(),
            rest_rows: rows.rest() as i32,
            rest_columns: columns.rest() as i32,
            filter_rows: of.0.filter[1] as i32,
            filter_columns: of.0.filter[2] as i32,
            is_turned_round: is_gradient.into(),
            shift: cut.shift as i32,
            lines: cut.copied(of),
            right: Divisor::new(cut.right),
            down: Divisor::new(cut.down * rows.up),
            tiles: cut.tiles(of).map(Divisor::new),
            staged: cut.read_elements(of) as i32,
            pieces: Divisor::new(out_height * out_width / cut.access(of)),
            alpha,
            beta,
        };
        let grid = [of.0.outputs as u32, self.parts as u32, 1];
        let launch = Launch { grid, ..launch_of(1, cut.shared_bytes(of)) };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
