//! Clusters: blocks that store their units' h where the others multiply it; twins of the constants in
//! `kernels/rnn/cluster.cu`.

use super::{Cell, Configuration, LINE, Math, Problem, Regime};

/// What tells a block that h has arrived, in a line of shared memory of its own, in bytes.
pub(super) const MBARRIERS: usize = LINE;
/// The most and the least bytes of a store.
const STORE: usize = 16;
const LEAST_STORE: usize = 4;

impl Configuration {
    /// Units of a row in one store: as many as are 16 bytes, or fewer where a block's units or the layer's are no multiple
    /// of that.
    fn width(&self, problem: &Problem) -> usize {
        let factor = match self.math {
            Math::Fma => size_of::<f32>(),
            Math::TensorCores => problem.element.bytes(),
        };
        (STORE / factor).min(1 << (problem.hidden | self.units).trailing_zeros())
    }

    /// Stores in which a tile's h comes to each block of a cluster at each step.
    pub fn stores(&self, problem: &Problem) -> usize {
        problem.hidden * self.batch_tile / self.width(problem)
    }

    /// Whether a cluster's kernel is there for it, and the device has such clusters.
    pub(super) fn is_a_cluster(&self, problem: &Problem) -> bool {
        let has_stores = self.math == Math::Fma || self.width(problem) * problem.element.bytes() >= LEAST_STORE;
        let blocks = 2..=problem.cluster_blocks.min(problem.multiprocessors);
        has_stores && problem.cell != Cell::CanonicalGru && blocks.contains(&self.blocks(problem))
    }
}

impl Problem {
    /// Units of a block in clusters of 2, 4, 8, … blocks, or of somewhat fewer whose units go well into a store.
    pub(super) fn cluster_choices(&self) -> Vec<(Regime, usize)> {
        let blocks = (1..).map(|power| 1 << power).take_while(|&blocks| blocks <= self.cluster_blocks);
        let units = blocks.map(|blocks| self.hidden.div_ceil(blocks));
        let mut choices: Vec<_> =
            units.flat_map(|units| [1, 4, 8].map(|whole| units.next_multiple_of(whole))).collect();
        choices.retain(|&units| units < self.hidden);
        choices.sort_unstable();
        choices.dedup();
        choices.into_iter().map(|units| (Regime::Cluster, units)).collect()
    }
}
