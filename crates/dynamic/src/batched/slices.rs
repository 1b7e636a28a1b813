//! Sums over rows in slices: few sums of many rows keep all multiprocessors busy. Each slice has its own sums, which are added
//! up afterwards.

use vertex::passes::{Passes, Work};

/// A slice has a multiple of as many rows. Twin of the number in `kernels/dynamic/slices.cuh`.
const SLICE_ROWS: usize = 64;

/// The blocks of all sums of a run that have rows enough: some times as many as a large GPU holds at once. The number is the
/// same on all devices, so that they add up in the same order; and it bounds the memory for the slices' sums.
const BLOCKS: usize = 1024;

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

/// How the sums of a net are cut.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    /// The most slices of a sum.
    most: usize,
}

impl Slices {
    /// Of the sums into gradients that the passes of all kinds have.
    pub fn new(kinds: &[Passes]) -> Self {
        let tiles = kinds.iter().flat_map(Passes::all).map(|pass| match pass.work {
            Work::Accumulate { dy, x, .. } => outer_tiles(dy.width, x.width),
            Work::AccumulateBias { dy, .. } => row_tiles(dy.width),
            _ => 0,
        });
        Self { most: (BLOCKS / tiles.sum::<usize>().max(1)).max(1) }
    }

    /// How many slices a sum over `rows` rows has.
    pub fn of(self, rows: usize) -> usize {
        rows.div_ceil(SLICE_ROWS).clamp(1, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_never_have_fewer_slices() {
        for most in [1, 4, BLOCKS] {
            let slices: Vec<_> =
                (0..300 * SLICE_ROWS).step_by(SLICE_ROWS / 2).map(|rows| Slices { most }.of(rows)).collect();
            assert!(slices.is_sorted() && slices[0] == 1 && slices.iter().all(|its| *its <= most), "{slices:?}");
        }
    }
}
