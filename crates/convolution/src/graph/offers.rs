//! What cuDNN offers for a kernel's micro-batches: engine configurations, as finalized plans. A query of its heuristics
//! takes tens of milliseconds, finalizing a plan well below one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cudnn_abi::*;

use super::micro_plan::{MicroBatch, MicroPlan};
use crate::problem::graph::{Class, EngineConfiguration, Kernel, Route};
use cudnn::graph::Target;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration, Room};
use tuning::search::Candidate;

/// Whom to ask, and for what.
pub struct Asking<'a> {
    pub kernel: &'a Arc<Kernel>,
    pub class: Class,
    pub target: &'a Target,
    /// The bytes of workspace that the program brings.
    pub limit: usize,
    /// Only engines that can be put into CUDA graphs.
    pub for_cuda_graphs: bool,
}

impl Asking<'_> {
    /// What a micro-batch may use of workspace.
    pub fn room(&self) -> Room {
        Room { limit: self.limit, per_image: self.kernel.unwritten_per_image() }
    }

    /// What plans of so many images are made of.
    pub fn micro_batch(&self, images: usize) -> MicroBatch<'_> {
        MicroBatch::new(self.kernel, images, self.target)
    }

    /// Whether an engine may be used.
    pub fn admits(&self, engine: &EngineConfiguration) -> bool {
        self.class.admits(engine) && (!self.for_cuda_graphs || engine.has_form_in_cuda_graphs())
    }
}

/// What has been offered so far.
#[derive(Default)]
pub struct Offers {
    /// Sizes and engines in the order in which they were offered, whatever their workspace.
    candidates: Vec<Candidate<EngineConfiguration>>,
    /// Those that cuDNN does not run.
    refused: HashSet<(usize, EngineConfiguration)>,
    /// Of candidates that have room where all other images are still to be computed.
    plans: HashMap<(usize, EngineConfiguration), Arc<MicroPlan>>,
}

/// The micro-batch sizes to try, the largest first: the policy's, as far as the kernel can be cut there.
pub fn sizes(kernel: &Kernel, policy: BatchSizePolicy) -> Vec<usize> {
    let policy = if kernel.splittable() { policy } else { BatchSizePolicy::Undivided };
    let mut sizes = policy.sizes(kernel.batch());
    sizes.retain(|&size| kernel.aligned(size));
    sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
    sizes
}

impl Offers {
    /// Forgets all engines but those to be kept.
    pub fn retain(&mut self, keep: impl Fn(&EngineConfiguration) -> bool) {
        self.candidates.retain(|candidate| keep(&candidate.algorithm));
        self.plans.retain(|(_, engine), _| keep(engine));
    }

    /// Finalizes what the class admits of `engines` for such micro-batches, in their order, until `enough` of them have
    /// room. How many do.
    pub fn finalize_first(
        &mut self,
        asking: &Asking,
        of: &mut MicroBatch,
        engines: &[EngineConfiguration],
        enough: usize,
    ) -> usize {
        let admitted = engines.iter().filter(|engine| asking.admits(engine));
        admitted.filter(|engine| self.finalize(asking, of, engine)).take(enough).count()
    }

    /// Bytes of workspace that micro-batches of `size` take by `engine`; `None` if cuDNN does not run that.
    pub fn workspace(&mut self, asking: &Asking, size: usize, engine: &EngineConfiguration) -> Option<usize> {
        self.finalize(asking, &mut asking.micro_batch(size), engine);
        self.known(size, engine).map(|known| known.workspace)
    }

    fn known(&self, size: usize, engine: &EngineConfiguration) -> Option<&Candidate<EngineConfiguration>> {
        self.candidates.iter().find(|known| known.batch == size && known.algorithm == *engine)
    }

