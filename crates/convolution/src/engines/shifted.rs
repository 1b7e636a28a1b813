//! Convolutions by filters of several places, and their input gradients: each place's products read the same pixels,
//! shifted.

#[cfg(test)]
pub mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{Correlation, Memory, Slices};
use crate::engines::warpgroups::tile::{
    BLOCKS, COLUMNS, DEPTH, ELEMENT, RESERVED, ROWS, WARPGROUPS, access, are_few_images, results_bytes,
};
use crate::engines::warpgroups::{GROUP, Images, MOST_COUNTED, THREADS, is_same, launch_of, options_of};
use crate::problem::graph::Knob;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The bytes of a line, which has the channels of one pixel.
const LINE_BYTES: usize = DEPTH * ELEMENT;
/// The bytes of one access to the workspace.
const PIECE_BYTES: usize = 16;
/// The bytes of what shared memory holds of each group of pixels, besides the pixels.
const SOURCE: usize = 24;
/// The channels of a group that a thread reads at once.
const CHANNELS: usize = 4;
/// The depths of a filter that a thread puts in order at once.
const OCTET: usize = 8;
/// The most pixels of a warpgroup's product.
const WIDE: usize = 256;
/// The most slices of a volume that a group's number of its slice can tell.
const MOST_SLICES: usize = 1 << 15;
/// The depth of one product of tensor cores.
const DEPTH_OF_PRODUCT: usize = 16;
/// The most and the fewest stages of filters.
const MOST_STAGES: usize = 6;
const LEAST_STAGES: usize = 3;

/// How a block works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    row_warpgroups: usize,
    /// The neighbouring slices whose results a tile's rows are.
    result_slices: usize,
    /// The pixels of a warpgroup's product: 256 with a block for each multiprocessor, or 128 with two.
    product_columns: usize,
    access: usize,
    /// The pixels in shared memory: those of the tile and all neighbours.
    lines: usize,
    /// The most groups of these pixels.
    groups: usize,
    buffers: usize,
    stages: usize,
}

/// The pixels of an image with the zeros behind its rows and behind the last row.
fn padded([height, width]: [usize; 2], filter: usize) -> usize {
    (height + filter / 2) * (width + filter / 2)
}

/// The neighbouring slices whose results a tile's rows are: two where those of one fill half of it at most.
pub fn result_slices(rows: usize, slices: Slices) -> usize {
    if rows <= ROWS / 2 && slices.filter > 1 && slices.count > 1 { 2 } else { 1 }
}

impl Tiling {
    /// The fastest tiling for a device with these multiprocessors, on which a block may have `shared` bytes of shared
    /// memory. `None` if the bytes are too few.
    fn of(of: &Correlation, shared: usize, multiprocessors: usize) -> Option<Self> {
        let with = |columns| Self::with(of, shared, columns);
        if of.slices != Slices::ONE {
            // Narrow products have no second block that would hide a block's begin and end.
            return with(WIDE).or_else(|| with(COLUMNS));
        }
        let tilings = [COLUMNS, WIDE].into_iter().filter_map(with);
        tilings.min_by_key(|tiling| tiling.time(of, shared, multiprocessors))
    }

    /// The time of all blocks, in hundredths of a wide block's. Measured on an H100.
    fn time(&self, of: &Correlation, shared: usize, multiprocessors: usize) -> usize {
        let (blocks, multiprocessors) = (self.blocks(of), multiprocessors.max(1));
        if self.product_columns == WIDE {
            return 100 * blocks.div_ceil(multiprocessors);
        }
        // The time of a block alone on its multiprocessor, and of a pair of blocks. The blocks of a pair hide each
        // other's beginnings and ends. With fewer depths, these are more of the time.
        let alone = 70;
        let pair = if self.depth(of) <= 2 * DEPTH { 95 } else { 110 };
        if !self.fits(BLOCKS, shared) {
            return alone * blocks.div_ceil(multiprocessors);
        }
        let pairs = blocks / (BLOCKS * multiprocessors);
        let last = match blocks % (BLOCKS * multiprocessors) {
            0 => 0,
            rest if rest <= multiprocessors => alone,
            _ => pair,
        };
        pairs * pair + last
    }

