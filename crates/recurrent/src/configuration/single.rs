//! Canonical GRU with a single exchange a step: a block has the rows of its units of r and z, and of n the columns; twins of
//! the constants in `kernels/rnn/{columns.cuh, single_exchange.cuh}`.

use super::{Cell, Configuration, Problem, Regime};

/// Sums of neighbouring units in a packet.
const TRIPLE: usize = 3;
/// The most packets that a thread asks for at once, of which the others' estimate of registers has so many.
const MOST_AT_ONCE: usize = 9;
const AT_ONCE_ELSEWHERE: usize = 4;
/// Registers of a packet, and of a triple whose new h a thread computes.
const PACKET_REGISTERS: usize = 4;
const TRIPLE_REGISTERS: usize = 11;
/// The most blocks that are offered: each reads what all have sent of all units.
const MOST_BLOCKS: usize = 8;

impl Configuration {
    /// Gates of which a block has its units' rows.
    pub fn row_gates(&self, problem: &Problem) -> usize {
        problem.cell.gates() - usize::from(self.regime == Regime::GridSingle)
    }

    fn block_triples(&self) -> usize {
        self.units.div_ceil(TRIPLE)
    }

    /// Triples of a row.
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

    /// Triples of which a thread has parts.
    fn group_triples(&self, problem: &Problem) -> usize {
        self.triples(problem).div_ceil(self.threads / self.column_lanes(problem))
    }

    /// The block's units, with what is added so that each lane has as many columns.
    fn padded_units(&self, problem: &Problem) -> usize {
        self.units.next_multiple_of(4 * self.column_lanes(problem))
    }

    /// Weights of a thread in columns; none of other kernels.
    pub(super) fn column_weights(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::GridSingle => {
                let columns = self.padded_units(problem) / self.column_lanes(problem);
                TRIPLE * self.group_triples(problem) * columns
            }
            _ => 0,
        }
    }

    /// Packets that a tile's blocks exchange, and each of them reads: from each block a part of all units' sums, and z of all.
    pub(super) fn triple_packets(&self, problem: &Problem) -> usize {
        (self.blocks(problem) + 1) * self.batch_tile * self.triples(problem)
    }

    /// Times that a thread asks for packets, one after the other, where all blocks compute the new h.
    pub(super) fn single_rounds(&self, problem: &Problem) -> usize {
        (self.blocks(problem) + 1).div_ceil(MOST_AT_ONCE) * self.new_triples(problem)
    }

    /// Triples of which a thread computes the new h.
    fn new_triples(&self, problem: &Problem) -> usize {
        (self.batch_tile * self.triples(problem)).div_ceil(self.threads)
    }

    /// Shared memory for r h and z, in bytes.
    pub(super) fn reset_bytes(&self, problem: &Problem) -> usize {
        let update = (self.batch_tile * self.block_triples() * TRIPLE).next_multiple_of(4);
        (self.batch_tile * self.padded_units(problem) + update) * size_of::<f32>()
    }

    /// Registers of a thread for what a single exchange needs more; none of other kernels.
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
    /// Units of a block with which a few blocks exchange once a step. None but for canonical GRU.
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
