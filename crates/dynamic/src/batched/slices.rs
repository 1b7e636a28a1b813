//! Sums over rows in slices: few sums of many rows keep all multiprocessors busy. Each slice has its own sums, which are added
//! up afterwards.

/// A slice has a multiple of as many rows. Twin of the number in `kernels/dynamic/slices.cuh`.
const SLICE_ROWS: usize = 64;

/// The blocks that a sum has in all if it has rows enough: two for each multiprocessor of a large GPU, twice. It is the same
/// on all devices, so that they add up in the same order.
const BLOCKS: usize = 512;

/// The tile of a block's sums of outer products. Twins of the numbers in `kernels/dynamic/outer_products.cuh`.
const OUTER_ROWS: usize = 128;
const OUTER_COLUMNS: usize = 64;

/// The columns of a block's sums of rows. Twin of the number in `kernels/dynamic/products.cu`.
const SUM_COLUMNS: usize = 32;

/// The tiles of sums of outer products of so many numbers of dy and x.
pub fn outer_tiles(rows: usize, columns: usize) -> usize {
    rows.div_ceil(OUTER_ROWS) * columns.div_ceil(OUTER_COLUMNS)
}

/// The blocks of a slice of sums of rows.
pub fn row_tiles(columns: usize) -> usize {
    columns.div_ceil(SUM_COLUMNS)
}

/// The slices of a sum of `rows` rows that has so many tiles.
pub fn slices(tiles: usize, rows: usize) -> usize {
    rows.div_ceil(SLICE_ROWS).min(BLOCKS / tiles.max(1)).max(1)
}
