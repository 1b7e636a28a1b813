//! A convolution call: what is forwarded, what falls back, and what goes to [`super::execute`].

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::answer;
use super::book::{self, Ask};
use super::division;
use super::execute::Running;
use crate::exec::{self, Check, Failure, Plan};
use crate::problem::Kernel;
use crate::problem::algorithm::Algorithm;
use crate::problem::graph;
use cudnn::calls;
use cudnn::convolution::{Descriptors, Operands, Workspace};
use cudnn::policies;
use gpu::Buffer;
use guest::settings::{self, Policy};
use tuning::report;

/// Whether the process has run a convolution yet.
pub static EXECUTED: AtomicBool = AtomicBool::new(false);

/// One convolution call.
#[derive(Clone, Copy)]
pub struct Call {
    pub handle: cudnnHandle_t,
    pub descriptors: Descriptors,
    pub algorithm: c_int,
    pub operands: Operands,
    pub workspace: Workspace,
}

impl Call {
    /// Runs the call as it was promised or decided. `spent` tells, if this panics, whether running it
    /// anew would no longer give its result.
    ///
    /// # Safety
    /// The arguments are those of a cuDNN convolution call.
    pub unsafe fn run(&self, spent: &Cell<bool>) -> cudnnStatus_t {
        let policies = policies::of(self.handle);
        if policies.policy == Policy::Off {
            // SAFETY: as ours.
            return unsafe { self.run_ready() };
        }
        EXECUTED.store(true, Ordering::Relaxed);
        settings::fault_point("convolve");
        // SAFETY: as ours.
        let Some(kernel) = (unsafe { Kernel::read(&self.descriptors) }) else {
            // SAFETY: as ours.
            return unsafe { self.run_as_asked() };
        };
        if let Some(epilogue) = &self.operands.epilogue {
            // SAFETY: as ours.
            if !unsafe { exec::divides(&kernel, epilogue, cudnn::device().alignment()) } {
                // SAFETY: as ours.
                return unsafe { self.run_ready() };
            }
        }
        // SAFETY: as ours.
        let only = unsafe { self.takes_no_other() };
        if policies.policy == Policy::Division {
            // SAFETY: as ours.
            return unsafe { division::run::run(self, &kernel, only, &policies, spent) };
        }
        let page = book::page(cudnn::device(), &kernel);
        let limit = policies.call_limit(self.workspace.size);
        let ask = Ask { id: self.algorithm, limit, only, sizes: policies.batch_size_policy };
        let mut running = Running { call: self, kernel: &kernel, page: &page, ask, must_divide: false, spent };
        // SAFETY: as ours.
        unsafe { running.run() }
    }

    /// cuDNN, with the arguments unchanged.
    ///
    /// # Safety
    /// As for [`Self::run`], or cuDNN refuses them.
    pub unsafe fn run_as_asked(&self) -> cudnnStatus_t {
        // SAFETY: as ours.
        unsafe { self.run_undivided(self.algorithm) }
    }

    /// The ready configuration if the call relies on less workspace than its algorithm needs, else as
    /// asked.
    ///
    /// # Safety
    /// As for [`Self::run`].
    pub unsafe fn run_ready(&self) -> cudnnStatus_t {
        // SAFETY: as ours.
        let promise = unsafe { answer::promise(&self.descriptors, self.algorithm, self.workspace.size) };
        let Some(promise) = promise.filter(|promise| promise.undivided > self.workspace.size) else {
            // SAFETY: as ours.
            return unsafe { self.run_as_asked() };
        };
        match (promise.ready, promise.plan) {
            // SAFETY: it runs in what was reported.
            (Some(ready), _) => unsafe { self.run_undivided(ready) },
            (None, Some(plan)) => {
                // SAFETY: it needs no more than was reported.
                let ran = unsafe { exec::run(&plan, self.handle, &self.operands, self.workspace, |_, _| ()) };
                ran.map_or_else(|failure| failure.status, |()| CUDNN_STATUS_SUCCESS)
            }
            // SAFETY: as ours.
            (None, None) => unsafe { self.run_as_asked() },
        }
    }

