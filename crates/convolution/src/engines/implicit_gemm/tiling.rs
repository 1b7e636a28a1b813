//! The tile of a block.

use super::problem::GroupedCorrelation;
use crate::engines::tiles::{options_of_axes, pitch_of};

/// The columns of a block's product, for 1 × 1 filters and for larger ones.
const COLUMNS: [usize; 2] = [128, 256];
/// Bytes of shared memory that each block takes in addition to its own.
pub(super) const RESERVED: usize = 1 << 10;
/// The widths of asynchronous copies, in bytes.
const ACCESSES: [usize; 4] = [16, 8, 4, 2];
/// The depth steps in shared memory: one in use and one or two in flight; and where there is only one.
const STAGES: [usize; 2] = [3, 2];
const ONE_STAGE: [usize; 1] = [1];
/// From this many rounds of blocks on, a nearly empty last round is negligible.
const MANY_ROUNDS: usize = 8;
/// The number of exact products that take as long as one copy. It serves only to rank tilings.
const PRODUCTS_OF_AN_ACCESS: usize = 40;

/// The tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// The images, or slices of volumes, written; slices, rows and columns count cells.
    pub images: usize,
    /// The tile's rows and columns of the images written.
    pub rows: usize,
    pub columns: usize,
    /// The elements of one asynchronous copy, for images and for filters.
    image_access: usize,
    filter_access: usize,
    stages: usize,
}

/// The images in shared memory, along one axis.
struct Read {
    /// The rows, or columns.
    length: usize,
    /// What each place of the filter reads is apart.
    is_separate: bool,
}

impl Tiling {
    /// The best tiling for this many multiprocessors, each with `shared` bytes of memory for a block.
    pub fn of(correlation: &GroupedCorrelation, shared: usize, multiprocessors: usize) -> Option<Self> {
        let GroupedCorrelation { images, from, .. } = *correlation;
        let ([z, p, q], between) = (correlation.cells(), correlation.between_cells());
        let (most, blocks) = (most_columns(correlation), blocks_at_once(correlation));
        let accesses = ACCESSES.map(|bytes| bytes / correlation.element.bytes());
        let access_of =
            |length: usize| accesses.into_iter().find(|access| *access > 0 && length.is_multiple_of(*access));
        let (image_access, filter_access) = (access_of(from[2])?, access_of(correlation.filters())?);
        let stages = if correlation.has_one_step() { &ONE_STAGE[..] } else { &STAGES };
        let mut best: Option<(usize, Self)> = None;
        // Copies need an aligned start of each tile.
        let begins = |columns: &usize| *columns == q || (columns * between[2]).is_multiple_of(image_access);
        for columns in (1..=q.min(most)).filter(begins) {
            for rows in 1..=p.min(most / columns) {
                for images in 1..=(images * z).min(most / (rows * columns)) {
                    let at_stages = |&stages| Self { images, rows, columns, image_access, filter_access, stages };
                    let bytes = |tiling: &Self| blocks * (tiling.shared_bytes(correlation) + RESERVED);
                    let fits = |tiling: &Self| bytes(tiling) <= shared + RESERVED;
                    let Some(tiling) = stages.iter().map(at_stages).find(fits) else { continue };
                    let costs = tiling.costs(correlation, multiprocessors * blocks);
                    if best.is_none_or(|(least, _)| costs < least) {
                        best = Some((costs, tiling));
                    }
                }
            }
        }
        best.map(|(_, tiling)| tiling)
    }

    /// The number of blocks.
    pub fn blocks(&self, correlation: &GroupedCorrelation) -> usize {
        let ([z, p, q], [of_slices, of_rows, _]) = (correlation.cells(), correlation.cell());
        let images = (correlation.images * z).div_ceil(self.images);
        let tiles = images * p.div_ceil(self.rows) * q.div_ceil(self.columns);
        (tiles * of_slices * of_rows).saturating_mul(correlation.row_tiles())
    }

    /// The cost of all blocks with `at_once` of them running, as products for one depth step.
    fn costs(&self, correlation: &GroupedCorrelation, at_once: usize) -> usize {
        let (depth, places) = (correlation.depth_at_once(), correlation.places());
        let [x_rows, x_columns] = self.image(correlation).map(|read| read.length);
        let slices = self.images * correlation.filter[0];
        let images = slices * depth * x_rows * x_columns / self.image_access;
        let filters = correlation.row_tile() * depth * places / self.filter_access;
        // A block has the places that are for its row, and slice, of cells.
        let [of_slices, of_rows, _] = correlation.cell();
        let of_block = places.div_ceil(of_slices * of_rows) * correlation.products();
        let products = correlation.row_tile() * most_columns(correlation) * depth * of_block / 3;
        let costs = products + (images + filters) * PRODUCTS_OF_AN_ACCESS;
        // With many rounds a partial last round is ignored, so that problems of other channels share tiles and code.
        match self.blocks(correlation) {
            blocks if blocks >= MANY_ROUNDS * at_once => blocks.saturating_mul(costs),
            blocks => blocks.next_multiple_of(at_once).saturating_mul(costs),
        }
    }

