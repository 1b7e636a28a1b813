//! `libucudnn_solver.so`: the integer linear programme of Workspace Division, solved by GLPK.
//!
//! A library of its own, which `libucudnn.so` loads when it first has such a programme: so GLPK, what GLPK needs and its
//! licence stay out of the library that programs preload. Its ABI is in `crates/planner/src/solver/abi.rs`.
//!
//! GLPK ends the process when it meets arguments that it does not expect. So [`programme`] checks everything first, and
//! [`glpk`] catches what goes wrong still.
#![warn(missing_docs)]

#[path = "../../crates/planner/src/solver/abi.rs"]
mod abi;
mod glpk;
mod programme;
#[path = "../../crates/guest/src/signals.rs"]
mod signals;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use abi::{Answer, OPTIMAL, REFUSED, STOPPED};
use glpk::Found;
use programme::Programme;

const _: (abi::Version, abi::Solve) = (ucudnn_solver_version, ucudnn_solver_solve);

/// The version of this library's ABI.
#[unsafe(no_mangle)]
pub extern "C" fn ucudnn_solver_version() -> c_int {
    abi::VERSION
}

/// Solves a programme: see [`abi::Solve`].
///
/// # Safety
/// Each pointer is null or points to memory as [`abi::Programme`] and [`abi::Answer`] describe it. Nothing else uses
/// that memory during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnn_solver_solve(programme: *const abi::Programme, answer: *mut Answer) -> c_int {
    // SAFETY: the caller promises that the pointer is null, or valid and not shared.
    let Some(answer) = (unsafe { answer.as_mut() }) else { return REFUSED };
    // SAFETY: the caller promises `programme` and the arrays of `answer`.
    let solved = catch_unwind(AssertUnwindSafe(|| unsafe { solve(programme, answer) }));
    let solved = solved.unwrap_or_else(|_| Err("an error inside the solver".to_owned()));
    solved.unwrap_or_else(|reason| {
        let end = answer.reason.len() - 1;
        let text = reason.bytes().take(end).chain([0]);
        answer.reason.iter_mut().zip(text).for_each(|(to, byte)| *to = byte as c_char);
        REFUSED
    })
}

/// # Safety
/// The caller keeps the rules of [`ucudnn_solver_solve`].
unsafe fn solve(programme: *const abi::Programme, answer: &mut Answer) -> Result<c_int, String> {
    // SAFETY: the caller promises that the pointer is null or valid.
    let programme = unsafe { programme.as_ref() }.ok_or("a null programme")?;
    // SAFETY: the caller promises arrays of the lengths in the programme.
    let programme = unsafe { Programme::read(programme, answer.counts) }?;
    let choices = programme.costs.len();
    let Found { counts, bound, optimal } = glpk::solve(programme)?;
    // SAFETY: the caller promises `choices` numbers, and `read` has refused null.
    unsafe { std::slice::from_raw_parts_mut(answer.counts, choices) }.copy_from_slice(&counts);
    answer.bound = bound;
    Ok(if optimal { OPTIMAL } else { STOPPED })
}
