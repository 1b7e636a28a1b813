//! Where W x is computed: ahead, for all time steps at once; or within each step, while h is on its way. Within a step
//! the same warps multiply W, or in clusters separate "input warps". Twin of the constants in
//! `kernels/recurrent/{step_input.cuh, input_warps.cuh}`.

use super::{Cell, Configuration, Math, Problem, Regime};

/// Registers that a thread needs for W x, beside those for W, x and the sums.
const INPUT_REGISTERS: usize = 10;
/// The same for a thread of the input warps.
const INPUT_WARP_REGISTERS: usize = 60;
/// Bytes of the mbarrier that signals to the input warps that h has been sent, and of as much padding.
const SENT_MBARRIER: usize = 16;
/// The most threads of a block.
const MOST_THREADS: usize = 1024;
/// Registers for four numbers of x on their way from memory, and for their destination.
const PIECE_REGISTERS: usize = 8;

impl Configuration {
    /// Returns true if W x is computed within each step.
    pub fn multiplies_input(&self) -> bool {
        self.input_register_weights.is_some()
    }

    /// Returns true if input warps compute W x: as many threads as multiply R, with W shared out in the same way.
    pub fn has_input_warps(&self) -> bool {
        self.multiplies_input() && self.regime == Regime::Cluster
    }

    /// Returns the same configuration with W x within each step, where that may be worthwhile.
    pub(super) fn with_input(self, problem: &Problem) -> Option<Self> {
        let with = Self { input_register_weights: Some(0), ..self };
        with.may_multiply_input(problem).then_some(with)
    }

    /// Returns true if W x may be computed within a step. The batch tile must be one row: each further row adds to the
    /// time of W x, but not to the time that h travels.
    pub(super) fn may_multiply_input(&self, problem: &Problem) -> bool {
        problem.input > 0
            && self.math == Math::Fma
            && matches!(self.regime, Regime::Cluster | Regime::Grid)
            && problem.cell != Cell::CanonicalGru
            && self.batch_tile == 1
            && self.block_threads() <= MOST_THREADS
    }

    /// x's length, padded to an equal share for each lane.
    pub fn padded_input(&self, problem: &Problem) -> usize {
        problem.input.next_multiple_of(4 * self.lanes)
    }

    /// Weights of W that a thread keeps; 0 where W x is computed ahead.
    pub fn input_weights(&self, problem: &Problem) -> usize {
        if !self.multiplies_input() {
            return 0;
        }
        self.padded_input(problem) / self.lanes * self.group_units(problem) * problem.cell.gates()
    }

    /// The thread's weights of W in shared memory.
    pub fn shared_input_weights(&self, problem: &Problem) -> usize {
        self.input_weights(problem).saturating_sub(self.input_register_weights.unwrap_or(0))
    }

    /// Bytes of shared memory for two steps' x (input warps: W x), and for W's weights outside of registers.
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

    /// Registers that a thread needs for W x, beside those that hold weights.
    pub(super) fn input_registers(&self, problem: &Problem) -> usize {
        if !self.multiplies_input() || self.has_input_warps() {
            return 0;
        }
        let pieces = (self.batch_tile * self.padded_input(problem) / 4).div_ceil(self.threads);
        let sums = self.group_units(problem) * self.batch_tile * self.pair_sums(problem);
        INPUT_REGISTERS + PIECE_REGISTERS * pieces + sums
    }

    /// Registers of an input warp's thread beside those that hold weights: parts of x of two steps, sums, and biases.
    pub(super) fn input_warp_registers(&self, problem: &Problem) -> usize {
        let x = 2 * self.batch_tile * self.padded_input(problem) / self.lanes;
        let pairs = self.group_units(problem) * self.batch_tile;
        INPUT_WARP_REGISTERS + x + (pairs + pairs.div_ceil(self.lanes)) * problem.cell.gates()
    }

    /// The compiler options for W x within each step.
    pub(super) fn input_options(&self, problem: &Problem) -> Vec<String> {
        let registers = self.input_register_weights.into_iter();
        let options =
            |registers| [format!("-DINPUT_SIZE={}", problem.input), format!("-DINPUT_REGISTER_WEIGHTS={registers}")];
        registers.flat_map(options).collect()
    }
}