    /// A slice of an image in shared memory, its rows and its columns, laid out like the kernel's.
    fn image(&self, correlation: &GroupedCorrelation) -> [Read; 2] {
        let (filter, between) = (correlation.filter, correlation.between_cells());
        let [[above, below], [front, behind]] = [1, 2].map(|axis| correlation.read_around(axis));
        let smaller = |whole: usize, parts: usize| Read { length: whole.min(parts), is_separate: parts < whole };
        let spanned = |axis: usize, tile: usize| (tile - 1) * between[axis] + 1;
        let rows = smaller(above + spanned(1, self.rows) + below, self.rows * filter[1]);
        let access = self.image_access;
        let whole = (front.next_multiple_of(access) + spanned(2, self.columns) + behind).next_multiple_of(access);
        let part = ((self.columns - 1) * between[2] + access).next_multiple_of(access);
        [rows, smaller(whole, part * filter[2])]
    }

    /// The shared memory of a block in bytes, laid out like the kernel's.
    pub fn shared_bytes(&self, correlation: &GroupedCorrelation) -> usize {
        let (depth, places, element) = (correlation.depth_at_once(), correlation.places(), correlation.element.bytes());
        let row_tile = correlation.row_tile();
        let filters = match correlation.is_gradient {
            true => depth * pitch_of(row_tile * places, 8),
            false => row_tile * (depth * places + 4 * size_of::<u32>() / element),
        };
        let [rows, columns] = self.image(correlation).map(|read| read.length);
        let images = depth * pitch_of(self.images * correlation.filter[0] * rows * columns, 8);
        self.stages * (filters + images) * element
    }

    /// The neighbouring results that a lane writes at once. It has two cells.
    fn together(&self, correlation: &GroupedCorrelation) -> usize {
        let neighbours = correlation.cell()[2] * if self.columns.is_multiple_of(2) { 2 } else { 1 };
        let is_whole = |count: &usize| neighbours.is_multiple_of(*count) && correlation.to[2].is_multiple_of(*count);
        let most = ACCESSES[0] / correlation.element.bytes();
        [8, 4, 2].into_iter().filter(|count| *count <= most).find(is_whole).unwrap_or(1)
    }

    /// The compiler's options.
    pub fn options(&self, correlation: &GroupedCorrelation) -> Vec<String> {
        let GroupedCorrelation { is_gradient, filter, stride, padding, dilation, .. } = *correlation;
        let values = [
            ("DEPTH", correlation.depth_at_once()),
            ("ROW_MATRICES", correlation.row_matrices()),
            ("TILE_IMAGES", self.images),
            ("TILE_ROWS", self.rows),
            ("TILE_COLUMNS", self.columns),
            ("X_ACCESS", self.image_access),
            ("W_ACCESS", self.filter_access),
            ("STAGES", self.stages),
            ("TOGETHER", self.together(correlation)),
        ];
        let joined = match correlation.joined() {
            1 => vec![],
            joined => {
                vec![("JOINED", joined), ("GROUP_ROWS", correlation.rows), ("GROUP_DEPTH", correlation.depth)]
            }
        };
        let axes = options_of_axes([filter, stride, padding, dilation], correlation.is_flat());
        let values = values.into_iter().chain(joined).map(|(name, value)| format!("-D{name}={value}"));
        let [rows, columns] = self.image(correlation).map(|read| read.is_separate);
        let flags = [
            (correlation.is_exact, "-DEXACT"),
            (is_gradient, "-DGRADIENT"),
            (correlation.groups > 1, "-DGROUPED"),
            (rows, "-DSEPARATE_ROWS"),
            (columns, "-DSEPARATE_COLUMNS"),
        ];
        let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag));
        axes.chain(values).chain(flags.chain([correlation.element.option()]).map(str::to_owned)).collect()
    }
}

/// The most columns of a block's product.
pub(super) fn most_columns(correlation: &GroupedCorrelation) -> usize {
    COLUMNS[usize::from(correlation.places() > 1)]
}

/// The blocks that share a multiprocessor, as in the kernel.
pub(super) fn blocks_at_once(correlation: &GroupedCorrelation) -> usize {
    match (correlation.places(), correlation.sum_matrices(), correlation.is_exact) {
        (1, 3.., true) => 1,
        (1, _, _) => 2,
        (2..=9, 1, false) => 4,
        (2..=9, 2, false) | (2..=9, 1, true) => 2,
        _ => 1,
    }
}
