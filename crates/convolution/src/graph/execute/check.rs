//! `UCUDNN_CHECK=1`: compares the results of a replacement with those of the program's own plan.

use std::ffi::c_void;

use cudnn_abi::*;

use super::Execution;
use crate::exec::{self, Check};
use crate::plans::graph::operands::Operands;
use crate::plans::graph::plan::Plan;
use crate::problem::graph::EngineConfiguration;
use cudnn::calls;
use cudnn::graph::VariantPack;
use gpu::Buffer;
use guest::settings;
use tuning::report;

impl Execution<'_> {
    /// Copies the results' old content. The list is empty if nothing is to be checked, or nothing can be: under
    /// capture, for some images only, or without memory for the copies.
    pub(super) fn prepare_checks(&self, plan: &Plan, operands: &Operands) -> Vec<Check> {
        let problem = &*self.planned.graph.problem;
        if !settings::get().check || plan.configuration().batch() != problem.batch() {
            return Vec::new();
        }
        // SAFETY: the handle is the program's, from this execution.
        let Some(stream) = (unsafe { calls::stream_of(self.handle) }) else { return Vec::new() };
        let check = |result: usize| {
            let tensor = problem.tensors[result].clone();
            // SAFETY: the result is the program's device memory.
            unsafe { Check::prepare(cudnn::device(), stream, tensor, operands.pointers[result]) }
        };
        problem.results().map(check).collect::<Option<_>>().unwrap_or_default()
    }

    /// Runs the program's own plan too, after `plan` has run, and reports how far its results differ.
    pub(super) fn compare(&self, plan: &Plan, operands: &Operands, checks: &[Check]) {
        if checks.is_empty() {
            return;
        }
        let (problem, configuration) = (plan.problem(), plan.configuration());
        let rounds = |engine: &EngineConfiguration| {
            engine.has_tensor_cores() || engine.numerics.contains(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
        };
        let is_tf32 = rounds(&self.planned.own) || configuration.parts().iter().any(|(_, m)| rounds(&m.algorithm));
        let tolerance = exec::tolerance(problem.tensors[problem.convolution().x].data_type, is_tf32);
        let ran = self.run_own(operands, checks);
        for check in checks {
            // SAFETY: the check's result is one of the operands, and so still device memory.
            let error = ran.as_ref().map_err(String::clone).and_then(|_| unsafe { check.error() });
            report::checked(problem, configuration, &error, tolerance);
        }
    }

    /// Runs the program's own plan on the copies. Returns the workspace of this run, so that it outlives the run.
    fn run_own(&self, operands: &Operands, checks: &[Check]) -> Result<Buffer, String> {
        let bytes = self.planned.requested_workspace;
        let workspace =
            cudnn::device().allocate(bytes).ok_or(format!("no memory for its workspace of {bytes} bytes"))?;
        let graph = &self.planned.graph;
        let (mut ids, mut pointers): (Vec<i64>, Vec<*mut c_void>) = Default::default();
        for ((tensor, &id), &pointer) in graph.problem.tensors.iter().zip(&graph.ids).zip(&operands.pointers) {
            if !tensor.is_virtual {
                // A tensor that shares a result's memory reads the result's old content, which is in the copy.
                let copy = checks.iter().find(|check| check.result() == pointer).map(Check::copy);
                ids.push(id);
                pointers.push(copy.unwrap_or(pointer));
            }
        }
        let failed = |status| format!("the program's own plan failed with status {status}");
        let pack = VariantPack::new(&ids, &pointers, workspace.data()).map_err(failed)?;
        // SAFETY: the program's own call, with copies for the results and a workspace of the size that its plan needs.
        match unsafe { calls::cudnnBackendExecute(self.handle, self.plan, pack.raw()) } {
            CUDNN_STATUS_SUCCESS => Ok(workspace),
            status => Err(failed(status)),
        }
    }
}
