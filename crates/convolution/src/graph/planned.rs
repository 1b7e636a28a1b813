//! A program's execution plan and its replacement.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::operation_graph::Graph;
use crate::plans::graph::meanwhile::Meanwhile;
use crate::plans::graph::plan::Plan;
use crate::plans::graph::state::State;
use crate::problem::graph::EngineConfiguration;

/// A program's execution plan for a graph that other plans may run.
pub struct Planned {
    pub graph: Arc<Graph>,
    pub state: Arc<State>,
    /// The requested engine.
    pub own: EngineConfiguration,
    /// The bytes of workspace that the requested engine needs.
    pub requested_workspace: usize,
    /// What computes the problem as one product, if that is so. No time decides on it.
    pub at_once: Option<Arc<Plan>>,
    /// Set once the program has read the reported workspace.
    pub is_told: AtomicBool,
    /// How often the plan has run.
    pub executions: AtomicUsize,
    /// The plan under Workspace Division while the layer has no segment.
    pub meanwhile: Meanwhile,
}

impl Planned {
    /// The reported workspace, in bytes.
    pub fn workspace(&self) -> usize {
        self.state.key.limit
    }

    /// [`Self::workspace`], for the program to read.
    pub fn tell_workspace(&self) -> usize {
        self.is_told.store(true, Ordering::Relaxed);
        self.workspace()
    }

    /// Returns whether the program brings the reported workspace with this pointer. If that is more than the plan needs, a
    /// program that has not read it brings less: it may know the plan's own size from the engine's configuration.
    pub fn is_brought(&self, workspace: *const c_void) -> bool {
        let is_enough = || self.is_told.load(Ordering::Relaxed) || self.workspace() <= self.requested_workspace;
        self.workspace() == 0 || (!workspace.is_null() && is_enough())
    }

    /// The bytes of workspace to report for an execution for which the program's own plan needs `own`. An execution with
    /// other shapes goes to that plan if it fits, and may need more than the reported workspace.
    pub fn workspace_for(&self, own: usize) -> usize {
        let told = self.tell_workspace();
        if self.requested_fits() { own.max(told) } else { told }
    }

    /// Returns whether the program's own plan fits the reported workspace.
    pub fn requested_fits(&self) -> bool {
        self.requested_workspace <= self.workspace()
    }
}
