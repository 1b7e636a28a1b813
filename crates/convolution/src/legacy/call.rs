//! One convolution call: forwards it, runs the fallback, or passes it to [`super::execute`].

use std::cell::Cell;
use std::ffi::c_int;

use cudnn_abi::*;

use super::answer;
use crate::exec::{self, Check, Failure};
use crate::plans::legacy::plan::Plan;
use crate::plans::legacy::run::{adds_to_result, run};
use crate::problem::Problem;
use crate::problem::algorithm::Algorithm;
use crate::problem::graph;
use cudnn::convolution::{Descriptors, Operands, Workspace};
use cudnn::handle::Handle;
use gpu::Buffer;
use guest::settings::{self};
use guest::summary::{self, Counted};
use tuning::report;

/// A convolution call: arguments that keep the rules of the direction's cuDNN function.
pub struct Call<'a> {
    pub(super) handle: Handle<'a>,
    pub(super) descriptors: Descriptors<'a>,
    pub(super) algorithm: c_int,
    pub(super) operands: Operands,
    pub(super) workspace: Workspace,
}

impl<'a> Call<'a> {
    /// # Safety
    /// For the call's lifetime, operands and workspace keep the rules of the direction's convolution function, or cuDNN
    /// refuses them.
    pub unsafe fn new(
        handle: Handle<'a>,
        descriptors: Descriptors<'a>,
        algorithm: c_int,
        operands: Operands,
        workspace: Workspace,
    ) -> Self {
        Self { handle, descriptors, algorithm, operands, workspace }
    }

    pub fn handle(&self) -> Handle<'a> {
        self.handle
    }

    pub fn operands(&self) -> &Operands {
        &self.operands
    }

    /// Calls cuDNN with the arguments unchanged.
    pub fn by_cudnn(&self) -> cudnnStatus_t {
        self.run_undivided(self.algorithm)
    }

    /// Runs the fallback if the call brings less workspace than its algorithm needs, else cuDNN as requested.
    pub fn run_fallback(&self) -> cudnnStatus_t {
        let promise = answer::promise(&self.descriptors, self.algorithm, self.workspace.size);
        let Some(promise) = promise.filter(|promise| promise.undivided > self.workspace.size) else {
            return self.by_cudnn();
        };
        match (promise.fallback, promise.plan) {
            (Some(fallback), _) => self.run_undivided(fallback),
            (None, Some(plan)) => {
                // SAFETY: the plan is of the call's problem. It needs no more than the reported workspace, and the
                // call brings at least that.
                let ran = unsafe { run(&plan, self.handle.raw(), &self.operands, self.workspace, |_, _| ()) };
                ran.map_or_else(|failure| failure.status, |()| CUDNN_STATUS_SUCCESS)
            }
            (None, None) => self.by_cudnn(),
        }
    }

    /// Runs cuDNN undivided, with `algorithm`. cuDNN refuses one that does not fit the workspace.
    pub(super) fn run_undivided(&self, algorithm: c_int) -> cudnnStatus_t {
        // SAFETY: by `new`; cuDNN checks the algorithm against the workspace's size.
        unsafe { self.descriptors.convolve(self.handle.raw(), algorithm, &self.operands, self.workspace) }
    }

    /// Calls cuDNN with another workspace.
    ///
    /// # Safety
    /// The workspace is device memory of its size, which nothing else uses until the stream has done the call's work.
    pub(super) unsafe fn by_cudnn_in(&self, workspace: Workspace) -> cudnnStatus_t {
        // SAFETY: the workspace is valid, and the other arguments are the call's.
        unsafe { self.descriptors.convolve(self.handle.raw(), self.algorithm, &self.operands, workspace) }
    }

    /// Runs a plan's parts in `workspace`, and under `UCUDNN_CHECK` compares the result. Sets `spent` when a part has
    /// added to the result.
    ///
    /// # Safety
    /// The plan is of the call's problem. The workspace is device memory that this call may overwrite.
    pub(super) unsafe fn run_parts(
        &self,
        plan: &Plan,
        workspace: Workspace,
        spent: &Cell<bool>,
        mut after: impl FnMut(usize, Algorithm),
    ) -> Result<(), Failure> {
        if workspace.size < plan.workspace() {
            return Err(Failure { status: CUDNN_STATUS_BAD_PARAM, result_modified: false });
        }
        let problem = plan.problem();
        let check = self.prepare_check(problem);
        // SAFETY: the operands are those of this call, and `problem` is its problem.
        let adds = unsafe { adds_to_result(problem, &self.operands) };
        // SAFETY: the operands are those of the plan's problem, and the workspace is large enough for the plan.
        unsafe {
            run(plan, self.handle.raw(), &self.operands, workspace, |batch, algorithm| {
                spent.set(adds);
                after(batch, algorithm);
            })?;
        }
        summary::count(Counted::planned(plan.configuration().is_undivided()));
        if let Some(check) = check {
            let ran = self.run_check(&check, problem);
            // SAFETY: `check` was prepared for this call's result, and the workspace outlives what runs in it.
            let error = ran.and_then(|_workspace| unsafe { check.error() });
            let tolerance = exec::tolerance(problem.x.data_type, problem.math_type != CUDNN_FMA_MATH);
            report::checked(problem, plan.configuration(), &error, tolerance);
        }
        Ok(())
    }

    /// The problem is the call's.
    fn prepare_check(&self, problem: &Problem) -> Option<Check> {
        if !settings::get().check {
            return None;
        }
        let mut graph = graph::Problem::of_convolution(problem);
        let result = graph.tensors.swap_remove(graph.convolution().result());
        let stream = self.handle.stream()?;
        // SAFETY: the result is device memory of the size of the problem's result.
        unsafe { Check::prepare(cudnn::device(), stream, result, self.operands.result(problem.direction)) }
    }

    /// Runs the convolution undivided on the check's copy, with the requested algorithm. Returns the workspace of this
    /// run, so that it outlives the run.
    fn run_check(&self, check: &Check, problem: &Problem) -> Result<Buffer, String> {
        let bytes = self.descriptors.workspace_size(self.handle, self.algorithm);
        let bytes = bytes.map_err(|status| format!("cuDNN gives no workspace size (status {status})"))?;
        let buffer = cudnn::device().allocate(bytes).ok_or(format!("no memory for its workspace of {bytes} bytes"))?;
        let workspace = Workspace { data: buffer.data(), size: buffer.bytes() };
        let mut undivided = self.operands.with_result(problem.direction, check.copy());
        if let Some(epilogue) = undivided.epilogue.as_mut().filter(|e| e.z == check.result().cast_const()) {
            epilogue.z = check.copy(); // z was the result, which the plan has overwritten
        }
        // SAFETY: the call's operands with a copy for the result, and a workspace of the size that cuDNN gave.
        match unsafe { self.descriptors.convolve(self.handle.raw(), self.algorithm, &undivided, workspace) } {
            CUDNN_STATUS_SUCCESS => Ok(buffer),
            status => Err(format!("the undivided convolution failed with status {status}")),
        }
    }
}
