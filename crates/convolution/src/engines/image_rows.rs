//! Rows of a channel's planes in many images, for engines on tensor cores whose tiles have images as rows or as depth.
//! Twin of `kernels/convolution/image_rows.cuh`.

use crate::engines::by_channel::ByChannel;
use crate::engines::planes::axes;
use crate::engines::toeplitz::is_for_matrices;
use crate::engines::warpgroups::THREADS;
use gpu::Device;

/// The columns of a tile, and what a tile reads of a row.
const EIGHT: usize = 8;
const READ: usize = 2 * EIGHT;
/// The warps of a block, and the images of a tile.
const WARPS: usize = THREADS / 32;
const TILE_IMAGES: usize = 16;
/// The largest filter along a column: a thread has sums for each of its rows.
const MOST_FILTER_ROWS: usize = 7;
/// The rows of a step, at least if the filter has fewer: blocks wait after each step.
const STEP_ROWS: usize = 8;
/// The blocks that share a multiprocessor: three have room for their registers, two are enough where steps are large.
const BLOCKS: [usize; 2] = [3, 2];
/// What the device keeps for itself of a multiprocessor's shared memory, for each block.
const KEPT: usize = 1 << 10;

/// How a block goes through planes.
#[derive(Clone, Copy, Debug)]
pub struct ImageRows {
    filter_rows: usize,
    /// The tiles along a row.
    tiles: usize,
}

impl ImageRows {
    /// For a filter and a number of results in a row, if a block has warps for these.
    pub fn of(filter_rows: usize, columns: usize) -> Option<Self> {
        let tiles = columns.div_ceil(EIGHT).next_power_of_two().max(2);
        (filter_rows <= MOST_FILTER_ROWS && tiles <= WARPS).then_some(Self { filter_rows, tiles })
    }

    /// The tiles along a row.
    pub fn tiles(&self) -> usize {
        self.tiles
    }

    /// How many times as many rows as the filter a step has.
    fn rounds(&self) -> usize {
        (STEP_ROWS / self.filter_rows).max(1)
    }

    /// The rows of a step.
    pub fn rows(&self) -> usize {
        self.filter_rows * self.rounds()
    }

    /// The planes of a strip.
    pub fn images(&self) -> usize {
        TILE_IMAGES * (WARPS / self.tiles)
    }

    /// The elements of a step in shared memory.
    pub fn stage(&self) -> usize {
        self.images() * (self.rows() | 1) * (self.tiles + 1) * EIGHT
    }

    /// The steps of a strip whose results have this number of rows.
    pub fn steps(&self, rows: usize) -> usize {
        (rows + self.filter_rows - 1).div_ceil(self.rows())
    }

    /// The strips of a channel's planes.
    pub fn strips(&self, of: &ByChannel) -> usize {
        count(of).div_ceil(self.images())
    }

    /// Returns whether the strips are nearly full of planes, and enough for the device.
    pub fn is_worth_it(&self, of: &ByChannel, multiprocessors: usize) -> bool {
        let strips = self.strips(of);
        4 * count(of) >= 3 * strips * self.images() && strips.saturating_mul(of.0.outputs) >= 2 * multiprocessors
    }

    /// The compiler's options for it. Shared memory has `stages` steps at once.
    pub fn options(&self, stages: usize) -> impl Iterator<Item = String> + use<> {
        let values =
            [("FILTER_ROWS", self.filter_rows), ("ROUNDS", self.rounds()), ("TILES", self.tiles), ("STAGES", stages)];
        values.into_iter().map(|(name, value)| format!("-D{name}={value}"))
    }
}

/// The planes of a channel in all images.
pub fn count(of: &ByChannel) -> usize {
    of.0.images * of.0.y[0]
}

/// What a block may have of the shared memory, where a block alone may have `most`, with the blocks that then share a
/// multiprocessor.
pub fn shares(most: usize) -> impl Iterator<Item = (usize, usize)> {
    BLOCKS.into_iter().map(move |blocks| ((most + KEPT) / blocks - KEPT, blocks))
}

/// Returns whether eight results of a filter, which begin `shift` numbers behind the first that they read, read no more
/// than a tile does.
pub fn is_read(shift: usize, filter_columns: usize) -> bool {
    shift + EIGHT - 1 + filter_columns <= READ
}

/// Returns whether the kernels have the device's and the convolution's kind.
pub fn is_for_images(device: Device, of: &ByChannel) -> bool {
    let [rows, columns] = axes(of);
    // Planes of one row are long sequences.
    is_for_matrices(device, of) && rows.stride() * columns.stride() == 1 && rows.to > 1
}
