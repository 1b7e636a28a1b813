//! Tensor cores multiply tiles: 16 rows of a block's weights (all gates of its units) with 8 rows of the batch. Warps
//! share out H and the tiles of rows. Twin of the constants in `kernels/common/matrix/tensor.cuh`.

use super::{Configuration, Problem};

/// Rows of the weights, and of the batch, in a product of tiles.
const ROWS: usize = 16;
const COLUMNS: usize = 8;
/// Bytes of a thread's part of a tile of weights.
const FRAGMENT: usize = 16;
/// Threads of a warp that share a row's part of H.
const SHARERS: usize = 4;
/// A product's code, counted in fused multiply-adds.
pub const CODE: usize = 2;
/// Registers for a tile's part of h on its way from shared memory, and for addresses.
const H_UNDER_WAY: usize = 4;
const PLACES: usize = 8;
/// In a kernel that scatters sums: a thread's registers for addresses and the like, those for a pair, and those for
/// weights on their way.
const SCATTER_BASE: usize = 84;
const SCATTER_PAIR: usize = 18;
const FETCHED_TO_SCATTER: usize = 48;

/// The most rows of the batch in a block's tile.
const MOST_BATCH_TILE: usize = 64;

/// Elements of a thread's part of a tile of weights.
pub fn fragment(problem: &Problem) -> usize {
    FRAGMENT / problem.element.bytes()
}

impl Configuration {
    /// Parts of H; different warps multiply different parts.
    pub fn parts(&self) -> usize {
        self.lanes / SHARERS
    }

    /// Tiles of rows of a block.
    pub fn row_tiles(&self, problem: &Problem) -> usize {
        (self.own_rows(problem) * problem.unit_rows()).div_ceil(ROWS)
    }

    /// Tiles of rows of a warp.
    pub fn warp_tiles(&self, problem: &Problem) -> usize {
        self.row_tiles(problem).div_ceil(self.threads / (32 * self.parts()))
    }

    /// Chunks of H of a warp. A chunk is as deep as two products.
    pub fn chunks(&self, problem: &Problem) -> usize {
        self.depth(problem).div_ceil(SHARERS * fragment(problem) * self.parts())
    }

    /// A warp's products, each of a tile of rows with a tile of the batch.
    pub fn products(&self, problem: &Problem) -> usize {
        self.fragments(problem) * self.batch_tile.div_ceil(COLUMNS)
    }

    /// Elements of a row of h in shared memory: an odd number of chunks, against bank conflicts.
    pub(super) fn padded_chunks(&self, problem: &Problem) -> usize {
        ((self.chunks(problem) * self.parts()) | 1) * SHARERS * fragment(problem)
    }

    /// A thread's parts of tiles of weights.
    pub(super) fn fragments(&self, problem: &Problem) -> usize {
        2 * self.chunks(problem) * self.warp_tiles(problem)
    }

    /// Bytes of the sums of H's parts.
    pub fn sums_bytes(&self, problem: &Problem) -> usize {
        if self.is_scattered() {
            return 0; // they are sent from registers
        }
        self.parts() * self.batch_tile * (self.row_tiles(problem) * ROWS + 4) * size_of::<f32>()
    }

    /// Bytes of shared memory for the sums of H's parts. Earlier, each thread's weights pass through the same memory.
    pub(super) fn meeting_bytes(&self, problem: &Problem) -> usize {
        self.sums_bytes(problem).max(self.threads * FRAGMENT)
    }

    /// Registers of a thread for sums, and for values on their way from shared memory.
    pub(super) fn tile_registers(&self, problem: &Problem) -> usize {
        (4 * self.warp_tiles(problem) + H_UNDER_WAY) * self.batch_tile.div_ceil(COLUMNS) + PLACES
    }

    /// Registers for tiles of weights on their way from shared memory; the compiler reads these far ahead.
    pub(super) fn fetched_registers(&self, problem: &Problem) -> usize {
        if self.is_scattered() {
            // A fetched weight is multiplied with all columns, so fewer are on their way if there are more columns.
            return FETCHED_TO_SCATTER / self.batch_tile.div_ceil(COLUMNS);
        }
        8 * self.warp_tiles(problem) + 16
    }

    /// Registers of a thread beside its weights, if it scatters sums: for the sums of its tiles, and for its pairs. The
    /// compiler uses this number where no limit forces it to use fewer.
    pub(super) fn scatter_registers(&self, problem: &Problem) -> usize {
        let sums = 4 * self.warp_tiles(problem) * self.batch_tile.div_ceil(COLUMNS);
        SCATTER_BASE + sums + SCATTER_PAIR * self.own_pairs()
    }

    /// Returns true if few warps lack tiles, and few tiles are mostly zeros.
    pub(super) fn tiles_are_used(&self, problem: &Problem) -> bool {
        let row_warps = self.threads / (32 * self.parts());
        let depth = self.chunks(problem) * self.parts() * SHARERS * fragment(problem);
        let owned = row_warps * self.warp_tiles(problem);
        4 * self.row_tiles(problem) >= 3 * owned && (self.parts() == 1 || 16 * self.depth(problem) >= 11 * depth)
    }
}

impl Problem {
    /// Rows of a batch tile: whole tiles of tensor cores, in powers of two or equal parts of the batch. Empty where
    /// tensor cores may not multiply, or would mostly multiply padding.
    pub(super) fn tensor_tile_choices(&self) -> Vec<usize> {
        if !self.tensor_cores || self.batch < COLUMNS {
            return vec![];
        }
        let parts = [1, 2, 3, 4].map(|parts| self.batch.div_ceil(parts).next_multiple_of(COLUMNS));
        let powers = [8, 16, 32, 64].into_iter().filter(|&tile| tile <= self.batch);
        let mut choices: Vec<_> = powers.chain(parts).filter(|&tile| tile <= MOST_BATCH_TILE).collect();
        choices.sort_unstable();
        choices.dedup();
        choices
    }
}
