//! The plan that runs under Workspace Division while a layer has no segment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

use super::plan::Plan;
use super::state::{self, Key, State};
use crate::exec::Failure;
use crate::problem::graph::{EngineConfiguration, Problem};
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
    /// Returns the plan for `limit` bytes of workspace: the requested engine, which needs `workspace` bytes, if that
    /// fits. The first caller's limit decides.
    pub fn plan(
        &self,
        state: &State,
        requested: EngineConfiguration,
        workspace: usize,
        limit: usize,
    ) -> Option<&Arc<Plan>> {
        let find = || {
            if workspace > limit {
                let key = Key { limit, ..state.key.clone() };
                return state::state(key, &state.target).fallback();
            }
            let problem = &state.key.problem;
            let whole = MicroConfiguration { batch: problem.batch(), algorithm: requested, time: 0.0, workspace };
            let plan =
                Plan::new(problem, Configuration::undivided(whole), &state.target, usize::MAX, |_, _| None).ok()?;
            (plan.workspace() <= limit).then(|| Arc::new(plan))
        };
        self.plan.get_or_init(find).as_ref().filter(|_| !self.is_broken.load(Ordering::Relaxed))
    }

    /// Gives the plan up after a failure.
    pub fn failed(&self, problem: &Problem, failure: Failure) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("{problem}: status {} without a segment; it runs as it is ready", failure.status);
        }
    }
}