    /// Whether there is room for it.
    fn finalize(&mut self, asking: &Asking, of: &mut MicroBatch, engine: &EngineConfiguration) -> bool {
        let batch = of.batch();
        if self.known(batch, engine).is_none() && !self.refused.contains(&(batch, *engine)) {
            match MicroPlan::new(of, engine) {
                Ok(plan) => {
                    let workspace = plan.workspace(asking.kernel, batch);
                    self.candidates.push(Candidate { batch, algorithm: *engine, workspace });
                    if workspace <= asking.room().before(asking.kernel.batch() - batch) {
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

    /// Whether there is room for an engine of ours, which are offered for the whole mini-batch alone.
    pub fn has_ours(&self) -> bool {
        self.plans.keys().any(|(_, engine)| engine.route == Route::Ours)
    }

    /// How many sizes and engines run, whatever their workspace.
    pub fn count(&self) -> usize {
        self.candidates.len()
    }

    /// Whether there is room for micro-batches of so many images or more on an engine that uses tensor cores.
    pub fn has_tensor_cores(&self, least: usize) -> bool {
        let uses = |engine: &EngineConfiguration| engine.numerics.contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        self.plans.keys().any(|(size, engine)| *size >= least && uses(engine))
    }

    /// All that runs, the largest micro-batches first, and of one size in the order in which they were offered.
    pub fn largest_first(&self) -> Vec<Candidate<EngineConfiguration>> {
        let mut candidates = self.candidates.clone();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.batch));
        candidates
    }

    /// All that runs, in the order in which it is to be tried. The largest micro-batches of each engine that have room come
    /// first, ours before those on copies, and these before others, and engines as they were offered: a search that runs out
    /// of executions has seen what the heuristics think best, and a first run loads code, which takes long. Then all others,
    /// the largest first: what large ones take rules out most small ones, as long as no engine is left that may do better.
    pub fn best_first(&self) -> Vec<Candidate<EngineConfiguration>> {
        let offered = |engine| self.candidates.iter().position(|candidate| candidate.algorithm == engine);
        let mut met = HashSet::new();
        let has_room = |it: &Candidate<EngineConfiguration>| self.plans.contains_key(&(it.batch, it.algorithm));
        let (mut candidates, others): (Vec<_>, Vec<_>) =
            self.largest_first().into_iter().partition(|it| has_room(it) && met.insert(it.algorithm));
        let of_route = |engine: EngineConfiguration| match engine.route {
            Route::Ours => 0,
            Route::OnCopies => 1,
            Route::AsStored => 2,
        };
        candidates.sort_by_key(|it| (of_route(it.algorithm), offered(it.algorithm)));
        candidates.extend(others);
        candidates
    }

    /// A finalized plan.
    pub fn plan(&self, size: usize, engine: &EngineConfiguration) -> Option<Arc<MicroPlan>> {
        self.plans.get(&(size, *engine)).cloned()
    }

    /// The finalized plans of a configuration's parts, as far as there are any, for [`Plan::new`](super::plan::Plan::new).
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

/// What the heuristics propose for such micro-batches, in their order; none is an answer too.
pub fn heuristics(asking: &Asking, of: &mut MicroBatch, mode: cudnnBackendHeurMode_t) -> Vec<EngineConfiguration> {
    proposed(asking, of, mode, false)
}

/// How many of those for copies come first, and how many of the others follow.
const IN_A_ROW: usize = 4;

/// The same for copies of the tensors that have their channels last. Behind the first few are the first that were proposed
/// for the tensors `as_stored`: beside the copies, an engine may have room by other knobs only.
pub fn heuristics_on_copies(
    asking: &Asking,
    of: &mut MicroBatch,
    as_stored: &[EngineConfiguration],
) -> Vec<EngineConfiguration> {
    let mut engines = proposed(asking, of, CUDNN_HEUR_MODE_A, true);
    let others = as_stored.iter().take(IN_A_ROW).filter_map(|engine| of.on_copies(engine));
    let others: Vec<_> = others.filter(|engine| asking.admits(engine) && !engines.contains(engine)).collect();
    let behind = engines.len().min(IN_A_ROW);
    engines.splice(behind..behind, others);
    engines
}

fn proposed(
    asking: &Asking,
    of: &mut MicroBatch,
    mode: cudnnBackendHeurMode_t,
    channels_last: bool,
) -> Vec<EngineConfiguration> {
    let mut offered = of.heuristics(mode, channels_last).unwrap_or_default();
    offered.retain(|engine| asking.admits(engine));
    offered
}
