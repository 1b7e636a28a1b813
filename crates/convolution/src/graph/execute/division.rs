//! Runs an execution under Workspace Division: by its layer's plan in the layer's segment. A lane's layers without a
//! segment share memory. There the program's own plan runs, or if that needs too much, a configuration that fits. Otherwise the
//! fallback runs in the reported workspace, which is next to nothing.

use cudnn_abi::*;

use super::Execution;
use crate::division::layers;
use crate::division::network::{self, Network};
use crate::division::problem::{LayerPlan, LayerProblem};
use crate::exec::Failure;
use crate::graph::planned::Planned;
use crate::plans::graph::operands::Operands;
use crate::plans::graph::plan::Plan;
use cudnn::calls;
use cudnn::convolution::Workspace;
use cudnn::policies::Policies;

impl Execution<'_> {
    pub(super) fn run_divided(&self, operands: &Operands, policies: &Policies) -> cudnnStatus_t {
        let device = cudnn::device();
        // A captured execution may be replayed at any time, beside any other work, so it gets no segment.
        // SAFETY: the handle is the program's, from this execution.
        let stream = unsafe { calls::stream_of(self.handle) }.filter(|stream| !device.is_capturing(*stream));
        let Some(stream) = stream.filter(|_| !network::plans()) else {
            return self.run_fallback(Some(operands));
        };
        let network = Network::of(device);
        let Planned { state, meanwhile, own, requested_workspace, .. } = self.planned;
        let key = layers::Key {
            problem: LayerProblem::Graph(state.clone()),
            algorithm: None,
            only: false,
            filter: operands.pointers[state.key.problem.convolution().w].addr(),
            lane: network::lane(device, stream),
            name: policies.layer,
        };
        let layer = network.enter(&key, [0; 4], policies, || None);
        let in_segment = network.in_segment(layer, &key, stream, |plan, workspace| match plan {
            // SAFETY: the segment belongs to this layer alone.
            LayerPlan::Graph(plan) => unsafe { self.run_in(plan, operands, workspace) },
            LayerPlan::Convolution(_) => Err(CUDNN_STATUS_INTERNAL_ERROR.into()),
        });
        if let Some(status) = in_segment {
            return status;
        }
        // A plan that fits the program's workspace needs none of our memory.
        let limit = || policies.call_limit(network.rest(key.lane));
        let plan = if self.planned.requested_fits() {
            None
        } else {
            meanwhile.plan(state, *own, *requested_workspace, limit())
        };
        let ran = plan.and_then(|plan| {
            // SAFETY: no other work uses the workspace until this has ended.
            let launch = |workspace| unsafe { self.run_in(&plan, operands, workspace) };
            network.in_rest(&key, plan.workspace(), stream, launch)
        });
        match ran {
            Some(Ok(())) => return CUDNN_STATUS_SUCCESS,
            Some(Err(Failure { status, result_modified: true })) => return status,
            Some(Err(failure)) => meanwhile.failed(&state.key.problem, failure),
            None => {}
        }
        self.run_fallback(Some(operands))
    }

    /// Runs a plan in our own workspace.
    ///
    /// # Safety
    /// The workspace is device memory that this execution may overwrite.
    unsafe fn run_in(&self, plan: &Plan, operands: &Operands, workspace: Workspace) -> Result<(), Failure> {
        if workspace.size < plan.workspace() {
            return Err(CUDNN_STATUS_INTERNAL_ERROR.into());
        }
        let operands = Operands { workspace: workspace.data, ..*operands };
        // SAFETY: the workspace is this execution's to overwrite, and large enough.
        unsafe { self.run_in_workspace(plan, &operands, |_, _| ()) }
    }
}
