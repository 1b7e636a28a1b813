//! The graph (backend) API. Each function calls cuDNN's; what is our own is told what came of that.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;

use super::boundary::guarded;
use convolution::graph::execute::Execution;
use convolution::graph::planned::Planned;
use convolution::graph::shadow;
use cudnn::calls::backend;
use cudnn::policies;

/// Tells ourselves of what cuDNN did, if it did it. Whatever happens to us, its status stands.
fn told(status: cudnnStatus_t, tell: impl FnOnce()) -> cudnnStatus_t {
    if status != CUDNN_STATUS_SUCCESS || policies::all_off() {
        return status;
    }
    let tell = || {
        tell();
        status
    };
    guarded(tell, || status)
}

/// cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(
    kind: cudnnBackendDescriptorType_t,
    descriptor: *mut cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let status = unsafe { backend::cudnnBackendCreateDescriptor(kind, descriptor) };
    // SAFETY: cuDNN has written to it.
    told(status, || shadow::created(kind, unsafe { *descriptor }))
}

/// cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendDestroyDescriptor(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    // Before cuDNN can give the address to another.
    told(CUDNN_STATUS_SUCCESS, || shadow::destroyed(descriptor));
    // SAFETY: the arguments are the program's own.
    unsafe { backend::cudnnBackendDestroyDescriptor(descriptor) }
}

/// cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    count: i64,
    elements: *const c_void,
) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let status = unsafe { backend::cudnnBackendSetAttribute(descriptor, name, element, count, elements) };
    if status != CUDNN_STATUS_SUCCESS {
        told(CUDNN_STATUS_SUCCESS, || shadow::was_refused(descriptor, name));
        return status;
    }
    // SAFETY: cuDNN has taken the elements.
    told(status, || unsafe { shadow::was_set(descriptor, name, element, count, elements) })
}

/// cuDNN's function; of an execution plan that is run in micro-batches, the workspace that it takes so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    requested: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> cudnnStatus_t {
    // How many descriptors are filled in is told to nobody else where the program does not ask.
    let mut filled = 0;
    let is_asked = element != CUDNN_TYPE_BACKEND_DESCRIPTOR || elements.is_null() || !count.is_null();
    let count = if is_asked { count } else { &raw mut filled };
    // SAFETY: the arguments are the program's own, or a place in its stead.
    let status = unsafe { backend::cudnnBackendGetAttribute(descriptor, name, element, requested, count, elements) };
    let written = || {
        // SAFETY: cuDNN has written to it.
        let count = unsafe { count.as_ref() }.map_or(requested, |count| requested.min(*count));
        if elements.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) }
    };
    match (name, element) {
        (CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64) => told(status, || {
            let shadow = shadow::of(descriptor);
            if let Some(planned) = shadow.as_ref().and_then(|shadow| shadow.planned.get()?.as_ref())
                && written() > 0
            {
                // SAFETY: room for the one value that cuDNN has written.
                unsafe { elements.cast::<i64>().write_unaligned(planned.workspace() as i64) };
            }
        }),
        (_, CUDNN_TYPE_BACKEND_DESCRIPTOR) => told(status, || {
            // SAFETY: as many descriptors as cuDNN has filled in, aligned or not.
            let filled = |i| unsafe { elements.cast::<cudnnBackendDescriptor_t>().add(i).read_unaligned() };
            let filled: Vec<_> = (0..written()).map(filled).collect();
            shadow::were_filled(descriptor, name, &filled);
        }),
        _ => status,
    }
}

/// cuDNN's function; decides for an execution plan what runs in its place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let status = unsafe { backend::cudnnBackendFinalize(descriptor) };
    told(status, || {
        let Some(shadow) = shadow::of(descriptor) else { return };
        shadow.was_finalized();
        if shadow.kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR {
            // SAFETY: a plan that cuDNN has finalized.
            shadow.planned.get_or_init(|| unsafe { Planned::of(&shadow, descriptor) });
        }
    })
}

/// cuDNN's function, for a descriptor that is as good as new from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendInitialize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let status = unsafe { backend::cudnnBackendInitialize(descriptor) };
    told(status, || shadow::renewed(descriptor))
}

/// cuDNN's function, in micro-batches where that is faster within the workspace that the plan was told to need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendExecute(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let real = || unsafe { backend::cudnnBackendExecute(handle, plan, pack) };
    let Some(planned) = planned(plan) else { return real() };
    let spent = Cell::new(false);
    let execution = Execution { handle, plan, pack, planned: &planned, spent: &spent };
    guarded(
        // SAFETY: the arguments are the program's own.
        || unsafe { execution.run() },
        || match spent.get() {
            true => CUDNN_STATUS_EXECUTION_FAILED,
            // SAFETY: as above; running anew loses nothing.
            false => unsafe { execution.run_after_panic() },
        },
    )
}

/// What runs in place of an execution plan, if anything does.
fn planned(plan: cudnnBackendDescriptor_t) -> Option<Arc<Planned>> {
    shadow::of(plan)?.planned.get()?.clone()
}

/// cuDNN's function; a plan that runs in micro-batches is put into the graph so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendPopulateCudaGraph(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let real = || unsafe { backend::cudnnBackendPopulateCudaGraph(handle, plan, pack, graph) };
    let Some(planned) = planned(plan) else { return real() };
    let execution = Execution { handle, plan, pack, planned: &planned, spent: &Cell::new(false) };
    // SAFETY: as above.
    guarded(|| unsafe { execution.populate(graph) }, || CUDNN_STATUS_INTERNAL_ERROR)
}

/// cuDNN's function; for a plan that was put into the graph in micro-batches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendUpdateCudaGraph(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    // SAFETY: the arguments are the program's own.
    let real = || unsafe { backend::cudnnBackendUpdateCudaGraph(handle, plan, pack, graph) };
    let Some(planned) = planned(plan) else { return real() };
    let execution = Execution { handle, plan, pack, planned: &planned, spent: &Cell::new(false) };
    // SAFETY: as above.
    guarded(|| unsafe { execution.update(graph) }, || CUDNN_STATUS_INTERNAL_ERROR)
}
