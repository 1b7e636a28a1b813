//! Decides the replacement for a program's execution plan when the plan is finalized.

use std::sync::Arc;

use cudnn_abi::*;

use super::choices;
use super::planned::Planned;
use super::reading;
use super::shadow::{Content, Shadow};
use crate::plans::graph::our_candidates;
use crate::plans::graph::state::{self, Key, Place};
use crate::plans::graph::targets;
use crate::problem::graph::{Class, EngineConfiguration};
use cudnn::graph::{Target, descriptor};
use cudnn::{calls, policies};
use guest::settings::{self, Policy};

/// Decides the replacement for a plan that cuDNN has finalized. `None` if the plan is to run itself.
///
/// # Safety
/// The caller promises that `plan` is the shadow's descriptor: a finalized execution plan.
pub unsafe fn finalize(shadow: &Shadow, plan: cudnnBackendDescriptor_t) -> Option<Arc<Planned>> {
    if shadow.is_special() {
        return None;
    }
    let operations = shadow.operation_graph()?;
    let graph = reading::graph(&operations)?;
    let content = shadow.content();
    if content.is_opaque {
        return None;
    }
    let of_plan = handle(&content, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    let handle = of_plan.or_else(|| handle(&operations.content(), CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
    let policies = policies::of(handle.unwrap_or(std::ptr::null_mut()));
    if policies.policy == Policy::Off {
        return None;
    }
    let (place, target) = target_of(&content, handle)?;
    drop(content);
    settings::fault_point("finalize");
    // SAFETY: our caller promised a finalized execution plan.
    let (own, requested_workspace) = unsafe { own(plan) }.ok()?;
    let keeps_nan = choices::took(&own, &operations, &graph.problem);
    let class = Class::of(&own, graph.problem.data_type(), settings::get().numerics, keeps_nan);
    let sizes = policies.batch_size_policy;
    let problem = graph.problem.clone();
    let for_cuda_graphs = own.has_form_in_cuda_graphs();
    let key = |limit| Key { place: place.clone(), problem: problem.clone(), class, limit, sizes, for_cuda_graphs };
    let wanted = match policies.policy {
        Policy::Division => Some(0),
        _ => policies.query_limit(None),
    };
    let limit = match wanted {
        Some(wanted) => wanted.min(requested_workspace),
        None if matches!(place, Place::Device(_)) => {
            our_candidates::workspace_to_report(&graph.problem, requested_workspace)
        }
        None => requested_workspace,
    };
    let mut state = state::state(key(limit), &target);
    if limit < requested_workspace && state.fallback().is_none() {
        // Nothing runs within the limit. Use the least workspace that runs anything, at most the own plan's.
        let least = state.least().map_or(requested_workspace, |least| least.min(requested_workspace));
        log::info!("{problem}: nothing runs within {limit} bytes of workspace: {least} are used");
        state = state::state(key(least), &target);
        if least < requested_workspace && state.fallback().is_none() {
            state = state::state(key(requested_workspace), &target);
        }
    }
    // Under Workspace Division a layer without a segment runs the fallback.
    if limit < requested_workspace && policies.policy == Policy::Reuse {
        state.prepare_stand_in();
    }
    let at_once = match policies.policy {
        Policy::Reuse => state.at_once(&own, requested_workspace, || may_run(handle)),
        _ => None,
    };
    let (is_told, executions, meanwhile) = Default::default();
    Some(Arc::new(Planned { graph, state, own, requested_workspace, at_once, is_told, executions, meanwhile }))
}

/// Returns whether engines may run for us while the program makes a plan for a handle: it does not capture.
fn may_run(handle: Option<cudnnHandle_t>) -> bool {
    // SAFETY: the program makes its plan for this handle, so it is live.
    let stream = handle.and_then(|handle| unsafe { calls::stream_of(handle) });
    stream.is_some_and(|stream| !cudnn::device().is_capturing(stream))
}

/// Returns the target of a plan that was made for a handle, or for a device's properties.
fn target_of(plan: &Content, handle: Option<cudnnHandle_t>) -> Option<(Place, Target)> {
    match handle {
        Some(handle) => targets::of_handle(handle),
        None => {
            let properties = plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)?.content();
            let text = properties.elements::<1>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)?.as_flattened();
            targets::described(std::str::from_utf8(text).ok()?.trim_end_matches('\0'))
        }
    }
}

fn handle(content: &Content, name: cudnnBackendAttributeName_t) -> Option<cudnnHandle_t> {
    let [handle] = content.elements(name)? else { return None };
    let handle: cudnnHandle_t = std::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(*handle));
    (!handle.is_null()).then_some(handle)
}

/// Reads a plan's engine, and the bytes of workspace that it needs.
///
/// # Safety
/// The caller promises that `plan` is a finalized execution plan.
unsafe fn own(plan: cudnnBackendDescriptor_t) -> Result<(EngineConfiguration, usize), cudnnStatus_t> {
    // SAFETY: our caller promised a finalized execution plan.
    let workspace =
        unsafe { descriptor::read::<i64>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64) }?;
    let workspace =
        workspace.first().and_then(|&bytes| usize::try_from(bytes).ok()).ok_or(CUDNN_STATUS_INTERNAL_ERROR)?;
    // SAFETY: our caller promised a finalized execution plan.
    Ok((unsafe { EngineConfiguration::of_plan(plan) }?, workspace))
}
