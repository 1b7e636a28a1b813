//! The graph (backend) API. Each function calls cuDNN's and records the outcome in our shadows.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;

use super::boundary::guarded;
use convolution::graph::choices;
use convolution::graph::execute::Execution;
use convolution::graph::finalize::finalize;
use convolution::graph::normalization;
use convolution::graph::planned::Planned;
use convolution::graph::shadow;
use cudnn::calls;
use cudnn::policies;

/// Runs `tell` to record a successful cuDNN call. The result is cuDNN's status, even if `tell` panics.
fn reported(status: cudnnStatus_t, tell: impl FnOnce()) -> cudnnStatus_t {
    if status != CUDNN_STATUS_SUCCESS || policies::all_off() {
        return status;
    }
    let tell = || {
        tell();
        status
    };
    guarded(tell, || status)
}

/// Overrides cuDNN's function: starts a shadow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(
    kind: cudnnBackendDescriptorType_t,
    descriptor: *mut cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let status = unsafe { calls::cudnnBackendCreateDescriptor(kind, descriptor) };
    // SAFETY: cuDNN has succeeded, so it has written the descriptor.
    reported(status, || shadow::created(kind, unsafe { *descriptor }))
}

/// Overrides cuDNN's function: ends the shadow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendDestroyDescriptor(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    // The shadow goes first, because cuDNN may then reuse the address.
    reported(CUDNN_STATUS_SUCCESS, || shadow::destroyed(descriptor));
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    unsafe { calls::cudnnBackendDestroyDescriptor(descriptor) }
}

/// Overrides cuDNN's function: records the attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    count: i64,
    elements: *const c_void,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let status = unsafe { calls::cudnnBackendSetAttribute(descriptor, name, element, count, elements) };
    if status != CUDNN_STATUS_SUCCESS {
        reported(CUDNN_STATUS_SUCCESS, || shadow::was_refused(descriptor, name));
        return status;
    }
    // SAFETY: cuDNN has read the same elements of this width and count.
    reported(status, || unsafe { shadow::was_set(descriptor, name, element, count, elements) })
}

/// Overrides cuDNN's function: for an execution plan that runs in micro-batches, reports their workspace. Remembers the
/// engines whose notes the program reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    requested: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> cudnnStatus_t {
    // A program may pass no count, but we need the number of descriptors that cuDNN fills in.
    let mut filled = 0;
    let is_asked = element != CUDNN_TYPE_BACKEND_DESCRIPTOR || elements.is_null() || !count.is_null();
    let count = if is_asked { count } else { &raw mut filled };
    // SAFETY: the program keeps cuDNN's rules; `filled` replaces a count that it did not pass.
    let status = unsafe { calls::cudnnBackendGetAttribute(descriptor, name, element, requested, count, elements) };
    let written = || {
        // SAFETY: null, or cuDNN has written the count.
        let count = unsafe { count.as_ref() }.map_or(requested, |count| requested.min(*count));
        if elements.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) }
    };
    match (name, element) {
        (CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64) => reported(status, || {
            let shadow = shadow::of(descriptor);
            if let Some(planned) = shadow.as_ref().and_then(|shadow| shadow.planned.get()?.as_ref())
                && written() > 0
            {
                // SAFETY: cuDNN has written one i64 here.
                unsafe { elements.cast::<i64>().write_unaligned(planned.workspace() as i64) };
            }
        }),
        (CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE) if !elements.is_null() => {
            reported(status, || {
                // SAFETY: `i` is below the number of notes that cuDNN has written; the array may be unaligned.
                let note = |i| unsafe { elements.cast::<i32>().add(i).read_unaligned() };
                let notes: Vec<_> = (0..written()).map(note).collect();
                // SAFETY: cuDNN has just read this descriptor.
                unsafe { choices::read(descriptor, &notes) };
            })
        }
        (_, CUDNN_TYPE_BACKEND_DESCRIPTOR) => reported(status, || {
            // SAFETY: `i` is below the number of descriptors that cuDNN has written; the array may be unaligned.
            let filled = |i| unsafe { elements.cast::<cudnnBackendDescriptor_t>().add(i).read_unaligned() };
            let filled: Vec<_> = (0..written()).map(filled).collect();
            shadow::were_filled(descriptor, name, &filled);
        }),
        _ => status,
    }
}

