//! Answers queries under Workspace Division: cuDNN's own choice with zero workspace. If every algorithm needs
//! workspace, reports the least that any of them needs.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::division::layers::addresses;
use crate::division::network::Network;
use crate::plans::legacy::registry::{self, Promise, Question};
use crate::plans::legacy::sizes;
use crate::problem::OwnedDescriptors;
use crate::problem::Problem;
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::Descriptors;
use cudnn::handle::Handle;
use cudnn::policies::Policies;
use guest::determinism;

/// Puts our promise in place of cuDNN's first result, and collects the layer.
pub fn algorithms(
    handle: Handle,
    descriptors: &Descriptors,
    problem: &Problem,
    policies: &Policies,
    mut results: Vec<AlgoPerf>,
) -> Vec<AlgoPerf> {
    let ran = |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
    let Some(own) = results.iter().find(ran).copied() else { return results };
    let promise = promise(handle, problem, &own, &results, policies, any_determinism());
    let recorded = promise.and_then(|promise| record(handle, problem, promise));
    results = sizes::with_told(cudnn::device(), problem, results);
    let Some(promise) = recorded else { return results };
    Network::of(cudnn::device()).collect(problem, promise.entry, addresses(descriptors), policies.layer);
    results.retain(|result| !ran(&result) || result.algo != own.algo);
    results.insert(0, promise.entry);
    results
}

/// Records a promise. `None` if the reported size of its id is less than it needs.
fn record(handle: Handle, problem: &Problem, promise: Promise) -> Option<Promise> {
    let id = promise.entry.algo;
    let own = |math_type| OwnedDescriptors::new(problem, math_type).ok()?.raw().workspace_size(handle, id).ok();
    sizes::record(cudnn::device(), problem, promise, usize::MAX, own).ok()
}

/// Returns the workspace of an algorithm id, in bytes: the same for the life of the process. The program may name an
/// algorithm without a query. `Err` is cuDNN's status.
pub fn workspace_size(
    handle: Handle,
    descriptors: &Descriptors,
    problem: &Problem,
    id: c_int,
    policies: &Policies,
) -> Result<usize, cudnnStatus_t> {
    let device = cudnn::device();
    let state = registry::state(device, problem);
    let (told, named, answered) = {
        let known = state.known.lock();
        let told = known.told(id);
        let promise = told.and_then(|told| known.promise(id, told));
        (told, promise.map(|promise| promise.entry), known.answered)
    };
    // The answer may have gone to another layer with an equal problem, so collect this one too.
    let collect = |named| Network::of(device).collect(problem, named, addresses(descriptors), policies.layer);
    if let Some(told) = told {
        named.into_iter().for_each(collect);
        return Ok(told);
    }
    let needs = descriptors.workspace_size(handle, id)?;
    let promise = || {
        let results = descriptors.get_algorithms(handle).ok()?;
        let named = results.iter().find(|result| result.algo == id && result.status == CUDNN_STATUS_SUCCESS)?;
        let named = AlgoPerf { memory: needs, ..*named };
        promise(handle, problem, &named, &results, policies, named.determinism)
    };
    // Only the first result of an answer has our workspace; the others have cuDNN's own.
    let promise = if answered { None } else { promise() };
    let mut known = state.known.lock();
    let least = promise.as_ref().map_or(needs, |promise| promise.needs);
    let told = known.tell(id, if state.forgot_sizes { needs } else { least });
    let Some(promise) = promise.filter(|promise| promise.needs <= told) else { return Ok(told) };
    let entry = AlgoPerf { memory: told, ..promise.entry };
    known.keep(Promise { entry, ..promise });
    drop(known);
    collect(entry);
    Ok(told)
}

/// The determinism required of an answer: a program that asks for it gets only results that cuDNN lists as such.
fn any_determinism() -> cudnnDeterminism_t {
    if determinism::is_asked() { CUDNN_DETERMINISTIC } else { CUDNN_NON_DETERMINISTIC }
}

/// Promises that `own` runs in the least workspace that any algorithm of the required determinism needs. `None` if that
/// is more than `own` needs itself.
fn promise(
    handle: Handle,
    problem: &Problem,
    own: &AlgoPerf,
    results: &[AlgoPerf],
    policies: &Policies,
    determinism: cudnnDeterminism_t,
) -> Option<Promise> {
    // The program may set the reported math type or not, and an algorithm's need may differ between the two.
    let mut math_types = vec![problem.math_type, own.mathType];
    math_types.dedup();
    let descriptors: Vec<_> = math_types
        .into_iter()
        .map(|math_type| OwnedDescriptors::new(problem, math_type))
        .collect::<Result<_, _>>()
        .ok()?;
    let needs = |id: c_int| {
        let each = descriptors.iter().map(|descriptors| descriptors.raw().workspace_size(handle, id));
        each.collect::<Result<Vec<usize>, _>>().ok()?.into_iter().max()
    };
    let may = |result: &&AlgoPerf| {
        let deterministic = result.determinism == CUDNN_DETERMINISTIC;
        result.status == CUDNN_STATUS_SUCCESS && (deterministic || determinism != CUDNN_DETERMINISTIC)
    };
    let fallback = results.iter().filter(may).filter_map(|result| Some((needs(result.algo)?, result)));
    // Among algorithms that need least, prefer the same determinism, then cuDNN's order.
    let (memory, fallback) =
        fallback.min_by_key(|(memory, result)| (*memory, result.determinism != own.determinism))?;
    // The larger need of the two math types. Where that exceeds the reported workspace, the fallback runs.
    let undivided = needs(own.algo).map_or(own.memory, |bytes| bytes.max(own.memory));
    (memory <= own.memory).then(|| Promise {
        question: Question { asked: None, limit: 0, sizes: policies.batch_size_policy },
        covers: 0..0, // answers no question of Workspace Reuse
        entry: AlgoPerf { memory, time: -1.0, determinism: both(own.determinism, fallback.determinism), ..*own },
        saves: None,
        needs: memory,
        preferred: None,
        class: None,
        fallback: Some(fallback.algo),
        determined: None,
        undivided,
        plan: None,
        is_final: true,
        broken: [false; 2],
    })
}

/// Deterministic if both are.
fn both(a: cudnnDeterminism_t, b: cudnnDeterminism_t) -> cudnnDeterminism_t {
    if a == CUDNN_DETERMINISTIC { b } else { a }
}
