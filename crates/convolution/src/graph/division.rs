//! What an execution runs under Workspace Division: its layer's plan in the layer's segment. While it has none, in what
//! such layers share, the program's own plan, or where that needs too much a ready configuration that does not; and else
//! what is ready in what the program was told, which is next to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;
use once_cell::sync::OnceCell;

use super::execute::Execution;
use super::operands::Operands;
use super::page::{self, Key};
use super::plan::Plan;
use super::planned::Planned;
use crate::division::kernel::{LayerKernel, LayerPlan};
use crate::division::layers;
use crate::division::network::{self, Network};
use crate::exec::Failure;
use crate::problem::graph::Kernel;
use cudnn::calls;
use cudnn::convolution::Workspace;
use cudnn::policies::Policies;
use planner::{Configuration, MicroConfiguration};

/// What a program's plan runs while it has no segment.
#[derive(Default)]
pub struct Meanwhile {
    /// Found when it is needed first, within what there was then. `None` if there is nothing.
    plan: OnceCell<Option<Arc<Plan>>>,
    /// It failed once.
    is_broken: AtomicBool,
}

impl Meanwhile {
    /// What runs within `limit` bytes of workspace: that of the first who asks.
    fn plan(&self, planned: &Planned, limit: usize) -> Option<&Arc<Plan>> {
        let find = || {
            let Planned { page, own, own_workspace, .. } = planned;
            if *own_workspace > limit {
                let key = Key { limit, ..page.key.clone() };
                return page::page(key, &page.target).ready();
            }
            let kernel = &page.key.kernel;
            let own =
                MicroConfiguration { batch: kernel.batch(), algorithm: *own, time: 0.0, workspace: *own_workspace };
            let plan = Plan::new(kernel, Configuration::undivided(own), &page.target, usize::MAX, |_, _| None).ok()?;
            (plan.workspace() <= limit).then(|| Arc::new(plan))
        };
        self.plan.get_or_init(find).as_ref().filter(|_| !self.is_broken.load(Ordering::Relaxed))
    }

    /// It failed: it is not run again.
    fn failed(&self, kernel: &Kernel, failure: Failure) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("{kernel}: status {} without a segment; it runs as it is ready", failure.status);
        }
    }
}

impl Execution<'_> {
    /// # Safety
    /// As for [`Self::run`], with its operands.
    pub(super) unsafe fn run_divided(&self, operands: &Operands, policies: &Policies) -> cudnnStatus_t {
        let device = cudnn::device();
        // What is captured may be run again at any time, beside anything: it can have no segment.
        // SAFETY: the program's handle.
        let stream = unsafe { calls::stream_of(self.handle) }.filter(|stream| !device.is_capturing(*stream));
        let Some(stream) = stream.filter(|_| !network::plans()) else {
            // SAFETY: as ours.
            return unsafe { self.run_ready(Some(operands)) };
        };
        let network = Network::of(device);
        let Planned { page, meanwhile, .. } = self.planned;
        let key = layers::Key {
            kernel: LayerKernel::Graph(page.clone()),
            algorithm: None,
            only: false,
            filter: operands.pointers[page.key.kernel.convolution().w].addr(),
            lane: network::lane(device, stream),
            name: policies.layer,
        };
        let layer = network.enter(&key, [0; 4], policies, || None);
        let in_segment = network.in_segment(layer, &key, stream, |plan, workspace| match plan {
            // SAFETY: as ours; the segment is this layer's alone.
            LayerPlan::Graph(plan) => unsafe { self.run_in(plan, operands, workspace) },
            LayerPlan::Convolution(_) => Err(CUDNN_STATUS_INTERNAL_ERROR.into()),
        });
        if let Some(status) = in_segment {
            return status;
        }
        // What fits into what the program brings needs nothing of ours.
        let limit = || policies.call_limit(network.rest());
        let plan = if self.planned.own_fits() { None } else { meanwhile.plan(self.planned, limit()) };
        let ran = plan.and_then(|plan| {
            // SAFETY: as ours; nothing else uses it before this has ended.
            let launch = |workspace| unsafe { self.run_in(plan, operands, workspace) };
            network.in_rest(&key, plan.workspace(), stream, launch)
        });
        match ran {
            Some(Ok(())) => return CUDNN_STATUS_SUCCESS,
            Some(Err(Failure { status, result_spent: true })) => return status,
            Some(Err(failure)) => meanwhile.failed(&page.key.kernel, failure),
            None => {}
        }
        // SAFETY: as ours.
        unsafe { self.run_ready(Some(operands)) }
    }

    /// Runs a plan in a workspace of ours.
    ///
    /// # Safety
    /// As for [`Self::run`]; the workspace is the call's to overwrite.
    unsafe fn run_in(&self, plan: &Plan, operands: &Operands, workspace: Workspace) -> Result<(), Failure> {
        if workspace.size < plan.workspace() {
            return Err(CUDNN_STATUS_INTERNAL_ERROR.into());
        }
        let operands = Operands { workspace: workspace.data, ..*operands };
        // SAFETY: as ours, and the workspace is large enough.
        unsafe { self.run_in_workspace(plan, &operands, |_, _| ()) }
    }
}
