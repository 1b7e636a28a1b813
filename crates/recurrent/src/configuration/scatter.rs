//! The way back through time with scattered sums: a block has all columns of R for its own units' gates. Twin of the
//! constants in `kernels/recurrent/{scatter_share.cuh, back_scatter.cu, back_grid.cu}` and
//! `kernels/common/phased.cuh`.

use super::{Cell, Configuration, EXCHANGE, Math, PACKET, Problem, Regime};

/// Neighbouring rows whose sums are sent together.
const TOGETHER: usize = 4;
/// The most times that a thread with a whole row reads 4 factors: the compiler reads all of them ahead.
const MOST_AHEAD: usize = 16;

/// The most pieces of sums that a thread asks for at once, and the most bytes of a column's sums that go through the L2
/// cache.
const MOST_AT_ONCE: usize = 8;
const MOST_COLUMN: usize = 64;

impl Configuration {
    /// Returns true if blocks send sums.
    pub fn is_scattered(&self) -> bool {
        matches!(self.regime, Regime::Scatter | Regime::GridScatter)
    }

    /// Units of the matrix whose rows a block has: its own, or for sums that it scatters all of them.
    pub fn own_rows(&self, problem: &Problem) -> usize {
        if self.is_scattered() { problem.hidden } else { self.units }
    }

    /// The elements of such a row: of all units' gates, or of the block's own.
    pub fn depth(&self, problem: &Problem) -> usize {
        if self.is_scattered() { problem.cell.gates() * self.units } else { problem.depth() }
    }

    /// Units of each block that R is dealt out to by its columns: of one block, where none scatters.
    pub fn dealt_units(&self, hidden: usize) -> usize {
        if self.is_scattered() { self.units } else { hidden }
    }

    /// Rows of a column whose sums are sent together.
    fn together(&self, problem: &Problem) -> usize {
        match self.math {
            Math::TensorCores => TOGETHER,
            Math::Fma => {
                let pairs = self.group_units(problem) * self.batch_tile;
                let of_a_lane = if pairs.is_multiple_of(self.lanes) { pairs / self.lanes } else { 1 };
                TOGETHER.min(1 << (self.batch_tile | of_a_lane).trailing_zeros())
            }
        }
    }

    /// Stores that bring a tile's sums to each block at each step.
    pub(super) fn sum_stores(&self, problem: &Problem) -> usize {
        problem.hidden * self.batch_tile / self.together(problem)
    }

    /// Pieces of sums from one block to another, each sent in one store.
    fn pieces(&self, problem: &Problem) -> usize {
        self.units * self.batch_tile / self.together(problem)
    }

    /// Sets of threads that share out the blocks which send through the L2 cache.
    fn sets(&self, problem: &Problem) -> usize {
        (self.threads / self.pieces(problem)).max(1)
    }

    /// Rounds in which a thread reads sums at each step, one after the other.
    pub(super) fn scattered_rounds(&self, problem: &Problem) -> usize {
        let senders = self.blocks(problem).div_ceil(self.sets(problem));
        self.pieces(problem).div_ceil(self.threads) * senders.div_ceil(MOST_AT_ONCE)
    }

    /// Bytes of a sum that is sent: those of an element, or a float's where it is sent alone.
    fn sum_bytes(&self, problem: &Problem) -> usize {
        if self.together(problem) == 1 { size_of::<f32>() } else { problem.element.bytes() }
    }

    /// Bytes of the sums that a block gets: in two buffers, or as floats those of each set of threads.
    pub(super) fn received_bytes(&self, problem: &Problem) -> usize {
        let from_a_block = self.units * self.batch_tile;
        match self.regime {
            Regime::Scatter => 2 * (self.blocks(problem) * from_a_block).next_multiple_of(8) * self.sum_bytes(problem),
            Regime::GridScatter => (self.sets(problem) * from_a_block).next_multiple_of(4) * size_of::<f32>(),
            _ => 0,
        }
    }

    /// Bytes of a packet, of sums or of others.
    pub fn packet_bytes(&self, problem: &Problem) -> usize {
        if self.regime == Regime::GridScatter { self.together(problem) * self.sum_bytes(problem) } else { PACKET }
    }

    /// Bytes of the exchange memory of a group of blocks that send sums through the L2 cache.
    pub(super) fn scattered_bytes(&self, problem: &Problem) -> usize {
        let sums = self.blocks(problem).pow(2) * self.units * self.batch_tile;
        EXCHANGE + (2 * sums * self.sum_bytes(problem)).next_multiple_of(EXCHANGE)
    }

    /// Returns true if blocks may scatter sums: a warp of tensor cores has the whole depth, and a thread has few factors
    /// under way.
    pub(super) fn scatters(&self, problem: &Problem) -> bool {
        let has_depth = match self.math {
            Math::Fma => self.lanes > 1 || self.padded(problem) / 4 * self.batch_tile <= MOST_AHEAD,
            Math::TensorCores => self.parts() == 1,
        };
        let has_room = self.regime == Regime::Scatter || self.batch_tile * problem.element.bytes() <= MOST_COLUMN;
        has_depth && has_room && matches!(problem.cell, Cell::Lstm | Cell::Gru)
    }
}

impl Problem {
    /// Units of a block that scatters sums, as in other clusters and grids.
    pub(super) fn scatter_choices(&self) -> Vec<(Regime, usize)> {
        let in_clusters = self.cluster_choices().into_iter().map(|(_, units)| (Regime::Scatter, units));
        let in_grids = self.grid_choices().into_iter().map(|(_, units)| (Regime::GridScatter, units));
        in_clusters.chain(in_grids).collect()
    }
}
