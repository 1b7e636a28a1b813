//! Wavefronts: stacked layers in one launch, each a time step behind the layer below. Twin of the constants in
//! `kernels/recurrent/wavefront.cu`.

use super::{Cell, Configuration, MOST_RECURRENCES, Problem, Regime};

/// Registers for packets from the two neighbouring layers.
const NEIGHBOURS: usize = 16;

impl Configuration {
    /// Layers that a launch computes.
    pub fn layers(&self) -> usize {
        match self.regime {
            Regime::Wavefront { layers } => layers,
            _ => 1,
        }
    }

    /// Matrices whose rows a block keeps for its units: R, and in a wavefront W.
    pub fn matrices(&self) -> usize {
        match self.regime {
            Regime::Wavefront { .. } => 2,
            _ => 1,
        }
    }

    /// Sums of a pair of a unit and a row: one a gate, and one more where a reset gate comes between W x and R h.
    pub(super) fn pair_sums(&self, problem: &Problem) -> usize {
        let multiplies_input = self.matrices() > 1 || (self.multiplies_input() && !self.has_input_warps());
        let is_apart = multiplies_input && problem.cell == Cell::Gru;
        self.row_gates(problem) + usize::from(is_apart)
    }

    /// Registers that a thread needs beyond those of a single-layer kernel.
    pub(super) fn neighbour_registers(&self) -> usize {
        if self.matrices() > 1 { NEIGHBOURS } else { 0 }
    }

    /// Packets that a block reads at each step: those of its own layer; in a wavefront also those of the layer below,
    /// and one of each block of the layer above.
    pub fn collected(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Wavefront { .. } => 2 * self.packets(problem) + self.blocks(problem),
            _ => self.packets(problem),
        }
    }
}

impl Problem {
    /// Wavefronts, and units of a block. All layers share one launch, or two or three; the number of blocks allows 1,
    /// 2, 4, … tiles at the same time.
    pub(super) fn wavefront_choices(&self) -> Vec<(Regime, usize)> {
        if self.directions > 1 {
            return vec![];
        }
        let mut choices = Vec::new();
        for layers in [1, 2, 3].map(|launches| self.layers.div_ceil(launches)) {
            if !(2..=MOST_RECURRENCES).contains(&layers) {
                continue;
            }
            let blocks = (0..).map(|power| self.multiprocessors / (layers << power)).take_while(|&blocks| blocks > 0);
            choices.extend(blocks.map(|blocks| (layers, self.hidden.div_ceil(blocks))));
        }
        choices.sort_unstable();
        choices.dedup();
        choices.into_iter().map(|(layers, units)| (Regime::Wavefront { layers }, units)).collect()
    }
}
