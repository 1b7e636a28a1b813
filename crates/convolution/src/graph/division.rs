//! Runs an execution under Workspace Division: by its layer's plan in the layer's segment. Layers without a segment
//! share memory. There the program's own plan runs, or if that needs too much, a configuration that fits. Otherwise the
//! fallback runs in the reported workspace, which is next to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;
use once_cell::sync::OnceCell;

use super::execute::Execution;
use super::operands::Operands;
use super::plan::Plan;
use super::planned::Planned;
use super::state::{self, Key};
use crate::division::layers;
use crate::division::network::{self, Network};
use crate::division::problem::{LayerPlan, LayerProblem};
use crate::exec::Failure;
use crate::problem::graph::Problem;
use cudnn::calls;
use cudnn::convolution::Workspace;
use cudnn::policies::Policies;
use planner::{Configuration, MicroConfiguration};

/// The plan of a layer that has no segment.
#[derive(Default)]
pub struct Meanwhile {
    /// Chosen on first use, within the memory that there was then. `None` if nothing fits.
    plan: OnceCell<Option<Arc<Plan>>>,
    /// Set once the plan has failed.
    is_broken: AtomicBool,
}

impl Meanwhile {
    /// Returns the plan for `limit` bytes of workspace. The first caller's limit decides.
    fn plan(&self, planned: &Planned, limit: usize) -> Option<&Arc<Plan>> {
        let find = || {
            let Planned { state, own, requested_workspace, .. } = planned;
            if *requested_workspace > limit {
                let key = Key { limit, ..state.key.clone() };
                return state::state(key, &state.target).fallback();
            }
            let problem = &state.key.problem;
            let own = MicroConfiguration {
                batch: problem.batch(),
                algorithm: *own,
                time: 0.0,
                workspace: *requested_workspace,
            };
            let plan =
                Plan::new(problem, Configuration::undivided(own), &state.target, usize::MAX, |_, _| None).ok()?;
            (plan.workspace() <= limit).then(|| Arc::new(plan))
        };
        self.plan.get_or_init(find).as_ref().filter(|_| !self.is_broken.load(Ordering::Relaxed))
    }

    /// Gives the plan up after a failure.
    fn failed(&self, problem: &Problem, failure: Failure) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("{problem}: status {} without a segment; it runs as it is ready", failure.status);
        }
    }
}

impl Execution<'_> {
    /// # Safety
    /// The caller promises the same as for [`Self::run`], and that the operands are those of this execution.
    pub(super) unsafe fn run_divided(&self, operands: &Operands, policies: &Policies) -> cudnnStatus_t {
        let device = cudnn::device();
        // A captured execution may be replayed at any time, beside any other work, so it gets no segment.
        // SAFETY: the handle is the program's, from this execution.
        let stream = unsafe { calls::stream_of(self.handle) }.filter(|stream| !device.is_capturing(*stream));
        let Some(stream) = stream.filter(|_| !network::plans()) else {
            // SAFETY: `run_fallback` requires only what our caller promised.
            return unsafe { self.run_fallback(Some(operands)) };
        };
        let network = Network::of(device);
        let Planned { state, meanwhile, .. } = self.planned;
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
            // SAFETY: our caller promised the operands, and the segment belongs to this layer alone.
            LayerPlan::Graph(plan) => unsafe { self.run_in(plan, operands, workspace) },
            LayerPlan::Convolution(_) => Err(CUDNN_STATUS_INTERNAL_ERROR.into()),
        });
        if let Some(status) = in_segment {
            return status;
        }
        // A plan that fits the program's workspace needs none of our memory.
        let limit = || policies.call_limit(network.rest());
        let plan = if self.planned.requested_fits() { None } else { meanwhile.plan(self.planned, limit()) };
        let ran = plan.and_then(|plan| {
            // SAFETY: our caller promised the operands, and no other work uses the workspace until this has ended.
            let launch = |workspace| unsafe { self.run_in(plan, operands, workspace) };
            network.in_rest(&key, plan.workspace(), stream, launch)
        });
        match ran {
            Some(Ok(())) => return CUDNN_STATUS_SUCCESS,
            Some(Err(Failure { status, result_modified: true })) => return status,
            Some(Err(failure)) => meanwhile.failed(&state.key.problem, failure),
            None => {}
        }
        // SAFETY: `run_fallback` requires only what our caller promised.
        unsafe { self.run_fallback(Some(operands)) }
    }

    /// Runs a plan in our own workspace.
    ///
    /// # Safety
    /// The caller promises the same as for [`Self::run`], and that this execution may overwrite the workspace.
    unsafe fn run_in(&self, plan: &Plan, operands: &Operands, workspace: Workspace) -> Result<(), Failure> {
        if workspace.size < plan.workspace() {
            return Err(CUDNN_STATUS_INTERNAL_ERROR.into());
        }
        let operands = Operands { workspace: workspace.data, ..*operands };
        // SAFETY: our caller promised the operands, and the workspace is large enough.
        unsafe { self.run_in_workspace(plan, &operands, |_, _| ()) }
    }
}
