//! Convolutions of images in small groups on tensor cores, and the gradients of their inputs, in numbers of two bytes.
//! They read NCHW directly and need no workspace. A block keeps its filters in registers, and each number of the images is
//! read once for all of the filter's places and all of its groups' results.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority, is_short};
use crate::engines::implicit_gemm::problem::GroupedCorrelation;
use crate::engines::problem::Memory;
use crate::engines::turns::parts_of_turns;
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::Knob;
use gpu::jit::Function;
use gpu::{Device, Element, Stream};
use kernels::KernelSource;

/// The rows, and the depth, of one matrix of tensor cores; and the most of either that a block has.
const MATRIX: usize = 16;
const MOST_MATRICES: usize = 2;
/// The most words of filters and of sums that a thread has.
const MOST_WORDS: usize = 104;
/// The most places of a filter: each column of it has an address of its own.
const MOST_PLACES: usize = 9;
/// The words in registers, of filters and sums, with which three blocks share a multiprocessor, or two, as in the kernel.
const WORDS_OF_THREE: usize = 44;
const WORDS_OF_TWO: usize = 80;
/// The cells that a warp multiplies at once; the most of a tile; and the pixels in the time of a barrier, which serve
/// only to rank tiles.
const CELLS_AT_ONCE: usize = 16;
const MOST_CELLS: usize = 2048;
const PIXELS_OF_A_TILE: usize = 64;
/// Bytes of shared memory that each block takes in addition to its own.
const RESERVED: usize = 1 << 10;
/// The most blocks that share the images of some groups.
const MOST_PARTS: usize = 1 << 12;
/// The widths of reads, in elements, and of writes.
const ACCESSES: [usize; 3] = [4, 2, 1];

/// A convolution in small groups, or the gradient of its input.
#[derive(Clone, Copy, Debug)]
pub struct InGroups {
    of: GroupedCorrelation,
    /// The rows of cells of a tile.
    rows: usize,
    /// The blocks that share the tiles of the same groups.
    parts: usize,
}

/// The parameters of `kernels/convolution/in_groups.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    groups: i32,
    height: i32,
    p: i32,
    q: i32,
    parts: i32,
    alpha: f32,
    beta: f32,
}

/// The groups of a block: as many small ones as one matrix has room for.
fn joined(of: &GroupedCorrelation) -> usize {
    (MATRIX / of.depth).min(MATRIX / of.rows).clamp(1, of.groups)
}

/// The matrices for all channels that a block reads, and for those that it writes.
fn matrices(of: &GroupedCorrelation) -> [usize; 2] {
    [of.depth, of.rows].map(|channels| (joined(of) * channels).div_ceil(MATRIX))
}

/// The words of a thread's filters, and of its sums.
fn words(of: &GroupedCorrelation) -> usize {
    let [_, rows, columns] = of.cell();
    4 * matrices(of)[0] * of.places() + 8 * rows * columns
}

fn blocks_at_once(of: &GroupedCorrelation) -> usize {
    let is_full = [of.depth, of.rows].iter().all(|channels| joined(of) * channels == MATRIX);
    let is_even = of.from[2].is_multiple_of(2) && of.to[2].is_multiple_of(2);
    let is_easy = of.between_cells() == [1; 3] && of.filter[1].max(of.filter[2]) <= 3 && is_even;
    match words(of) {
        ..=WORDS_OF_THREE if is_full && is_easy => 3,
        ..=WORDS_OF_TWO => 2,
        _ => 1,
    }
}

/// Returns whether the kernel computes the correlation.
fn is_ours(of: &GroupedCorrelation) -> bool {
    let tiles = of.groups.div_ceil(joined(of).max(1));
    of.element != Element::Float
        && of.groups > 1
        && of.is_flat()
        && (1..3).all(|axis| of.dilation[axis] == 1 || of.filter[axis] == 1)
        && matrices(of).iter().all(|count| *count <= MOST_MATRICES)
        && of.places() <= MOST_PLACES
        && words(of) <= MOST_WORDS
        && of.images.saturating_mul(of.to[1]) <= MOST_COUNTED
        // The kernel counts pixels of channels behind the last one, too.
        && [(of.depth, of.from), (of.rows, of.to)].iter().all(|(channels, sizes)| {
            let elements = [of.images, of.groups].iter().chain(sizes).fold(*channels, |all, &size| all.saturating_mul(size));
            elements <= MOST_COUNTED
        })
        && tiles.saturating_mul(MOST_PARTS) <= MOST_COUNTED
}

/// The pixels in shared memory of a tile with `rows` rows of cells. Twin of the kernel's number.
fn pixels(of: &GroupedCorrelation, rows: usize) -> usize {
    let across = |axis: usize, cells: usize| {
        (cells - 1) * of.between_cells()[axis] + of.read_around(axis).iter().sum::<usize>() + 1
    };
    across(1, rows) * across(2, of.cells()[2]).next_multiple_of(4)
}

/// The bytes for these pixels, with the gaps between some.
fn bytes(of: &GroupedCorrelation, pixels: usize) -> usize {
    let matrices = matrices(of)[0];
    (pixels * 2 * matrices + pixels / (4 / matrices)) * MATRIX
}

