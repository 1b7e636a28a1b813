//! The tile of a block: its rows and columns, and the stages in its shared memory.

use super::GROUP;
use crate::engines::problem::Correlation;

/// The warpgroups of a block.
pub const WARPGROUPS: usize = 2;
/// Rows and columns of a warpgroup's product.
pub const ROWS: usize = 64;
pub const COLUMNS: usize = 128;
/// The depth of a stage: filters and neighbours of a pixel; of a filter's gradient, pixels.
pub const DEPTH: usize = 64;
/// The bytes of an element.
pub const ELEMENT: usize = 2;
/// The blocks that share a multiprocessor if it has room for them.
pub const BLOCKS: usize = 2;
/// The bytes of shared memory that each block takes in addition to its own.
pub const RESERVED: usize = 1 << 10;
/// The most images of whose pixels a tile may have results.
const MOST_IMAGES: usize = 8;
/// The most and the fewest stages: one in use, the others in flight.
pub const MOST_STAGES: usize = 4;
const LEAST_STAGES: usize = 2;
/// Numbers of elements that one copy may take. An image is a multiple of it.
const ACCESSES: [usize; 4] = [8, 4, 2, 1];

/// The elements of one copy of images that have `pixels` pixels.
pub fn access(pixels: usize) -> usize {
    ACCESSES.into_iter().find(|access| pixels.is_multiple_of(*access)).unwrap_or(1)
}

/// The shared memory for a tile's results, as in `kernels/convolution/aligned_results.cuh`.
pub fn results_bytes(rows: usize, columns: usize) -> usize {
    rows * (columns + GROUP * (MOST_IMAGES + 1)) * ELEMENT + columns * size_of::<u32>()
}

/// Returns whether a tile of `columns` columns has results of few enough images, each of which counts `pixels` pixels.
pub fn are_few_images(columns: usize, pixels: usize) -> bool {
    columns.div_ceil(pixels) < MOST_IMAGES
}

/// A tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The warpgroups that share out its rows; the others share out its columns.
    row_warpgroups: usize,
    pub stages: usize,
    /// The elements of one copy of images.
    access: usize,
}

impl Tile {
    /// The tile for a product of `rows` rows over images of `pixels` pixels. A block may have `shared` bytes of shared
    /// memory, and needs `others` of them for other things. `None` if there are too few.
    pub fn of(rows: usize, pixels: usize, others: usize, shared: usize) -> Option<Self> {
        let row_warpgroups = if rows > ROWS { WARPGROUPS } else { 1 };
        let access = access(pixels);
        let at_stages = |stages| Self { row_warpgroups, stages, access };
        let bytes = |tile: &Self| tile.shared_bytes() + others + RESERVED;
        let of_blocks = |blocks| {
            let fits = |tile: &Self| blocks * bytes(tile) <= shared + RESERVED;
            (LEAST_STAGES..=MOST_STAGES).rev().map(at_stages).find(fits)
        };
        of_blocks(BLOCKS).or_else(|| of_blocks(1))
    }

    /// The tile for a correlation. `None` if a block has too few bytes of shared memory, or images are too small.
    pub fn of_correlation(of: &Correlation, shared: usize) -> Option<Self> {
        let pixels = of.to[0] * of.to[1];
        Self::of(of.rows, pixels, 0, shared).filter(|tile| tile.has_results_of(pixels))
    }

    /// The number of blocks for a correlation.
    pub fn blocks(&self, of: &Correlation) -> usize {
        let groups = (of.to[0] * of.to[1]).div_ceil(GROUP).saturating_mul(of.images);
        groups.div_ceil(self.columns() / GROUP).saturating_mul(of.rows.div_ceil(self.rows()))
    }

    pub fn rows(&self) -> usize {
        ROWS * self.row_warpgroups
    }

    pub fn columns(&self) -> usize {
        COLUMNS * (WARPGROUPS / self.row_warpgroups)
    }

    /// The bytes of its stages, or of results in their place.
    pub fn shared_bytes(&self) -> usize {
        let stages = self.stages * (self.rows() + self.columns()) * DEPTH * ELEMENT;
        stages.max(results_bytes(self.rows(), self.columns()))
    }

    /// Returns whether a tile may have results of images of `pixels` pixels. Results in wide accesses leave from
    /// registers, so the number of images does not matter to them.
    pub fn has_results_of(&self, pixels: usize) -> bool {
        self.access >= 4 || are_few_images(self.columns(), pixels.next_multiple_of(GROUP))
    }

    /// The compiler's options for it.
    pub fn options(&self) -> impl Iterator<Item = String> {
        let values = [("ROW_WARPGROUPS", self.row_warpgroups), ("STAGES", self.stages), ("ACCESS", self.access)];
        values.into_iter().map(|(name, value)| format!("-D{name}={value}"))
    }
}
