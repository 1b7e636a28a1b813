//! A program's execution plan and its replacement.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::operation_graph::Graph;
use crate::plans::graph::meanwhile::Meanwhile;
use crate::plans::graph::state::State;
use crate::problem::graph::EngineConfiguration;

/// A program's execution plan for a graph that can be run in micro-batches.
pub struct Planned {
    pub graph: Arc<Graph>,
    pub state: Arc<State>,
    /// The requested engine.
    pub own: EngineConfiguration,
    /// The bytes of workspace that the requested engine needs.
    pub requested_workspace: usize,
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

    /// The bytes of workspace to report for an execution for which the program's own plan needs `own`. An execution with
    /// other shapes goes to that plan if it fits, and may need more than the reported workspace.
    pub fn workspace_for(&self, own: usize) -> usize {
        if self.requested_fits() { own.max(self.workspace()) } else { self.workspace() }
    }

    /// Returns whether the program's own plan fits the reported workspace.
    pub fn requested_fits(&self) -> bool {
        self.requested_workspace <= self.workspace()
    }
}
