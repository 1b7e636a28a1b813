//! What runs in place of a program's execution plan: decided when that is finalized.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use cudnn_abi::*;

use super::division::Meanwhile;
use super::page::{self, Key, Page};
use super::reading::Graph;
use super::shadow::{Content, Shadow};
use super::targets;
use crate::problem::graph::{Class, EngineConfiguration};
use cudnn::graph::descriptor;
use cudnn::policies;
use guest::settings::{self, Policy};

/// A program's execution plan for a graph that can be run in micro-batches.
pub struct Planned {
    pub graph: Arc<Graph>,
    pub page: Arc<Page>,
    /// What the program chose.
    pub own: EngineConfiguration,
    /// Bytes of workspace that this needs itself.
    pub own_workspace: usize,
    /// How often it has run.
    pub executions: AtomicUsize,
    /// What it runs under Workspace Division while it has no segment.
    pub meanwhile: Meanwhile,
}

impl Planned {
    /// Bytes of workspace that the program is told.
    pub fn workspace(&self) -> usize {
        self.page.key.limit
    }

    /// Whether the program's own plan runs in what the program was told.
    pub fn own_fits(&self) -> bool {
        self.own_workspace <= self.workspace()
    }

    /// What is to run in place of a plan that cuDNN has finalized. `None` if that runs itself, whatever it computes.
    ///
    /// # Safety
    /// The descriptor is the shadow's: a finalized execution plan.
    pub unsafe fn of(shadow: &Shadow, plan: cudnnBackendDescriptor_t) -> Option<Arc<Self>> {
        if shadow.is_special() {
            return None;
        }
        let operations = shadow.operation_graph()?;
        let graph = Graph::of(&operations)?;
        let content = shadow.content();
        if content.is_opaque {
            return None;
        }
        let of_plan = handle(&content, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
        let handle = of_plan.or_else(|| handle(&operations.content(), CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
        let policies = policies::of(handle.unwrap_or(std::ptr::null_mut()));
        if policies.policy == Policy::Off {
            return None;
        }
        let (place, target) = targets::of(&content, handle)?;
        drop(content);
        settings::fault_point("finalize");
        // SAFETY: as ours.
        let (own, own_workspace) = unsafe { own(plan) }.ok()?;
        let class = Class::of(&own, settings::get().numerics);
        let sizes = policies.batch_size_policy;
        let kernel = graph.kernel.clone();
        let for_cuda_graphs = own.has_form_in_cuda_graphs();
        let key = |limit| Key { place: place.clone(), kernel: kernel.clone(), class, limit, sizes, for_cuda_graphs };
        let wanted = match policies.policy {
            Policy::Division => Some(0),
            _ => policies.query_limit(None),
        };
        let limit = wanted.map_or(own_workspace, |wanted| wanted.min(own_workspace));
        if limit == own_workspace && !graph.kernel.splittable() {
            return None; // over the limit, another engine may take its place all the same
        }
        let mut page = page::page(key(limit), &target);
        if limit < own_workspace && page.ready().is_none() {
            // Nothing runs within the limit: what needs least does, if that is less than the program's own plan.
            let least = page.least().map_or(own_workspace, |least| least.min(own_workspace));
            log::info!("{kernel}: nothing runs within {limit} bytes of workspace: {least} are used");
            page = page::page(key(least), &target);
            if least < own_workspace && page.ready().is_none() {
                page = page::page(key(own_workspace), &target);
            }
        }
        let (executions, meanwhile) = Default::default();
        Some(Arc::new(Self { graph, page, own, own_workspace, executions, meanwhile }))
    }
}

fn handle(content: &Content, name: cudnnBackendAttributeName_t) -> Option<cudnnHandle_t> {
    let [handle] = content.elements(name)? else { return None };
    let handle: cudnnHandle_t = std::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(*handle));
    (!handle.is_null()).then_some(handle)
}

/// What a plan runs, and the bytes of workspace that it needs.
///
/// # Safety
/// A finalized execution plan.
unsafe fn own(plan: cudnnBackendDescriptor_t) -> Result<(EngineConfiguration, usize), cudnnStatus_t> {
    // SAFETY: as ours.
    let workspace =
        unsafe { descriptor::read::<i64>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64) }?;
    let workspace =
        workspace.first().and_then(|&bytes| usize::try_from(bytes).ok()).ok_or(CUDNN_STATUS_INTERNAL_ERROR)?;
    // SAFETY: as ours.
    Ok((unsafe { EngineConfiguration::of_plan(plan) }?, workspace))
}