    /// cuDNN, undivided, by `algorithm`.
    ///
    /// # Safety
    /// As for [`Self::run`]; cuDNN refuses an algorithm that needs more than the workspace.
    pub(super) unsafe fn run_undivided(&self, algorithm: c_int) -> cudnnStatus_t {
        // SAFETY: as ours.
        unsafe { self.descriptors.convolve(self.handle, algorithm, &self.operands, self.workspace) }
    }

    /// Runs a plan's parts in `workspace`, and with `UCUDNN_CHECK` compares the result. `spent` is set
    /// when the result has been added to.
    ///
    /// # Safety
    /// As for [`Self::run`]; the workspace is the call's to overwrite.
    pub(super) unsafe fn run_parts(
        &self,
        plan: &Plan,
        workspace: Workspace,
        spent: &Cell<bool>,
        mut after: impl FnMut(usize, Algorithm),
    ) -> Result<(), Failure> {
        if workspace.size < plan.workspace() {
            return Err(Failure { status: CUDNN_STATUS_BAD_PARAM, result_spent: false });
        }
        let kernel = plan.kernel();
        // SAFETY: as ours.
        let check = unsafe { self.prepare_check(kernel) };
        // SAFETY: as ours.
        let adds = unsafe { exec::adds_to_result(kernel, &self.operands) };
        // SAFETY: the workspace is large enough.
        unsafe {
            exec::run(plan, self.handle, &self.operands, workspace, |batch, algorithm| {
                spent.set(adds);
                after(batch, algorithm);
            })?;
        }
        if let Some(check) = check {
            // SAFETY: as ours.
            let error = unsafe { self.run_check(&check, kernel).and_then(|_workspace| check.error()) };
            let tolerance = exec::tolerance(kernel.x.data_type, kernel.math_type != CUDNN_FMA_MATH);
            report::checked(kernel, plan.configuration(), &error, tolerance);
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn prepare_check(&self, kernel: &Kernel) -> Option<Check> {
        if !settings::get().check {
            return None;
        }
        let mut graph = graph::Kernel::of_convolution(kernel);
        let result = graph.tensors.swap_remove(graph.convolution().result());
        // SAFETY: as ours.
        unsafe {
            let stream = calls::stream_of(self.handle)?;
            Check::prepare(cudnn::device(), stream, result, self.operands.result(kernel.direction))
        }
    }

    /// Runs the undivided convolution by the program's own algorithm on the copy, in a workspace of its own, which
    /// lives as long as what is returned.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_check(&self, check: &Check, kernel: &Kernel) -> Result<Buffer, String> {
        // SAFETY: the call's own handle and descriptors.
        let bytes = unsafe { self.descriptors.workspace_size(self.handle, self.algorithm) }
            .map_err(|status| format!("cuDNN gives no workspace size (status {status})"))?;
        let buffer = cudnn::device().allocate(bytes).ok_or(format!("no memory for its workspace of {bytes} bytes"))?;
        let workspace = Workspace { data: buffer.data(), size: buffer.bytes() };
        let mut undivided = self.operands.with_result(kernel.direction, check.copy());
        if let Some(epilogue) = undivided.epilogue.as_mut().filter(|e| e.z == check.result().cast_const()) {
            epilogue.z = check.copy(); // z was the result itself, which has been overwritten
        }
        // SAFETY: the call's own operands, but for the result, which is a copy.
        match unsafe { self.descriptors.convolve(self.handle, self.algorithm, &undivided, workspace) } {
            CUDNN_STATUS_SUCCESS => Ok(buffer),
            status => Err(format!("the undivided convolution failed with status {status}")),
        }
    }

    /// Whether cuDNN runs this call by no other algorithm than the one asked for: a fused call with
    /// the identity activation.
    ///
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn takes_no_other(&self) -> bool {
        let Some(epilogue) = &self.operands.epilogue else { return false };
        if epilogue.activation.is_null() {
            return true; // for cuDNN to refuse
        }
        let (mut mode, mut nan, mut coefficient) = (0, 0, 0.0);
        // SAFETY: the program's descriptor, and places for its values.
        let status =
            unsafe { calls::cudnnGetActivationDescriptor(epilogue.activation, &mut mode, &mut nan, &mut coefficient) };
        status != CUDNN_STATUS_SUCCESS || mode == CUDNN_ACTIVATION_IDENTITY
    }
}
