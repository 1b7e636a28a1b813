//! The answers to calls of the graph (backend) API. Each has cuDNN answer and records the outcome in our shadows.

use std::cell::Cell;
use std::sync::Arc;

use cudnn_abi::*;

use super::boundary::guarded;
use super::overrides::Answer;
use convolution::graph::choices;
use convolution::graph::execute::Execution;
use convolution::graph::finalize::finalize;
use convolution::graph::normalization;
use convolution::graph::planned::Planned;
use convolution::graph::shadow;
use cudnn::arguments::*;
use cudnn::finalizing;
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

/// Starts a shadow.
impl Answer for Promised<BackendCreateDescriptor> {
    fn answer(&self) -> cudnnStatus_t {
        let BackendCreateDescriptor { kind, descriptor } = **self;
        let status = self.by_cudnn();
        // SAFETY: cuDNN has succeeded, so it has written the descriptor.
        reported(status, || shadow::created(kind, unsafe { *descriptor }))
    }
}

/// Ends the shadow.
impl Answer for Promised<BackendDestroyDescriptor> {
    fn answer(&self) -> cudnnStatus_t {
        // The shadow goes first, because cuDNN may then reuse the address.
        reported(CUDNN_STATUS_SUCCESS, || shadow::destroyed(self.descriptor));
        self.by_cudnn()
    }
}

/// Records the attribute.
impl Answer for Promised<BackendSetAttribute> {
    fn answer(&self) -> cudnnStatus_t {
        let BackendSetAttribute { descriptor, name, element, count, elements } = **self;
        let status = self.by_cudnn();
        if status != CUDNN_STATUS_SUCCESS {
            reported(CUDNN_STATUS_SUCCESS, || shadow::was_refused(descriptor, name));
            return status;
        }
        // SAFETY: cuDNN has read the same elements of this width and count.
        reported(status, || unsafe { shadow::was_set(descriptor, name, element, count, elements) })
    }
}

/// For an execution plan in whose place others may run, reports their workspace. Remembers the engines whose notes the
/// program reads.
impl Answer for Promised<BackendGetAttribute> {
    fn answer(&self) -> cudnnStatus_t {
        let BackendGetAttribute { descriptor, name, element, requested, count, elements } = **self;
        // A program may pass no count, but we need the number of descriptors that cuDNN fills in.
        let mut filled = 0;
        let is_asked = element != CUDNN_TYPE_BACKEND_DESCRIPTOR || elements.is_null() || !count.is_null();
        let count = if is_asked { count } else { &raw mut filled };
        // SAFETY: `filled` replaces a count that the program did not pass.
        let status = unsafe { Promised::new(BackendGetAttribute { count, ..**self }) }.by_cudnn();
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
                    unsafe { elements.cast::<i64>().write_unaligned(planned.tell_workspace() as i64) };
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
}

/// For an execution plan in whose place others may run, reports their workspace.
impl Answer for Promised<GetExecutionPlanWorkspaceSize> {
    fn answer(&self) -> cudnnStatus_t {
        let GetExecutionPlanWorkspaceSize { plan, size, .. } = **self;
        let status = self.by_cudnn();
        reported(status, || {
            // SAFETY: cuDNN has succeeded, so it has written the size, unless there is no place for it.
            if let (Some(planned), Some(size)) = (planned(plan), unsafe { size.as_mut() }) {
                *size = planned.workspace_for(*size);
            }
        })
    }
}

/// For an execution plan, decides on the plan that runs in its place. Reports an operation graph with a normalization.
impl Answer for Promised<BackendFinalize> {
    fn answer(&self) -> cudnnStatus_t {
        let status = finalizing::for_program(|| self.by_cudnn());
        if status != CUDNN_STATUS_SUCCESS {
            let is_plan =
                || shadow::of(self.descriptor).is_some_and(|it| it.kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            reported(CUDNN_STATUS_SUCCESS, || {
                if is_plan() {
                    choices::refused()
                }
            });
            return status;
        }
        reported(status, || {
            let Some(shadow) = shadow::of(self.descriptor) else { return };
            shadow.was_finalized();
            match shadow.kind {
                CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => normalization::report(&shadow),
                CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
                    // SAFETY: cuDNN has just finalized this execution plan.
                    shadow.planned.get_or_init(|| unsafe { finalize(&shadow, self.descriptor) });
                }
                _ => {}
            }
        })
    }
}

/// The shadow becomes new, as the descriptor does.
impl Answer for Promised<BackendInitialize> {
    fn answer(&self) -> cudnnStatus_t {
        let status = self.by_cudnn();
        reported(status, || shadow::renewed(self.descriptor))
    }
}

/// Runs micro-batches if they are faster within the plan's reported workspace.
impl Answer for Promised<BackendExecute> {
    fn answer(&self) -> cudnnStatus_t {
        let BackendExecute { handle, plan, pack } = **self;
        let Some(planned) = planned(plan) else { return self.by_cudnn() };
        let spent = Cell::new(false);
        // SAFETY: the arguments keep this function's rules, and `planned` is its plan's.
        let execution = unsafe { Execution::new(handle, (plan, pack), &planned, &spent) };
        guarded(
            || execution.run(),
            || match spent.get() {
                true => CUDNN_STATUS_EXECUTION_FAILED,
                // The result is unmodified, so the execution may run again.
                false => execution.run_after_panic(),
            },
        )
    }
}

/// The plan that runs in place of an execution plan, if there is one.
fn planned(plan: cudnnBackendDescriptor_t) -> Option<Arc<Planned>> {
    shadow::of(plan)?.planned.get()?.clone()
}

/// Puts a plan that runs in micro-batches into the graph in that form.
impl Answer for Promised<BackendPopulateCudaGraph> {
    fn answer(&self) -> cudnnStatus_t {
        let BackendPopulateCudaGraph { handle, plan, pack, graph } = **self;
        let Some(planned) = planned(plan) else { return self.by_cudnn() };
        let spent = Cell::new(false);
        // SAFETY: the arguments keep this function's rules, and `planned` is its plan's.
        let execution = unsafe { Execution::new(handle, (plan, pack), &planned, &spent) };
        // SAFETY: the graph is the program's.
        guarded(|| unsafe { execution.populate(graph) }, || CUDNN_STATUS_INTERNAL_ERROR)
    }
}

/// Updates a graph that holds a plan in micro-batches.
impl Answer for Promised<BackendUpdateCudaGraph> {
    fn answer(&self) -> cudnnStatus_t {
        let BackendUpdateCudaGraph { handle, plan, pack, graph } = **self;
        let Some(planned) = planned(plan) else { return self.by_cudnn() };
        let spent = Cell::new(false);
        // SAFETY: the arguments keep this function's rules, and `planned` is its plan's.
        let execution = unsafe { Execution::new(handle, (plan, pack), &planned, &spent) };
        // SAFETY: the graph is the program's.
        guarded(|| unsafe { execution.update(graph) }, || CUDNN_STATUS_INTERNAL_ERROR)
    }
}
