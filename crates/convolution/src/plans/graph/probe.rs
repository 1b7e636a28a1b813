//! cuDNN's candidates for a problem's micro-batches: engine configurations, as finalized plans. A heuristics query
//! takes tens of milliseconds; finalizing a plan takes well below one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cudnn_abi::*;

use super::micro_plan::{MicroBatch, MicroPlan};
use crate::problem::graph::{Class, EngineConfiguration, Problem, Route};
use cudnn::graph::Target;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration, WorkspaceBudget};
use tuning::search::Candidate;

/// The fallback uses no micro-batches below 1 / `SMALLEST_PART` of the mini-batch if another engine avoids them: many
/// small ones take longer than an engine further down the heuristics' list. (For filter gradients in TF32, 32 parts
/// took a third of the time of an engine without workspace in VGG-16 and two thirds in ResNet-50; 128 parts took twice
/// as long in ResNet-50.)
const SMALLEST_PART: usize = 32;

/// The parameters for probing cuDNN.
pub struct Probe<'a> {
    pub problem: &'a Arc<Problem>,
    pub class: Class,
    pub target: &'a Target,
    /// The workspace budget of a micro-batch.
    pub budget: WorkspaceBudget,
    /// Set to admit only engines that can be put into CUDA graphs.
    pub for_cuda_graphs: bool,
    /// The requested engine, if there is one. It may run undivided, whatever the class.
    pub requested: Option<EngineConfiguration>,
}

impl Probe<'_> {
    /// Cuts the problem to `images` images.
    pub fn micro_batch(&self, images: usize) -> MicroBatch<'_> {
        MicroBatch::new(self.problem, images, self.target)
    }

    /// Returns whether a micro-batch of this size is a large part of the mini-batch.
    pub fn is_large(&self, size: usize) -> bool {
        size * SMALLEST_PART >= self.problem.batch()
    }

    /// Returns whether an engine may run on a micro-batch of `size` images. Where the requested engine does not round all
    /// images, it may still round fewer: cuDNN's engines choose kernels by the number of images, too.
    pub fn admits(&self, engine: &EngineConfiguration, size: usize) -> bool {
        let is_requested = || self.requested.as_ref() == Some(engine) && size == self.problem.batch();
        (self.class.admits(engine) || is_requested()) && (!self.for_cuda_graphs || engine.has_form_in_cuda_graphs())
    }
}

/// The candidates found so far.
#[derive(Default)]
pub struct Candidates {
    /// Sizes and engines in the order of probing, whatever their workspace.
    candidates: Vec<Candidate<EngineConfiguration>>,
    /// Sizes and engines that cuDNN does not run.
    refused: HashSet<(usize, EngineConfiguration)>,
    /// The plans of candidates that fit while all other images are still to be computed.
    plans: HashMap<(usize, EngineConfiguration), Arc<MicroPlan>>,
}

/// Returns the micro-batch sizes to try, the largest first: those of the policy at which the problem can be cut.
pub fn sizes(problem: &Problem, policy: BatchSizePolicy) -> Vec<usize> {
    let policy = if problem.splittable() { policy } else { BatchSizePolicy::Undivided };
    let mut sizes = policy.sizes(problem.batch());
    sizes.retain(|&size| problem.aligned(size));
    sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
    sizes
}

impl Candidates {
    /// Forgets all micro-batches, by engine and size, except those to `keep`.
    pub fn retain(&mut self, keep: impl Fn(&EngineConfiguration, usize) -> bool) {
        self.candidates.retain(|candidate| keep(&candidate.algorithm, candidate.batch));
        self.plans.retain(|(size, engine), _| keep(engine, *size));
    }

    /// Finalizes the admitted `engines` for such micro-batches, in their order, until `enough` of them fit the budget.
    /// Returns how many fit.
    pub fn finalize_first(
        &mut self,
        probe: &Probe,
        of: &mut MicroBatch,
        engines: &[EngineConfiguration],
        enough: usize,
    ) -> usize {
        let size = of.batch();
        let admitted = engines.iter().filter(|engine| probe.admits(engine, size));
        admitted.filter(|engine| self.finalize(probe, of, engine)).take(enough).count()
    }

    /// Returns the bytes of workspace of micro-batches of `size` on `engine`. `None` if cuDNN does not run that.
    pub fn workspace(&mut self, probe: &Probe, size: usize, engine: &EngineConfiguration) -> Option<usize> {
        self.finalize(probe, &mut probe.micro_batch(size), engine);
        self.known(size, engine).map(|known| known.workspace)
    }

    fn known(&self, size: usize, engine: &EngineConfiguration) -> Option<&Candidate<EngineConfiguration>> {
        self.candidates.iter().find(|known| known.batch == size && known.algorithm == *engine)
    }