    /// Returns whether this number of blocks fits on a multiprocessor. One block may have `shared` bytes of shared
    /// memory.
    fn fits(&self, blocks: usize, shared: usize) -> bool {
        blocks * (self.shared_bytes() + RESERVED) <= shared + RESERVED
    }

    /// The tiling with products of `product_columns` columns.
    fn with(of: &Correlation, shared: usize, product_columns: usize) -> Option<Self> {
        let row_warpgroups = if of.rows > ROWS { WARPGROUPS } else { 1 };
        let result_slices = result_slices(of.rows, of.slices);
        let reach = of.filter / 2;
        let columns = product_columns * (WARPGROUPS / row_warpgroups);
        let lines = (columns + 2 * reach * (of.from[1] + reach + 1)).next_multiple_of(8);
        // Each image may begin and end with a part of a group.
        let images = lines / padded(of.from, of.filter) + 2;
        let groups = lines / GROUP + 2 * images;
        let rounds = (groups * (DEPTH / CHANNELS)).div_ceil(THREADS);
        let depth = of.depth * (of.slices.filter + result_slices - 1);
        let buffers = if depth > DEPTH { 2 } else { 1 };
        // Each round of the next lines is written at the place after the one at which it is read.
        let is_in_time = buffers == 1 || rounds < of.filter * of.filter;
        if !is_in_time || !are_few_images(columns, padded(of.from, of.filter)) {
            return None;
        }
        let access = access(of.from[0] * of.from[1]);
        let tiling = Self { row_warpgroups, result_slices, product_columns, access, lines, groups, buffers, stages: 0 };
        let at_stages = |stages| Self { stages, ..tiling };
        let of_blocks =
            |blocks| (LEAST_STAGES..=MOST_STAGES).rev().map(at_stages).find(|tiling| tiling.fits(blocks, shared));
        // Two blocks with wide products, or of volumes, would lack registers.
        let blocks = if product_columns == WIDE || of.slices != Slices::ONE { 1 } else { BLOCKS };
        of_blocks(blocks).or_else(|| of_blocks(1))
    }

    fn rows(&self) -> usize {
        ROWS * self.row_warpgroups
    }

    fn columns(&self) -> usize {
        self.product_columns * (WARPGROUPS / self.row_warpgroups)
    }

    /// The pixels of all images, with zeros.
    fn pixels(&self, of: &Correlation) -> usize {
        let images = of.images.saturating_mul(of.slices.count.div_ceil(self.result_slices));
        padded(of.from, of.filter).saturating_mul(images)
    }

    /// The tiles of rows.
    fn row_tiles(&self, of: &Correlation) -> usize {
        of.rows.div_ceil(self.rows() / self.result_slices)
    }

    /// The number of blocks.
    fn blocks(&self, of: &Correlation) -> usize {
        self.pixels(of).div_ceil(self.columns()).saturating_mul(self.row_tiles(of))
    }

    /// The channels of all slices that are read for a result.
    fn depth(&self, of: &Correlation) -> usize {
        of.depth * (of.slices.filter + self.result_slices - 1)
    }

    /// The octets of depth of all rows, and of those that fill up a tile.
    fn octets(&self, of: &Correlation) -> usize {
        self.row_tiles(of) * self.rows() * self.depth(of).next_multiple_of(DEPTH) / OCTET
    }

    fn shared_bytes(&self) -> usize {
        let factors = (self.buffers * self.lines + self.stages * self.rows()) * LINE_BYTES + self.groups * SOURCE;
        factors.max(results_bytes(self.rows(), self.columns()))
    }

