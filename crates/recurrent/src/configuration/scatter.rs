//! The way back through time with scattered sums: a block has all columns of R for its own units' gates. Twin of the
//! constants in `kernels/recurrent/{scatter_share.cuh, back_scatter.cu}`.

use super::{Cell, Configuration, Math, Problem, Regime};

/// Neighbouring rows whose sums are sent together.
const TOGETHER: usize = 4;
/// The most times that a thread with a whole row reads 4 factors: the compiler reads all of them ahead.
const MOST_AHEAD: usize = 32;

impl Configuration {
    /// Units of the matrix whose rows a block has: its own, or for sums that it scatters all of them.
    pub fn own_rows(&self, problem: &Problem) -> usize {
        if self.regime == Regime::Scatter { problem.hidden } else { self.units }
    }

    /// The elements of such a row: of all units' gates, or of the block's own.
    pub fn depth(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Scatter => problem.cell.gates() * self.units,
            _ => problem.depth(),
        }
    }

    /// Units of each block that R is dealt out to by its columns: of one block, where none scatters.
    pub fn dealt_units(&self, hidden: usize) -> usize {
        if self.regime == Regime::Scatter { self.units } else { hidden }
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

    /// Bytes of the sums that a block gets, in two buffers.
    pub(super) fn received_bytes(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Scatter => {
                2 * (self.blocks(problem) * self.units * self.batch_tile).next_multiple_of(4) * size_of::<f32>()
            }
            _ => 0,
        }
    }

    /// Returns true if the blocks of a cluster may scatter sums: a warp of tensor cores has the whole depth, and a thread
    /// has few factors under way.
    pub(super) fn scatters(&self, problem: &Problem) -> bool {
        let has_depth = match self.math {
            Math::Fma => self.lanes > 1 || self.padded(problem) / 4 * self.batch_tile <= MOST_AHEAD,
            Math::TensorCores => self.parts() == 1,
        };
        has_depth && matches!(problem.cell, Cell::Lstm | Cell::Gru)
    }
}

impl Problem {
    /// Units of a block in clusters that scatter sums, as in other clusters.
    pub(super) fn scatter_choices(&self) -> Vec<(Regime, usize)> {
        self.cluster_choices().into_iter().map(|(_, units)| (Regime::Scatter, units)).collect()
    }

    /// The most units that R is dealt out to by its columns, with those behind the last.
    pub fn most_dealt_units(&self) -> usize {
        let dealt = Configuration::space(self).into_iter().map(|one| one.dealt_units(self.hidden));
        dealt.map(|units| self.hidden.next_multiple_of(units)).max().unwrap_or(self.hidden)
    }
}
