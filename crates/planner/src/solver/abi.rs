//! What `libucudnn.so` and `libucudnn_solver.so` say to each other: plain numbers in arrays. This file is compiled into
//! both; they may still come from different builds, so [`VERSION`] changes with any change here.
//!
//! The programme, with x_c the number of layers that take choice c (an integer), is: minimise Σ costs_c · x_c where, in
//! each group, Σ x_c = layers; for each resource r, Σ needs_rc · x_c ≤ capacity_r; and 0 ≤ x_c ≤ most_c. The choices of a
//! group stand together, in the groups' order.

use std::ffi::{c_char, c_int};

/// What `ucudnn_solver_version` must return.
pub const VERSION: c_int = 1;

/// [`Solve`]'s statuses. The counts are the best.
pub const OPTIMAL: c_int = 0;
/// The time was up, or GLPK gave up: the counts are the best known, and the bound says how good they are.
pub const STOPPED: c_int = 1;
/// Nothing was solved, and `reason` says why. The counts are as they were.
pub const REFUSED: c_int = 2;

/// A programme. All numbers are finite; those that count layers are integers.
#[repr(C)]
#[derive(Debug)]
pub struct Programme {
    /// How many groups there are.
    pub groups: usize,
    /// How many choices each group has; `groups` numbers.
    pub group_choices: *const usize,
    /// How many layers each group has; `groups` numbers.
    pub layers: *const f64,
    /// How many choices all groups have together.
    pub choices: usize,
    /// `choices` numbers.
    pub costs: *const f64,
    /// The most layers that may take each choice; `choices` numbers.
    pub most: *const f64,
    /// How many resources there are.
    pub resources: usize,
    /// `resources` rows of `choices` numbers, which may be negative.
    pub needs: *const f64,
    /// `resources` numbers.
    pub capacities: *const f64,
    /// The most seconds that solving may take.
    pub seconds: f64,
}

/// An answer.
#[repr(C)]
#[derive(Debug)]
pub struct Answer {
    /// x: an allowed answer to start from, then the best; `choices` numbers.
    pub counts: *mut f64,
    /// No answer costs less than this; −∞ where that is not known.
    pub bound: f64,
    /// Why nothing was solved, ended by a zero.
    pub reason: [c_char; 160],
}

/// `ucudnn_solver_version`: the version of this ABI that the library was built with.
pub type Version = unsafe extern "C" fn() -> c_int;
/// `ucudnn_solver_solve`: solves a programme; returns one of the statuses above. Reads and writes what the pointers point at, during the call.
pub type Solve = unsafe extern "C" fn(*const Programme, *mut Answer) -> c_int;
