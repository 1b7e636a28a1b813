//! The interface between `libucudnn.so` and `libucudnn_solver.so`: plain numbers in arrays. Both compile this file, but
//! they may come from different builds, so every change here changes [`VERSION`].
//!
//! Let x_c be the number of layers that take choice c (an integer). The programme minimises Σ costs_c · x_c such that
//! Σ x_c = layers in each group, Σ needs_rc · x_c ≤ capacity_r for each resource r, and 0 ≤ x_c ≤ most_c. The choices of
//! a group are contiguous, in the groups' order.

use std::ffi::{c_char, c_int};

/// The required result of `ucudnn_solver_version`.
pub const VERSION: c_int = 1;

/// A status of [`Solve`]: the counts are optimal.
pub const OPTIMAL: c_int = 0;
/// A status of [`Solve`]: time ran out, or GLPK gave up. The counts are the best known, and the bound limits the error.
pub const STOPPED: c_int = 1;
/// A status of [`Solve`]: nothing was solved, for the reason in `reason`. The counts are unchanged.
pub const REFUSED: c_int = 2;

/// A programme. All numbers are finite; counts of layers are integers.
#[repr(C)]
#[derive(Debug)]
pub struct Programme {
    /// The number of groups.
    pub groups: usize,
    /// The number of choices of each group; `groups` numbers.
    pub group_choices: *const usize,
    /// The number of layers of each group; `groups` numbers.
    pub layers: *const f64,
    /// The number of choices of all groups.
    pub choices: usize,
    /// `choices` numbers.
    pub costs: *const f64,
    /// The most layers that may take each choice; `choices` numbers.
    pub most: *const f64,
    /// The number of resources.
    pub resources: usize,
    /// `resources` rows of `choices` numbers, which may be negative.
    pub needs: *const f64,
    /// `resources` numbers.
    pub capacities: *const f64,
    /// The time limit in seconds.
    pub seconds: f64,
}

/// An answer.
#[repr(C)]
#[derive(Debug)]
pub struct Answer {
    /// x: on entry a feasible answer to start from, on return the best; `choices` numbers.
    pub counts: *mut f64,
    /// A lower bound on the cost of every answer; −∞ if unknown.
    pub bound: f64,
    /// The reason why nothing was solved, zero-terminated.
    pub reason: [c_char; 160],
}

/// `ucudnn_solver_version`: returns the version of the library's ABI.
pub type Version = unsafe extern "C" fn() -> c_int;
/// `ucudnn_solver_solve`: solves a programme and returns a status. Uses the pointers' memory during the call only.
pub type Solve = unsafe extern "C" fn(*const Programme, *mut Answer) -> c_int;
