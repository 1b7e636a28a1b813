//! What the queries are answered: `cudnnGet…Algorithm_v7`, `cudnnFind…Algorithm[Ex]` and
//! `…WorkspaceSize`.
//!
//! The first result stands for our plan. What the program then passes back is an algorithm id and a
//! workspace, so each id carries one promise: the workspace reported with it, the plan that runs, and
//! a ready configuration, an algorithm that runs undivided in that workspace, for when the plan cannot.
//! (Where no algorithm does, only divisions run, and the plan is its own ready configuration.)
//!
//! Which id the plan goes under:
//! - If it is undivided, its own.
//! - With a limit that somebody gave (a variable, `FindEx`'s workspace, a pre-v8 preference): that of
//!   the fastest ready configuration, so that even a call that goes around us is safe. cuDNN's own
//!   result of that id gives way: an id has one workspace. So it is never the only result that needs
//!   the least, which a program with a smaller limit of its own may have to fall back to.
//! - Otherwise that of cuDNN's own first result, whose place it takes (or if that is the last resort
//!   itself, that of the plan's own algorithm, which needs more undivided). With no limit all other results stay as cuDNN gave them, so that a program that walks down the list still
//!   finds whatever it would have found.

use std::ffi::c_int;
use std::sync::Arc;

use cudnn_abi::*;

use super::book::{self, Page, Promise, Question};
use super::division;
use super::promise::Asking;
use crate::problem::Kernel;
use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::{Descriptors, Operands, Workspace};
use cudnn::policies;
use guest::settings::{self, Policy};

/// How the program asks for algorithms.
#[derive(Clone, Copy)]
pub enum Query {
    /// `cudnnGetConvolution*Algorithm_v7`.
    Get,
    /// `cudnnFindConvolution*Algorithm`.
    Find,
    /// `cudnnFindConvolution*AlgorithmEx`, with the program's data and workspace.
    FindEx(Operands, Workspace),
}

/// Answers a query: our plan first, then cuDNN's own results. `said` is the program's own limit in
/// bytes, where the function has one. `Err` is cuDNN's status.
///
/// # Safety
/// The arguments are those of the cuDNN function that the query stands for.
pub unsafe fn algorithms(
    handle: cudnnHandle_t,
    descriptors: &Descriptors,
    query: Query,
    said: Option<usize>,
) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
    // SAFETY: as ours.
    let results = unsafe {
        match &query {
            Query::Get => descriptors.get_algorithms(handle),
            Query::Find => descriptors.find_algorithms(handle),
            Query::FindEx(operands, workspace) => descriptors.find_algorithms_in(handle, operands, *workspace),
        }
    }?;
    settings::fault_point("query");
    let policies = policies::of(handle);
    if policies.policy == Policy::Off {
        return Ok(results);
    }
    // SAFETY: as ours.
    let Some(kernel) = (unsafe { Kernel::read(descriptors) }) else { return Ok(results) };
    if policies.policy == Policy::Division {
        // SAFETY: as ours.
        return Ok(unsafe { division::answer::algorithms(handle, descriptors, &kernel, &policies, results) });
    }
    let asked = policies.query_limit(said);
    let ran = |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
    let own = results.iter().find(ran).copied().or_else(|| {
        // FindEx lists nothing that runs where nothing fits undivided: parts may.
        // SAFETY: as ours.
        let offered = unsafe { descriptors.get_algorithms(handle) }.ok()?;
        offered.iter().find(ran).copied()
    });
    let Some(own) = own else { return Ok(results) };
    let limit = asked.unwrap_or(own.memory);
    let fitting = results.iter().find(|result| ran(result) && result.memory <= limit).copied();
    let question = Question { asked, limit, sizes: policies.batch_size_policy };
    let last_resort = last_resort(&results);
    let asking = Asking { handle, descriptors, kernel, question, results: &results, own, fitting, last_resort };
    // SAFETY: as ours.
    let promise = unsafe { asking.answer(&query) };
    Ok(answered(results, promise.as_ref(), asked))
}

/// The only algorithm that runs in the least workspace, if it is only one.
fn last_resort(results: &[AlgoPerf]) -> Option<c_int> {
    let ran = || results.iter().filter(|result| result.status == CUDNN_STATUS_SUCCESS);
    let least = ran().map(|result| result.memory).min()?;
    let mut ids = ran().filter(|result| result.memory == least).map(|result| result.algo);
    let id = ids.next()?;
    ids.all(|other| other == id).then_some(id)
}

/// The promise first, in place of cuDNN's result of its id; then cuDNN's order, but what exceeds a
/// given limit comes last.
fn answered(mut results: Vec<AlgoPerf>, promise: Option<&Promise>, limit: Option<usize>) -> Vec<AlgoPerf> {
    let ran = |result: &AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
    if let Some(limit) = limit {
        results.sort_by_key(|result| (!ran(result), result.memory > limit));
    }
    if let Some(Promise { entry, .. }) = promise {
        results.retain(|result| !ran(result) || result.algo != entry.algo);
        results.insert(0, *entry);
    }
    results
}

/// The workspace that the program was told for an algorithm id, in bytes; `None` if that is cuDNN's own.
///
/// # Safety
/// The handle and the descriptors are the program's.
pub unsafe fn told_workspace(handle: cudnnHandle_t, descriptors: &Descriptors, id: c_int) -> Option<usize> {
    settings::fault_point("query");
    let policies = policies::of(handle);
    if policies.policy == Policy::Division {
        // SAFETY: as ours.
        return unsafe { division::answer::workspace_size(handle, descriptors, id, &policies) };
    }
    // SAFETY: as ours.
    let page = unsafe { known_page(descriptors) }?;
    page.state.lock().told(id)
}

/// What the newest answer promised with an algorithm id.
///
/// # Safety
/// The descriptors are null or cuDNN's.
pub unsafe fn told_promise(descriptors: &Descriptors, id: c_int) -> Option<Promise> {
    // SAFETY: as ours.
    let page = unsafe { known_page(descriptors) }?;
    let state = page.state.lock();
    state.promise(id, state.told(id)?).cloned()
}

/// What a call by an algorithm id with `workspace` bytes relies on.
///
/// # Safety
/// The descriptors are null or cuDNN's.
pub unsafe fn promise(descriptors: &Descriptors, id: c_int, workspace: usize) -> Option<Promise> {
    // SAFETY: as ours.
    let page = unsafe { known_page(descriptors) }?;
    let state = page.state.lock();
    state.promise(id, workspace).cloned()
}

/// # Safety
/// The descriptors are null or cuDNN's.
unsafe fn known_page(descriptors: &Descriptors) -> Option<Arc<Page>> {
    // SAFETY: as ours.
    let kernel = unsafe { Kernel::read(descriptors) }?;
    book::known_page(cudnn::device(), &kernel)
}

/// The pre-v8 query: one algorithm within a limit (`None`: as fast as possible).
///
/// # Safety
/// As for [`algorithms`] with [`Query::Get`].
pub unsafe fn algorithm_within(
    handle: cudnnHandle_t,
    descriptors: &Descriptors,
    limit: Option<usize>,
) -> Result<c_int, cudnnStatus_t> {
    // SAFETY: as ours.
    let results = unsafe { algorithms(handle, descriptors, Query::Get, limit) }?;
    let fits =
        |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS && limit.is_none_or(|limit| result.memory <= limit);
    results.iter().find(fits).map(|result| result.algo).ok_or(CUDNN_STATUS_NOT_SUPPORTED)
}
