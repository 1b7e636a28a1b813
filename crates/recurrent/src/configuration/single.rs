//! Canonical GRU with a single exchange a step: for its units, a block has the rows of r and z but the columns of n.
//! Twin of the constants in `kernels/recurrent/{columns.cuh, single_exchange.cuh}`.

use super::{Cell, Configuration, Problem, Regime};

/// Sums of neighbouring units in a packet.
const TRIPLE: usize = 3;
/// The most packets that a thread reads at once here, and the packets that the register estimate already includes.
const MOST_AT_ONCE: usize = 9;
const AT_ONCE_ELSEWHERE: usize = 4;
/// Registers of a packet, and of a triple whose new h a thread computes.
const PACKET_REGISTERS: usize = 4;
const TRIPLE_REGISTERS: usize = 11;
/// The most blocks of a candidate: each block reads the packets of all blocks for all units.
const MOST_BLOCKS: usize = 8;

impl Configuration {
    /// Gates whose rows a block keeps.
    pub fn row_gates(&self, problem: &Problem) -> usize {
        problem.unit_rows() - usize::from(self.regime == Regime::GridSingle)
    }

    fn block_triples(&self) -> usize {
        self.units.div_ceil(TRIPLE)
    }

    /// Triples of all units.
    fn triples(&self, problem: &Problem) -> usize {
        self.blocks(problem) * self.block_triples()
    }

    /// Threads that share a product with the block's columns.
    pub fn column_lanes(&self, problem: &Problem) -> usize {
        let can_double =
            |lanes: &usize| *lanes < 32 && 4 * lanes < self.units && 2 * lanes * self.triples(problem) <= self.threads;
        let fewer = [1, 2, 4, 8, 16].iter().take_while(|&lanes| can_double(lanes)).count();
        1 << fewer
    }

    /// Triples that a thread helps to compute.
    fn group_triples(&self, problem: &Problem) -> usize {
        self.triples(problem).div_ceil(self.threads / self.column_lanes(problem))
    }

    /// The block's units, padded to an equal share of columns for each lane.
    fn padded_units(&self, problem: &Problem) -> usize {
        self.units.next_multiple_of(4 * self.column_lanes(problem))
    }

    /// A thread's weights in columns; 0 in other kernels.
    pub(super) fn column_weights(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::GridSingle => {
                let columns = self.padded_units(problem) / self.column_lanes(problem);
                TRIPLE * self.group_triples(problem) * columns
            }
            _ => 0,
        }
    }

    /// Packets of a tile that each block reads: from each block its part of all units' sums, and z of all units.
    pub(super) fn triple_packets(&self, problem: &Problem) -> usize {
        (self.blocks(problem) + 1) * self.batch_tile * self.triples(problem)
    }

    /// Rounds in which a thread reads packets, one after the other, if all blocks compute the new h.
    pub(super) fn single_rounds(&self, problem: &Problem) -> usize {
        (self.blocks(problem) + 1).div_ceil(MOST_AT_ONCE) * self.new_triples(problem)
    }

    /// Triples whose new h a thread computes.
    fn new_triples(&self, problem: &Problem) -> usize {
        (self.batch_tile * self.triples(problem)).div_ceil(self.threads)
    }

    /// Shared memory for r h and z, in bytes.
    pub(super) fn reset_bytes(&self, problem: &Problem) -> usize {
        let update = (self.batch_tile * self.block_triples() * TRIPLE).next_multiple_of(4);
        (self.batch_tile * self.padded_units(problem) + update) * size_of::<f32>()
    }

    /// Registers that a thread needs for the single exchange; 0 in other kernels.
    pub(super) fn single_registers(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::GridSingle => {
                let packets = (self.blocks(problem) + 1).min(MOST_AT_ONCE).saturating_sub(AT_ONCE_ELSEWHERE);
                let sums = TRIPLE * self.batch_tile;
                PACKET_REGISTERS * packets.max(sums.div_ceil(PACKET_REGISTERS))
                    + TRIPLE_REGISTERS * self.new_triples(problem)
            }
            _ => 0,
        }
    }
}

impl Problem {
    /// Units of a block, for the small numbers of blocks that may exchange once a step. Empty except for canonical GRU.
    pub(super) fn single_choices(&self) -> Vec<(Regime, usize)> {
        if self.cell != Cell::CanonicalGru {
            return vec![];
        }
        let blocks = (2..=MOST_BLOCKS.min(self.multiprocessors)).rev();
        let mut choices: Vec<_> =
            blocks.map(|blocks| self.hidden.div_ceil(blocks)).filter(|&units| units < self.hidden).collect();
        choices.dedup();
        choices.into_iter().map(|units| (Regime::GridSingle, units)).collect()
    }
}