    fn options(&self, of: &Correlation) -> Vec<String> {
        let values = [
            ("FILTER", of.filter),
            ("ROW_WARPGROUPS", self.row_warpgroups),
            ("PRODUCT_COLUMNS", self.product_columns),
            ("STAGES", self.stages),
            ("ACCESS", self.access),
        ];
        let gradient = of.is_gradient.then(|| "-DGRADIENT".to_owned());
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        let own = [of.element.option().to_owned()].into_iter().chain(values).chain(gradient);
        // Images that are no volumes share code whatever their channels.
        let last = (of.slices != Slices::ONE).then(|| {
            let last_depth = self.depth(of).next_multiple_of(DEPTH_OF_PRODUCT) % DEPTH;
            [format!("-DRESULT_SLICES={}", self.result_slices), format!("-DLAST_DEPTH={last_depth}")]
        });
        own.chain(options_of(of.slices)).chain(last.into_iter().flatten()).collect()
    }
}

/// A convolution whose result has the size of its input, or an input gradient, by a filter of several places.
#[derive(Clone, Copy, Debug)]
pub struct ShiftedConvolution {
    of: Correlation,
    tiling: Tiling,
}

/// The parameters of `order_filters`.
#[repr(C)]
struct Filters {
    w: *const c_void,
    v: *mut c_void,
    channels: i32,
    rows: i32,
}

/// The parameters of `shifted`.
#[repr(C)]
struct Parameters {
    v: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    channels: i32,
    rows: i32,
    lines: i32,
    buffers: i32,
    alpha: f32,
    beta: f32,
}

impl Engine for ShiftedConvolution {
    type Problem = Correlation;
    const SOURCE: &'static KernelSource = &kernels::convolution::SHIFTED;
    const KERNELS: &'static [&'static CStr] = &[c"order_filters", c"shifted"];
    const IS_KEPT: bool = true;

    fn priority(_: &Correlation) -> Priority {
        Priority::OnWarpgroups
    }

    fn new(device: Device, of: &Correlation, knobs: &[Knob]) -> Option<Self> {
        let is_ours = is_same(device, of) && of.filter > 1 && of.slices.count < MOST_SLICES;
        if !knobs.is_empty() || !is_ours || !of.depth.is_multiple_of(OCTET) {
            return None;
        }
        let ordinal = device.ordinal();
        let tiling = Tiling::of(of, device.shared_bytes(ordinal)?, device.multiprocessors(ordinal)?)?;
        // The kernel counts pixels with zeros, and a tile behind them.
        let counts = [tiling.pixels(of), tiling.blocks(of)];
        counts.iter().all(|count| *count <= MOST_COUNTED).then_some(Self { of: *of, tiling })
    }

    fn problem(&self) -> &Correlation {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        self.tiling.options(&self.of)
    }

    fn allow(&self, device: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        // Images of other sizes, which need other amounts, share the code.
        let most = device.shared_bytes(device.ordinal()).unwrap_or(self.tiling.shared_bytes());
        Ok(kernels[1].allow_shared(most as u32)?)
    }

    /// The filters in another order.
    fn workspace(&self) -> usize {
        self.tiling.octets(&self.of) * OCTET * self.of.filter * self.of.filter * ELEMENT
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling } = self;
        let Memory { w, workspace, .. } = memory;
        // Frameworks' memory is aligned so. A program's own may not be.
        if !workspace.addr().is_multiple_of(PIECE_BYTES) {
            return false;
        }
        let [from, to] = of.images_in(memory);
        let [channels, rows, lines, buffers] =
            [of.depth, of.rows, tiling.lines, tiling.buffers].map(|count| count as i32);
        let mut filters = Filters { w, v: workspace, channels, rows };
        let first = launch_of((tiling.octets(of) * of.filter * of.filter).div_ceil(THREADS), 0);
        let images = Images::of_volumes(of.images, of.slices, tiling.result_slices, of.from);
        let mut parameters = Parameters { v: workspace, from, to, images, channels, rows, lines, buffers, alpha, beta };
        let next = Launch { early: true, ..launch_of(tiling.blocks(of), tiling.shared_bytes()) };
        // SAFETY: `filters` and `parameters` are the kernels' only parameters; the caller promises memory as large as
        // the tensors. The second kernel waits for the first.
        unsafe {
            kernels[0].launch(stream, &first, &mut [(&raw mut filters).cast()]).is_ok()
                && kernels[1].launch(stream, &next, &mut [(&raw mut parameters).cast()]).is_ok()
        }
    }
}