/// Overrides cuDNN's function: for an execution plan that runs in micro-batches, reports their workspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetExecutionPlanWorkspaceSize(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
    size: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let status = unsafe { calls::cudnnGetExecutionPlanWorkspaceSize(handle, plan, pack, size) };
    reported(status, || {
        // SAFETY: cuDNN has succeeded, so it has written the size, unless there is no place for it.
        if let (Some(planned), Some(size)) = (planned(plan), unsafe { size.as_mut() }) {
            *size = planned.workspace_for(*size);
        }
    })
}

/// Overrides cuDNN's function: for an execution plan, decides on the plan that runs in its place. Reports an operation
/// graph with a normalization.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let status = unsafe { calls::cudnnBackendFinalize(descriptor) };
    if status != CUDNN_STATUS_SUCCESS {
        let is_plan = || shadow::of(descriptor).is_some_and(|it| it.kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        reported(CUDNN_STATUS_SUCCESS, || {
            if is_plan() {
                choices::refused()
            }
        });
        return status;
    }
    reported(status, || {
        let Some(shadow) = shadow::of(descriptor) else { return };
        shadow.was_finalized();
        match shadow.kind {
            CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => normalization::report(&shadow),
            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
                // SAFETY: cuDNN has just finalized this execution plan.
                shadow.planned.get_or_init(|| unsafe { finalize(&shadow, descriptor) });
            }
            _ => {}
        }
    })
}

/// Overrides cuDNN's function: the shadow becomes new, as the descriptor does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendInitialize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let status = unsafe { calls::cudnnBackendInitialize(descriptor) };
    reported(status, || shadow::renewed(descriptor))
}

/// Overrides cuDNN's function: runs micro-batches if they are faster within the plan's reported workspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendExecute(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let real = || unsafe { calls::cudnnBackendExecute(handle, plan, pack) };
    let Some(planned) = planned(plan) else { return real() };
    let spent = Cell::new(false);
    let execution = Execution { handle, plan, pack, planned: &planned, spent: &spent };
    guarded(
        // SAFETY: the program keeps the rules of the cuDNN function that it calls.
        || unsafe { execution.run() },
        || match spent.get() {
            true => CUDNN_STATUS_EXECUTION_FAILED,
            // SAFETY: the program keeps cuDNN's rules; the result is unmodified, so a second run is sound.
            false => unsafe { execution.run_after_panic() },
        },
    )
}

/// The plan that runs in place of an execution plan, if there is one.
fn planned(plan: cudnnBackendDescriptor_t) -> Option<Arc<Planned>> {
    shadow::of(plan)?.planned.get()?.clone()
}

/// Overrides cuDNN's function: puts a plan that runs in micro-batches into the graph in that form.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendPopulateCudaGraph(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let real = || unsafe { calls::cudnnBackendPopulateCudaGraph(handle, plan, pack, graph) };
    let Some(planned) = planned(plan) else { return real() };
    let execution = Execution { handle, plan, pack, planned: &planned, spent: &Cell::new(false) };
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    guarded(|| unsafe { execution.populate(graph) }, || CUDNN_STATUS_INTERNAL_ERROR)
}

/// Overrides cuDNN's function: updates a graph that holds a plan in micro-batches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendUpdateCudaGraph(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let real = || unsafe { calls::cudnnBackendUpdateCudaGraph(handle, plan, pack, graph) };
    let Some(planned) = planned(plan) else { return real() };
    let execution = Execution { handle, plan, pack, planned: &planned, spent: &Cell::new(false) };
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    guarded(|| unsafe { execution.update(graph) }, || CUDNN_STATUS_INTERNAL_ERROR)
}
