//! The reported workspace sizes. A size is final: equal questions get equal answers for the life of the process, and a
//! call that brings a reported size runs.
//!
//! A size belongs to a problem, which has the math type of the descriptor that is asked about, and to an algorithm's id.
//! The first answer counts: of the function for workspace sizes, or in the result of a query that a promise is behind.
//! A later promise under the id needs no more than that, and reports it. If it needs more, its maker searches again
//! within the size. The plan never moves to an id that the search would not give it.

use std::ffi::c_int;

use super::registry::{Known, Promise, known_state, state};
use crate::problem::Problem;
use cudnn::convolution::{AlgoPerf, Descriptors};
use cudnn::handle::Handle;
use cudnn_abi::*;
use gpu::Device;

/// Why a promise is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reported size of the id, in bytes: less than the promise needs.
    Within(usize),
    /// No promise under the id answers questions with a limit below this: it is the reported size of the id, or an
    /// earlier plan under it is of another class.
    Below(usize),
}

/// Records the promise that answers a query, and the size that it reports. Programs set a result's math type
/// before they use the result, so the promise is recorded under that math type too. A program that keeps its own math
/// type gets no looser plan.
///
/// Returns the promise with the workspace to report, at most `limit` bytes. `own` returns cuDNN's own size of the id under
/// a math type.
pub fn record(
    device: Device,
    problem: &Problem,
    promise: Promise,
    limit: usize,
    own: impl Fn(cudnnMathType_t) -> Option<usize>,
) -> Result<Promise, Refusal> {
    let id = promise.entry.algo;
    let mut keys = vec![*problem, Problem { math_type: promise.entry.mathType, ..*problem }];
    keys.sort_by_key(|key| key.math_type);
    keys.dedup_by_key(|key| key.math_type);
    let states: Vec<_> = keys.iter().map(|key| state(device, key)).collect();
    for (state, key) in states.iter().zip(&keys).filter(|(state, _)| state.forgot_sizes) {
        let own = own(key.math_type).ok_or(Refusal::Below(usize::MAX))?;
        state.known.lock().tell(id, own);
    }
    // Under all locks at once: two threads that ask at the same time get the same answer.
    let mut known: Vec<_> = states.iter().map(|state| state.known.lock()).collect();
    let of = |math_type| keys.iter().position(|key| key.math_type == math_type).and_then(|at| known[at].told(id));
    let told = of(problem.math_type).or_else(|| of(promise.entry.mathType));
    let least = known.iter().filter_map(|known| known.told(id)).min();
    if let Some(least) = least.filter(|least| *least < promise.needs) {
        return Err(Refusal::Within(least));
    }
    let memory = told.unwrap_or(promise.needs);
    if memory > limit {
        return Err(Refusal::Below(memory));
    }
    if !known.iter().all(|known| known.takes(&promise)) {
        return Err(Refusal::Below(usize::MAX));
    }
    let covers = promise.covers.start.max(memory)..promise.covers.end;
    let promise = Promise { entry: AlgoPerf { memory, ..promise.entry }, covers, ..promise };
    for (known, key) in known.iter_mut().zip(&keys) {
        let plan = promise
            .plan
            .clone()
            .filter(|plan| key.math_type == promise.entry.mathType || plan.runs_within(key.math_type));
        known.answered = true;
        known.tell(id, memory);
        known.keep(Promise { plan, ..promise.clone() });
    }
    Ok(promise)
}

/// Returns the workspace of an algorithm id, in bytes: the reported size, or else cuDNN's own, which is final from then
/// on. `Err` is cuDNN's status, and nothing is recorded.
pub fn told_or_own(
    device: Device,
    problem: &Problem,
    handle: Handle,
    descriptors: &Descriptors,
    id: c_int,
) -> Result<usize, cudnnStatus_t> {
    let known = known_state(device, problem);
    let told = known.and_then(|state| state.known.lock().told(id));
    if let Some(told) = told {
        return Ok(told);
    }
    let own = descriptors.workspace_size(handle, id)?;
    // Another thread may have told another size meanwhile.
    Ok(state(device, problem).known.lock().tell(id, own))
}

/// Puts the reported sizes of their ids into cuDNN's results. A result of another math type than
/// the problem's stays as it is: the program may use it under either. If all results that need least would grow, they
/// stay too, for a program that has no more.
pub fn with_told(device: Device, problem: &Problem, mut results: Vec<AlgoPerf>) -> Vec<AlgoPerf> {
    let Some(state) = known_state(device, problem) else { return results };
    let known = state.known.lock();
    let ran = |result: &AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
    let told = |result: &AlgoPerf| known.told(result.algo).filter(|_| result.mathType == problem.math_type);
    let Some(least) = results.iter().filter(|it| ran(it)).map(|it| it.memory).min() else { return results };
    let grows = |result: &AlgoPerf| told(result).is_some_and(|bytes| bytes > result.memory);
    let least_grow = results.iter().filter(|it| ran(it) && it.memory == least).all(grows);
    for result in results.iter_mut().filter(|it| ran(it) && !(least_grow && it.memory == least)) {
        let Some(bytes) = told(result) else { continue };
        if bytes < result.memory
            && let Some(promise) = known.promise(result.algo, bytes)
        {
            result.determinism = promise.entry.determinism; // cuDNN's algorithm does not fit: the promise runs
        }
        result.memory = bytes;
    }
    results
}

impl Known {
    /// Returns the reported size of an id, in bytes.
    pub fn told(&self, id: c_int) -> Option<usize> {
        self.told.iter().find(|(told, _)| *told == id).map(|(_, bytes)| *bytes)
    }

    /// Reports a size for an id, in bytes, unless another was reported before. Returns the size that counts.
    pub fn tell(&mut self, id: c_int, bytes: usize) -> usize {
        self.told(id).unwrap_or_else(|| {
            self.told.push((id, bytes));
            bytes
        })
    }

    /// Returns whether a promise may stand beside the earlier ones under its id. Nobody knows which of them a call with the
    /// told size follows, so each plan keeps the classes of all. A later answer to the same question replaces the earlier.
    fn takes(&self, promise: &Promise) -> bool {
        let admits = |by: &Promise, other: &Promise| match (&by.class, &other.plan) {
            (Some(class), Some(plan)) => plan.is_within(class),
            _ => true,
        };
        let same_id = self.promises.iter().filter(|earlier| earlier.entry.algo == promise.entry.algo);
        let mut others = same_id.filter(|earlier| !earlier.answers(promise.question));
        others.all(|other| admits(other, promise) && admits(promise, other))
    }

    /// Keeps a promise as the newest. No promise is withdrawn: the program may still use it. The same entry promised under
    /// other limits answers another question, so both stay.
    pub fn keep(&mut self, promise: Promise) {
        let reported = |promise: &Promise| {
            let (question, entry) = (promise.question, promise.entry);
            (entry.algo, entry.memory, promise.needs, question.sizes, question.asked.is_some(), promise.covers.clone())
        };
        let same = self.promises.iter().position(|earlier| reported(earlier) == reported(&promise));
        let earlier = same.map(|at| self.promises.remove(at));
        // Its plan may be known to run no more.
        let stays = |earlier: &Promise| earlier.is_final && (earlier.plan.is_some() || promise.plan.is_none());
        let newest = earlier.filter(stays).unwrap_or(promise);
        self.promises.push(newest);
    }
}

#[cfg(test)]
mod tests;