    /// Finalizes an engine, unless it was probed before. Returns whether it fits the budget.
    fn finalize(&mut self, probe: &Probe, of: &mut MicroBatch, engine: &EngineConfiguration) -> bool {
        let batch = of.batch();
        if self.known(batch, engine).is_none() && !self.refused.contains(&(batch, *engine)) {
            match MicroPlan::new(of, engine) {
                Ok(plan) => {
                    let workspace = plan.workspace(probe.problem, batch);
                    self.candidates.push(Candidate { batch, algorithm: *engine, workspace });
                    if workspace <= probe.budget.before(probe.problem.batch() - batch) {
                        self.plans.insert((batch, *engine), Arc::new(plan));
                    }
                }
                Err(_) => {
                    self.refused.insert((batch, *engine));
                }
            }
        }
        self.plans.contains_key(&(batch, *engine))
    }

    /// Returns whether an engine of our own fits. These are candidates for the whole mini-batch only.
    pub fn has_ours(&self) -> bool {
        self.plans.keys().any(|(_, engine)| engine.route == Route::Ours)
    }

    /// The number of candidates, whatever their workspace.
    pub fn count(&self) -> usize {
        self.candidates.len()
    }

    /// Returns whether an engine of cuDNN's on tensor cores fits for micro-batches of `least` images or more.
    pub fn has_tensor_cores(&self, least: usize) -> bool {
        let uses = |engine: &EngineConfiguration| engine.route != Route::Ours && engine.has_tensor_cores();
        self.plans.keys().any(|(size, engine)| *size >= least && uses(engine))
    }

    /// Returns all candidates: the largest micro-batches first, and equal sizes in the order of probing.
    pub fn largest_first(&self) -> Vec<Candidate<EngineConfiguration>> {
        let mut candidates = self.candidates.clone();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.batch));
        candidates
    }

    /// Returns all candidates in the order to try them. First come the largest fitting micro-batches of each engine, in
    /// the order of probing: our engines, engines on copies, then others. A search that runs out of executions has seen
    /// the heuristics' favourites by then; an engine's first run loads code, which takes long. Then all others, the
    /// largest first: their times rule out most small ones, unless an engine is left that may do better.
    pub fn best_first(&self) -> Vec<Candidate<EngineConfiguration>> {
        let offered = |engine| self.candidates.iter().position(|candidate| candidate.algorithm == engine);
        let mut met = HashSet::new();
        let fits = |it: &Candidate<EngineConfiguration>| self.plans.contains_key(&(it.batch, it.algorithm));
        let (mut candidates, others): (Vec<_>, Vec<_>) =
            self.largest_first().into_iter().partition(|it| fits(it) && met.insert(it.algorithm));
        let of_route = |engine: EngineConfiguration| match engine.route {
            Route::Ours => 0,
            Route::OnCopies => 1,
            Route::AsStored => 2,
        };
        candidates.sort_by_key(|it| (of_route(it.algorithm), offered(it.algorithm)));
        candidates.extend(others);
        candidates
    }

    /// Returns a finalized plan, if there is one.
    pub fn plan(&self, size: usize, engine: &EngineConfiguration) -> Option<Arc<MicroPlan>> {
        self.plans.get(&(size, *engine)).cloned()
    }

    /// Returns the finalized plans of a configuration's parts that exist, for [`Plan::new`](super::plan::Plan::new).
    pub fn plans(
        &self,
        configuration: &Configuration<EngineConfiguration>,
    ) -> impl Fn(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>> + use<> {
        let part = |(_, micro): &(usize, MicroConfiguration<EngineConfiguration>)| {
            let known = (micro.batch, micro.algorithm);
            self.plans.get(&known).map(|plan| (known, plan.clone()))
        };
        let plans: HashMap<_, _> = configuration.parts().iter().filter_map(part).collect();
        move |size, engine| plans.get(&(size, *engine)).cloned()
    }
}

/// Returns the heuristics' proposals for such micro-batches, in their order. There may be none.
pub fn heuristics(probe: &Probe, of: &mut MicroBatch, mode: cudnnBackendHeurMode_t) -> Vec<EngineConfiguration> {
    proposed(probe, of, mode, false)
}

/// The number of engines proposed for copies that come first, and the number of others that follow them.
const IN_A_ROW: usize = 4;

/// Returns the heuristics' proposals for channels-last copies of the tensors. After the first few come the first
/// proposals for the tensors `as_stored`: the copies take workspace, so an engine may fit with other knobs only.
pub fn heuristics_on_copies(
    probe: &Probe,
    of: &mut MicroBatch,
    as_stored: &[EngineConfiguration],
) -> Vec<EngineConfiguration> {
    let mut engines = proposed(probe, of, CUDNN_HEUR_MODE_A, true);
    let size = of.batch();
    let others = as_stored.iter().take(IN_A_ROW).filter_map(|engine| of.on_copies(engine));
    let others: Vec<_> = others.filter(|engine| probe.admits(engine, size) && !engines.contains(engine)).collect();
    let behind = engines.len().min(IN_A_ROW);
    engines.splice(behind..behind, others);
    engines
}

fn proposed(
    probe: &Probe,
    of: &mut MicroBatch,
    mode: cudnnBackendHeurMode_t,
    channels_last: bool,
) -> Vec<EngineConfiguration> {
    let mut offered = of.heuristics(mode, channels_last).unwrap_or_default();
    offered.retain(|engine| probe.admits(engine, of.batch()));
    offered
}
