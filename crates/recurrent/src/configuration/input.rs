//! Where a layer's input is multiplied: ahead, all time steps' at once; or within each step, while h is on its way: by the
//! same warps, or in clusters by warps of their own. Twins of the constants in `kernels/rnn/{step_input.cuh,
//! input_warps.cuh}`.

use super::{Cell, Configuration, Math, Problem, Regime};

/// Registers that a thread needs beside those for W, for x and for the sums.
const INPUT_REGISTERS: usize = 6;
/// Registers that a thread of warps of their own needs likewise.
const INPUT_WARP_REGISTERS: usize = 60;
/// The Mbarrier that tells those warps that h has been sent, and as much behind it, in bytes.
const SENT_MBARRIER: usize = 16;
/// The most threads of a block.
const MOST_THREADS: usize = 1024;
/// Registers of four numbers of x on their way from memory, and where they belong.
const PIECE_REGISTERS: usize = 8;

impl Configuration {
    /// Whether W x is computed within each step.
    pub fn multiplies_input(&self) -> bool {
        self.input_register_weights.is_some()
    }

    /// Whether warps of their own do that: as many threads as multiply R, in the same way.
    pub fn has_input_warps(&self) -> bool {
        self.multiplies_input() && self.regime == Regime::Cluster
    }

    /// The same with W x computed within each step, where that may be worth a thought.
    pub(super) fn with_input(self, problem: &Problem) -> Option<Self> {
        let with = Self { input_register_weights: Some(0), ..self };
        with.may_multiply_input(problem).then_some(with)
    }

    /// Whether W x may be computed within a step: of one row of the batch at a time, since it takes longer with each, and
    /// h's way does not.
    pub(super) fn may_multiply_input(&self, problem: &Problem) -> bool {
        problem.input > 0
            && self.math == Math::Fma
            && matches!(self.regime, Regime::Cluster | Regime::Grid)
            && problem.cell != Cell::CanonicalGru
            && self.batch_tile == 1
            && self.block_threads() <= MOST_THREADS
    }

    /// x's length, with what is added so that each lane has as much of it.
    pub fn padded_input(&self, problem: &Problem) -> usize {
        problem.input.next_multiple_of(4 * self.lanes)
    }

    /// Weights of W of a thread; 0 where W x is computed ahead.
    pub fn input_weights(&self, problem: &Problem) -> usize {
        if !self.multiplies_input() {
            return 0;
        }
        self.padded_input(problem) / self.lanes * self.group_units() * problem.cell.gates()
    }

    /// Those of them in shared memory.
    pub fn shared_input_weights(&self, problem: &Problem) -> usize {
        self.input_weights(problem).saturating_sub(self.input_register_weights.unwrap_or(0))
    }

    /// Shared memory for two steps' x, or W x, and for what registers do not hold of W, in bytes.
    pub(super) fn input_bytes(&self, problem: &Problem) -> usize {
        if !self.multiplies_input() {
            return 0;
        }
        let numbers = match self.has_input_warps() {
            true => {
                (2 * self.batch_tile * self.units * problem.cell.gates()).next_multiple_of(4)
                    + SENT_MBARRIER / size_of::<f32>()
            }
            false => 2 * self.batch_tile * self.padded_input(problem),
        };
        numbers * size_of::<f32>() + self.shared_input_weights(problem) * self.threads * problem.element.bytes()
    }

    /// Registers that a thread needs for W x beside those for weights.
    pub(super) fn input_registers(&self, problem: &Problem) -> usize {
        if !self.multiplies_input() || self.has_input_warps() {
            return 0;
        }
        let pieces = (self.batch_tile * self.padded_input(problem) / 4).div_ceil(self.threads);
        let sums = self.group_units() * self.batch_tile * self.pair_sums(problem);
        INPUT_REGISTERS + PIECE_REGISTERS * pieces + sums
    }

    /// Registers that a thread of those warps needs beside weights: parts of two x, sums, and biases.
    pub(super) fn input_warp_registers(&self, problem: &Problem) -> usize {
        let x = 2 * self.batch_tile * self.padded_input(problem) / self.lanes;
        let pairs = self.group_units() * self.batch_tile;
        INPUT_WARP_REGISTERS + x + (pairs + pairs.div_ceil(self.lanes)) * problem.cell.gates()
    }

    /// What the source is compiled with for it.
    pub(super) fn input_options(&self, problem: &Problem) -> Vec<String> {
        let registers = self.input_register_weights.into_iter();
        let options =
            |registers| [format!("-DINPUT_SIZE={}", problem.input), format!("-DINPUT_REGISTER_WEIGHTS={registers}")];
        registers.flat_map(options).collect()
    }
}