/// The bytes for the matrices of filters, before there are pixels.
fn filter_bytes(of: &GroupedCorrelation) -> usize {
    matrices(of).iter().product::<usize>() * of.places() * MATRIX * MATRIX * of.element.bytes()
}

impl InGroups {
    /// The rows of cells of a tile: those with which a device with `shared` bytes for a block reads and multiplies least.
    fn rows(of: &GroupedCorrelation, shared: usize) -> Option<usize> {
        let ([_, down, across], blocks) = (of.cells(), blocks_at_once(of));
        let of_block = |rows: usize| bytes(of, pixels(of, rows)).max(filter_bytes(of));
        let fits = |rows: &usize| blocks * (of_block(*rows) + RESERVED) <= shared + RESERVED;
        let warps = THREADS / 32 / matrices(of)[1];
        let costs = |rows: &usize| {
            let multiplied = (rows * across).div_ceil(CELLS_AT_ONCE * warps) * CELLS_AT_ONCE * warps;
            down.div_ceil(*rows) * (pixels(of, *rows) + multiplied + PIXELS_OF_A_TILE)
        };
        (1..=down).filter(|rows| *rows == 1 || rows * across <= MOST_CELLS).take_while(fits).min_by_key(costs)
    }

    /// The blocks that begin with different groups.
    fn tiles(&self) -> usize {
        self.of.groups.div_ceil(joined(&self.of))
    }

    fn shared_bytes(&self) -> usize {
        bytes(&self.of, pixels(&self.of, self.rows)).max(filter_bytes(&self.of))
    }

    fn of_rows(of: GroupedCorrelation, rows: usize, multiprocessors: usize) -> Self {
        let turns = of.images * of.cells()[1].div_ceil(rows);
        let engine = Self { of, rows, parts: 1 };
        let parts = parts_of_turns(turns, engine.tiles(), blocks_at_once(&of) * multiprocessors, MOST_PARTS);
        Self { parts, ..engine }
    }
}

impl Engine for InGroups {
    type Problem = GroupedCorrelation;
    const SOURCE: &'static KernelSource = &kernels::convolution::IN_GROUPS;
    const KERNELS: &'static [&'static CStr] = &[c"in_groups"];
    const IS_KEPT: bool = false;

    /// Before the general engine, which is tried beside it.
    fn priority(_: &GroupedCorrelation) -> Priority {
        Priority::OnWarpgroups
    }

    fn has_short_sums(of: &GroupedCorrelation) -> bool {
        is_short(of.element, of.depth.saturating_mul(of.places()))
    }

    fn new(device: Device, of: &GroupedCorrelation, knobs: &[Knob]) -> Option<Self> {
        let ordinal = device.ordinal();
        if !knobs.is_empty() || !of.is_for_us() || !is_ours(of) || !device.copies_asynchronously(ordinal) {
            return None;
        }
        let rows = Self::rows(of, device.shared_bytes(ordinal)?)?;
        Some(Self::of_rows(*of, rows, device.multiprocessors(ordinal)?))
    }

    fn problem(&self) -> &GroupedCorrelation {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, rows, .. } = self;
        let ([_, _, cells], [_, _, of_cell]) = (of.cells(), of.cell());
        let divisor = |counts: &[usize]| {
            ACCESSES.into_iter().find(|access| counts.iter().all(|count| count.is_multiple_of(*access))).unwrap_or(1)
        };
        let neighbours = if cells.is_multiple_of(2) { 2 * of_cell } else { of_cell };
        let values = [
            ("DEPTH", of.depth),
            ("ROWS", of.rows),
            ("JOINED", joined(of)),
            ("WIDTH", of.from[2]),
            ("CELLS", cells),
            ("TILE_ROWS", *rows),
            ("ACCESS", divisor(&[of.from[2]])),
            ("TOGETHER", divisor(&[neighbours, of.to[2]])),
        ];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        let of_axis = |(name, axis): (&'static str, usize)| {
            let named = [("FILTER", of.filter), ("STRIDE", of.stride), ("PADDING", of.padding)];
            named.map(move |(what, its)| format!("-D{what}_{name}={}", its[axis]))
        };
        let axes = [("ROWS", 1), ("COLUMNS", 2)].into_iter().flat_map(of_axis);
        let gradient = of.is_gradient.then(|| "-DGRADIENT".to_owned());
        [of.element.option().to_owned()].into_iter().chain(gradient).chain(values).chain(axes).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.shared_bytes() as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, parts, .. } = self;
        let [from, to] = if of.is_gradient { [memory.y, memory.x] } else { [memory.x, memory.y] };
        let [images, groups, height, p, q, parts] =
            [of.images, of.groups, of.from[1], of.to[1], of.to[2], *parts].map(|count| count as i32);
        let mut parameters = Parameters { w: memory.w, from, to, images, groups, height, p, q, parts, alpha, beta };
        let launch = launch_of(self.tiles() * self.parts, self.shared_bytes());
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
