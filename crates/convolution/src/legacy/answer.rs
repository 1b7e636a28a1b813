//! Answers the queries: `cudnnGet…Algorithm_v7`, `cudnnFind…Algorithm[Ex]` and `…WorkspaceSize`.
//!
//! The first result stands for our plan. Later the program passes back an algorithm id and a workspace, so each id
//! carries one promise: the reported workspace, the plan that runs, and a fallback for when the plan cannot run. The
//! fallback is an algorithm that runs undivided in the reported workspace. (If no algorithm does, only divisions run,
//! and the plan is its own fallback.)
//!
//! The id that a plan gets:
//! - An undivided plan gets its own algorithm's id.
//! - Under a limit that somebody gave (a variable, `FindEx`'s workspace, a pre-v8 preference), a divided plan gets the
//!   id of its fallback, so that even a call that bypasses us is safe. An id has one workspace, so the plan replaces
//!   cuDNN's result of that id. It never replaces the last resort, the only result that needs the least workspace: a
//!   program with a smaller limit of its own may need that result.
//! - Otherwise a divided plan gets the id of cuDNN's own first result and replaces that. (Under a limit, if that result
//!   is the last resort, the plan gets its main algorithm's id, which needs more workspace undivided.) Without a limit,
//!   all other results stay as cuDNN gave them: a program that walks down the list finds the same entries.
//!
//! Where no promise can be made, the answer is cuDNN's own results. The one that was first stays first, whatever Find has
//! timed since.
//!
//! The reported workspace of an id is final ([`sizes`]): a promise under the id keeps within it and
//! reports it, and so does cuDNN's result of the id.

use std::ffi::c_int;
use std::sync::Arc;

use cudnn_abi::*;

use super::asking::Asking;
use super::division;
pub use super::promise::Query;
use crate::plans::legacy::registry::{self, Promise, Question, State};
use crate::plans::legacy::sizes;
use crate::problem::Problem;
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::Descriptors;
use cudnn::handle::Handle;
use cudnn::policies;
use guest::settings::{self, Policy};

/// Answers a query: our plan first, then cuDNN's own results. `said` is the program's limit in bytes, if the function
/// takes one. `Err` is cuDNN's status.
///
/// # Safety
/// The memory that `query` names is device memory, as large as the descriptors and the workspace's size say.
pub unsafe fn algorithms(
    handle: Handle,
    descriptors: &Descriptors,
    query: Query,
    said: Option<usize>,
) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
    let results = match &query {
        Query::Get => descriptors.get_algorithms(handle),
        Query::Find => descriptors.find_algorithms(handle),
        // SAFETY: the query brings memory as large as its descriptors say (see `# Safety`).
        Query::FindEx(operands, workspace) => unsafe { descriptors.find_algorithms_in(handle, operands, *workspace) },
    }?;
    settings::fault_point("query");
    let policies = policies::of(handle.raw());
    if policies.policy == Policy::Off {
        return Ok(results);
    }
    let Some(problem) = Problem::read(descriptors) else { return Ok(results) };
    if policies.policy == Policy::Division {
        return Ok(division::answer::algorithms(handle, descriptors, &problem, &policies, results));
    }
    let asked = policies.query_limit(said);
    let ran = |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
    let own = results.iter().find(ran).copied().or_else(|| {
        // FindEx lists no algorithm that runs if none fits undivided, but parts may fit.
        let offered = descriptors.get_algorithms(handle).ok()?;
        offered.iter().find(ran).copied()
    });
    let Some(own) = own else { return Ok(results) };
    let limit = asked.unwrap_or(own.memory);
    let fitting = results.iter().find(|result| ran(result) && result.memory <= limit).copied();
    // Without us, the program has its own limit, if it says one.
    let within = said.unwrap_or(usize::MAX);
    let plain = results.iter().find(|result| ran(result) && result.memory <= within).copied();
    let question = Question { asked, limit, sizes: policies.batch_size_policy };
    let last_resort = last_resort(&results);
    let asking = Asking { handle, descriptors, problem, question, results: &results, own, fitting, plain, last_resort };
    // SAFETY: `asking` and `query` are of this query (see `# Safety`).
    let promise = unsafe { asking.answer(&query) };
    let own = results.clone();
    let mut results = answered(sizes::with_told(cudnn::device(), &problem, results), promise.as_ref(), asked);
    let state = registry::state(cudnn::device(), &problem);
    let mut known = state.known.lock();
    if promise.is_none() {
        known.keep_first(question, &mut results);
    }
    known.offer(results.first(), own);
    Ok(results)
}

/// The algorithm that alone needs the least workspace. `None` if several need as little.
fn last_resort(results: &[AlgoPerf]) -> Option<c_int> {
    let ran = || results.iter().filter(|result| result.status == CUDNN_STATUS_SUCCESS);
    let least = ran().map(|result| result.memory).min()?;
    let mut ids = ran().filter(|result| result.memory == least).map(|result| result.algo);
    let id = ids.next()?;
    ids.all(|other| other == id).then_some(id)
}

/// Puts the promise first, in place of cuDNN's result of the same id. The others keep cuDNN's order, except that
/// results over a given limit follow those within it.
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

/// Returns the workspace of an algorithm id, in bytes: the same for the life of the process. `Err` is cuDNN's status.
pub fn workspace_size(handle: Handle, descriptors: &Descriptors, id: c_int) -> Result<usize, cudnnStatus_t> {
    settings::fault_point("query");
    let Some(problem) = Problem::read(descriptors) else { return descriptors.workspace_size(handle, id) };
    let policies = policies::of(handle.raw());
    if policies.policy == Policy::Division {
        return division::answer::workspace_size(handle, descriptors, &problem, id, &policies);
    }
    sizes::told_or_own(cudnn::device(), &problem, handle, descriptors, id)
}

/// Returns the promise behind an algorithm id with its reported workspace.
pub fn reported_promise(descriptors: &Descriptors, id: c_int) -> Option<Promise> {
    let state = known_state(descriptors)?;
    let state = state.known.lock();
    state.promise(id, state.told(id)?).cloned()
}

/// Returns the promise behind a call with an algorithm id and `workspace` bytes.
pub fn promise(descriptors: &Descriptors, id: c_int, workspace: usize) -> Option<Promise> {
    let state = known_state(descriptors)?;
    let state = state.known.lock();
    state.promise(id, workspace).cloned()
}

fn known_state(descriptors: &Descriptors) -> Option<Arc<State>> {
    let problem = Problem::read(descriptors)?;
    registry::known_state(cudnn::device(), &problem)
}

/// Answers the pre-v8 query: one algorithm within `limit` bytes, or the fastest one if `limit` is `None`.
pub fn algorithm_within(
    handle: Handle,
    descriptors: &Descriptors,
    limit: Option<usize>,
) -> Result<c_int, cudnnStatus_t> {
    // SAFETY: this query names no memory.
    let results = unsafe { algorithms(handle, descriptors, Query::Get, limit) }?;
    let fits =
        |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS && limit.is_none_or(|limit| result.memory <= limit);
    results.iter().find(fits).map(|result| result.algo).ok_or(CUDNN_STATUS_NOT_SUPPORTED)
}
