//! The plan that runs under Workspace Division while a layer has no segment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::plan::Plan;
use super::state::{self, Key, State};
use crate::exec::Failure;
use crate::problem::graph::{EngineConfiguration, Problem};
use planner::{Configuration, MicroConfiguration};

/// The most plans that are looked for: what a lane may use changes as others take memory.
const MOST: usize = 4;

/// The plans of a layer that has no segment.
#[derive(Default)]
pub struct Meanwhile {
    /// What was found within limits in bytes: a plan, or that nothing fits.
    found: Mutex<Vec<(usize, Option<Arc<Plan>>)>>,
    /// Set once a plan has failed.
    is_broken: AtomicBool,
}

impl Meanwhile {
    /// Returns a plan for `limit` bytes of workspace. The requested engine runs if its `workspace` bytes fit, and another
    /// configuration if not.
    pub fn plan(
        &self,
        state: &State,
        requested: EngineConfiguration,
        workspace: usize,
        limit: usize,
    ) -> Option<Arc<Plan>> {
        if self.is_broken.load(Ordering::Relaxed) {
            return None;
        }
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
        let mut found = self.found.lock();
        let fits = |plan: &Option<Arc<Plan>>| plan.as_ref().is_some_and(|plan| plan.workspace() <= limit);
        // What was found within less memory may be slower, unless it is the requested engine.
        let answers = |(within, plan): &&(usize, Option<Arc<Plan>>)| match limit <= *within {
            true => plan.is_none() || fits(plan),
            false => *within >= workspace && fits(plan),
        };
        if let Some((_, known)) = found.iter().find(answers) {
            return known.clone();
        }
        if found.len() == MOST {
            let mut fitting = found.iter().filter(|(_, plan)| fits(plan));
            return fitting.next().and_then(|(_, plan)| plan.clone());
        }
        let new = find();
        found.push((limit, new.clone()));
        new
    }

    /// Gives the plans up after a failure.
    pub fn failed(&self, problem: &Problem, failure: Failure) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("{problem}: status {} without a segment; it runs as it is ready", failure.status);
        }
    }
}
