//! Clusters: each block stores its units' h into the shared memory of the other blocks, where they multiply it. Twin of
//! the constants in `kernels/recurrent/cluster_send.cuh`.

use super::{Cell, Configuration, LINE, Math, Problem, Regime};

/// Bytes of the mbarriers that signal the arrival of h; they fill a line of shared memory.
pub(super) const MBARRIERS: usize = LINE;
/// The most and the least bytes of a store.
const STORE: usize = 16;
const LEAST_STORE: usize = 4;

impl Configuration {
    /// Units of a row in one store: 16 bytes of them, or fewer where that number does not divide the units of a block
    /// and of the layer.
    fn width(&self, problem: &Problem) -> usize {
        let factor = match self.math {
            Math::Fma => size_of::<f32>(),
            Math::TensorCores => problem.element.bytes(),
        };
        (STORE / factor).min(1 << (problem.hidden | self.units).trailing_zeros())
    }

    /// Stores that bring a tile's h, or sums, to each block of a cluster at each step.
    pub fn stores(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Scatter => self.sum_stores(problem),
            _ => problem.depth() * self.batch_tile / self.width(problem),
        }
    }

    /// Returns true if the cluster kernel supports this configuration, and the device supports such clusters.
    pub(super) fn is_a_cluster(&self, problem: &Problem) -> bool {
        let has_stores = match (self.regime, self.math) {
            (Regime::Scatter, _) => self.scatters(problem),
            (_, Math::Fma) => true,
            (_, Math::TensorCores) => self.width(problem) * problem.element.bytes() >= LEAST_STORE,
        };
        let blocks = 2..=problem.cluster_blocks.min(problem.multiprocessors);
        has_stores && problem.cell != Cell::CanonicalGru && blocks.contains(&self.blocks(problem))
    }
}

impl Problem {
    /// Units of a block in clusters of 2, 4, 8, … blocks; also rounded up to fill stores, which may leave fewer blocks.
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
