//! What queries are answered under Workspace Division: cuDNN's own choice, in no workspace, or where
//! cuDNN has no algorithm that needs none, in the least that one needs.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::division::layers::addresses;
use crate::division::network::Network;
use crate::legacy::book::{self, Promise, Question};
use crate::problem::Kernel;
use crate::problem::OwnedDescriptors;
use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::Descriptors;
use cudnn::policies::Policies;
use guest::settings::{self, Numerics};

/// The results of a query with our promise in place of cuDNN's first; the layer is collected.
///
/// # Safety
/// The handle and the descriptors are the program's.
pub unsafe fn algorithms(
    handle: cudnnHandle_t,
    descriptors: &Descriptors,
    kernel: &Kernel,
    policies: &Policies,
    mut results: Vec<AlgoPerf>,
) -> Vec<AlgoPerf> {
    let ran = |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
    let Some(own) = results.iter().find(ran).copied() else { return results };
    // SAFETY: as ours.
    let promise = unsafe { promise(handle, kernel, &own, &results, policies, any_determinism()) };
    let Some(promise) = promise else { return results };
    book::tell(cudnn::device(), kernel, &promise);
    Network::of(cudnn::device()).collect(kernel, promise.entry, addresses(descriptors), policies.layer);
    results.retain(|result| !ran(&result) || result.algo != own.algo);
    results.insert(0, promise.entry);
    results
}

/// The workspace of an algorithm that the program names without having asked; `None` if that is
/// cuDNN's own.
///
/// # Safety
/// The handle and the descriptors are the program's.
pub unsafe fn workspace_size(
    handle: cudnnHandle_t,
    descriptors: &Descriptors,
    id: c_int,
    policies: &Policies,
) -> Option<usize> {
    // SAFETY: as ours.
    let kernel = unsafe { Kernel::read(descriptors) }?;
    let page = book::page(cudnn::device(), &kernel);
    let known = {
        let state = page.state.lock();
        match state.told(id) {
            // What a query listed besides its first has cuDNN's own.
            None if state.answered => return None,
            told => told.map(|told| (told, state.promise(id, told).map(|promise| promise.entry))),
        }
    };
    if let Some((told, named)) = known {
        // Perhaps by a layer of an equal kernel.
        if let Some(named) = named {
            Network::of(cudnn::device()).collect(&kernel, named, addresses(descriptors), policies.layer);
        }
        return Some(told);
    }
    // SAFETY: as ours.
    let results = unsafe { descriptors.get_algorithms(handle) }.ok()?;
    // SAFETY: as ours.
    let needs = unsafe { descriptors.workspace_size(handle, id) }.ok()?;
    let named = results.iter().find(|result| result.algo == id && result.status == CUDNN_STATUS_SUCCESS)?;
    let named = AlgoPerf { memory: needs, ..*named };
    // SAFETY: as ours.
    let promise = unsafe { promise(handle, &kernel, &named, &results, policies, named.determinism) }?;
    {
        let mut state = page.state.lock();
        state.promises.push(promise.clone());
        state.told.push((id, promise.entry.memory));
    }
    Network::of(cudnn::device()).collect(&kernel, promise.entry, addresses(descriptors), policies.layer);
    Some(promise.entry.memory)
}

/// What a query's answer may be: a program that wants determinism takes what is said to have it.
fn any_determinism() -> cudnnDeterminism_t {
    match settings::get().numerics {
        Numerics::Deterministic => CUDNN_DETERMINISTIC,
        Numerics::Match | Numerics::Any => CUDNN_NON_DETERMINISTIC,
    }
}

/// What is promised of `own`: it runs in the least workspace that any algorithm needs which is as
/// deterministic as asked for. `None` if that is more than its own need.
///
/// # Safety
/// The handle is the program's.
unsafe fn promise(
    handle: cudnnHandle_t,
    kernel: &Kernel,
    own: &AlgoPerf,
    results: &[AlgoPerf],
    policies: &Policies,
    determinism: cudnnDeterminism_t,
) -> Option<Promise> {
    // The program may set the math type that it is told, or not: what an algorithm needs may differ.
    let mut math_types = vec![kernel.math_type, own.mathType];
    math_types.dedup();
    let descriptors: Vec<_> = math_types
        .into_iter()
        .map(|math_type| OwnedDescriptors::new(kernel, math_type))
        .collect::<Result<_, _>>()
        .ok()?;
    let needs = |id: c_int| {
        // SAFETY: as ours, and our own descriptors.
        let each = descriptors.iter().map(|descriptors| unsafe { descriptors.raw().workspace_size(handle, id) });
        each.collect::<Result<Vec<usize>, _>>().ok()?.into_iter().max()
    };
    let may = |result: &&AlgoPerf| {
        let deterministic = result.determinism == CUDNN_DETERMINISTIC;
        result.status == CUDNN_STATUS_SUCCESS && (deterministic || determinism != CUDNN_DETERMINISTIC)
    };
    let ready = results.iter().filter(may).filter_map(|result| Some((needs(result.algo)?, result)));
    // Of several that need as little, one that is as deterministic, and of those cuDNN's first.
    let (memory, ready) = ready.min_by_key(|(memory, result)| (*memory, result.determinism != own.determinism))?;
    // Under either math type: where it needs more than was told, what is ready runs.
    let undivided = needs(own.algo).map_or(own.memory, |bytes| bytes.max(own.memory));
    (memory <= own.memory).then(|| Promise {
        question: Question { asked: None, limit: 0, sizes: policies.batch_size_policy },
        covers: 0..0, // answers no question of Workspace Reuse
        entry: AlgoPerf { memory, time: -1.0, determinism: both(own.determinism, ready.determinism), ..*own },
        ready: Some(ready.algo),
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
