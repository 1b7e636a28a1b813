//! An execution plan of our own: a graph that one engine's configuration computes.

use cudnn_abi::*;

use crate::problem::graph::{EngineConfiguration, OperationGraph};
use cudnn::calls;
use cudnn::finalizing;
use cudnn::graph::VariantPack;
use cudnn::graph::descriptor::Owned;

/// A finalized execution plan with all descriptors that it refers to.
pub struct ExecutionPlan {
    plan: Owned,
    workspace: usize,
    /// The engine, its knobs and their configuration, which must live as long as the plan.
    _configuration: Vec<Owned>,
    _graph: OperationGraph,
}

impl ExecutionPlan {
    /// The plan of `graph` on `configuration`, for the graph's target. Fails if the engine cannot compute the graph so.
    pub fn new(graph: &OperationGraph, configuration: &EngineConfiguration) -> Result<Self, cudnnStatus_t> {
        let target = graph.target();
        let mut engine = Owned::create(CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
        engine.set_descriptors(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph.descriptor()])?;
        engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &[configuration.engine])?;
        target.set_on(&mut engine, CUDNN_ATTR_ENGINE_DEVICEPROP)?;
        engine.finalize()?;

        let knobs = configuration.knobs.iter().map(|&(knob, value)| {
            let mut choice = Owned::create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?;
            choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &[knob])?;
            choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &[value])?;
            choice.finalize()?;
            Ok(choice)
        });
        let mut held = knobs.collect::<Result<Vec<_>, cudnnStatus_t>>()?;
        let mut chosen = Owned::create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        chosen.set_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, &[&engine])?;
        if !held.is_empty() {
            chosen.set_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &held.iter().collect::<Vec<_>>())?;
        }
        chosen.finalize()?;

        let mut plan = Owned::create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        target.set_on(&mut plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)?;
        plan.set_descriptors(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[&chosen])?;
        finalizing::in_turn(|| plan.finalize())?;
        let workspace: i64 = plan.get_one(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64)?;
        let workspace = usize::try_from(workspace).map_err(|_| CUDNN_STATUS_INTERNAL_ERROR)?;
        held.extend([engine, chosen]);
        Ok(Self { plan, workspace, _configuration: held, _graph: graph.clone() })
    }

    /// The workspace that the plan needs, in bytes.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Runs the plan on the handle's stream.
    ///
    /// # Safety
    /// `handle` is live, and `pack` names memory of its device for every tensor and [`Self::workspace`] bytes more.
    pub unsafe fn execute(&self, handle: cudnnHandle_t, pack: &VariantPack) -> cudnnStatus_t {
        // SAFETY: the caller promises the handle and the pack's memory; the plan is live and finalized.
        unsafe { calls::cudnnBackendExecute(handle, self.raw(), pack.raw()) }
    }

    /// The descriptor, valid as long as `self`.
    pub fn raw(&self) -> cudnnBackendDescriptor_t {
        self.plan.raw()
    }
}
