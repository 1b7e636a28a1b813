//! What cuDNN offers for a kernel's micro-batches: engine configurations, as finalized plans. A query of its heuristics
//! takes tens of milliseconds, finalizing a plan well below one.

use std::collections::HashMap;
use std::sync::Arc;

use cudnn_abi::*;

use super::plan::MicroPlan;
use crate::cudnn::graph::{Class, EngineConfiguration, Kernel, OperationGraph, Target};
use crate::plan::BatchSizePolicy;
use crate::tune::search::Candidate;

/// Whom to ask, and for what.
pub struct Asking<'a> {
    pub kernel: &'a Arc<Kernel>,
    pub class: Class,
    pub target: &'a Target,
    /// The most bytes of workspace that are of use.
    pub limit: usize,
    /// Only engines that can be put into CUDA graphs.
    pub for_cuda_graphs: bool,
}

impl Asking<'_> {
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
    /// Of those within the limit.
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
    /// Asks the heuristics for engines of micro-batches of `size`, and finalizes what the class admits, in their order,
    /// until `enough` of them are within the limit.
    pub fn ask(&mut self, asking: &Asking, size: usize, mode: cudnnBackendHeurMode_t, enough: usize) {
        let part = asking.kernel.with_batch(size);
        let Ok(graph) = OperationGraph::new(&part, asking.target) else { return };
        // That none is offered is an answer too.
        let offered = graph.heuristics(mode).unwrap_or_default();
        self.finalize_some(asking, &graph, &part, &offered, enough);
    }

    /// The same with engine configurations that are known from elsewhere.
    pub fn finalize_first(&mut self, asking: &Asking, size: usize, engines: &[EngineConfiguration], enough: usize) {
        let part = asking.kernel.with_batch(size);
        if let Ok(graph) = OperationGraph::new(&part, asking.target) {
            self.finalize_some(asking, &graph, &part, engines, enough);
        }
    }

    fn finalize_some(
        &mut self,
        asking: &Asking,
        graph: &OperationGraph,
        part: &Kernel,
        engines: &[EngineConfiguration],
        enough: usize,
    ) {
        let mut found = 0;
        for engine in engines.iter().filter(|engine| asking.admits(engine)) {
            if found >= enough {
                return;
            }
            found += usize::from(self.finalize(asking, graph, part, engine));
        }
    }

    /// Whether it runs within the limit.
    fn finalize(
        &mut self,
        asking: &Asking,
        graph: &OperationGraph,
        part: &Kernel,
        engine: &EngineConfiguration,
    ) -> bool {
        let batch = part.batch();
        if self.candidates.iter().any(|known| known.batch == batch && known.algorithm == *engine) {
            return self.plans.contains_key(&(batch, *engine));
        }
        let Ok(plan) = MicroPlan::on(graph, asking.kernel, part, engine) else { return false };
        let workspace = plan.workspace(asking.kernel, batch);
        self.candidates.push(Candidate { batch, algorithm: *engine, workspace });
        if workspace <= asking.limit {
            self.plans.insert((batch, *engine), Arc::new(plan));
        }
        workspace <= asking.limit
    }

    /// All that runs, the largest micro-batches first, and of one size in the order in which they were offered.
    pub fn largest_first(&self) -> Vec<Candidate<EngineConfiguration>> {
        let mut candidates = self.candidates.clone();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.batch));
        candidates
    }

    /// All that runs, engines in the order in which they were first offered, and of one engine the largest micro-batches
    /// first: a search that runs out of executions has seen what the heuristics think best.
    pub fn best_first(&self) -> Vec<Candidate<EngineConfiguration>> {
        let engines = self.engines();
        let mut candidates = self.largest_first();
        candidates.sort_by_key(|candidate| engines.iter().position(|engine| *engine == candidate.algorithm));
        candidates
    }

    /// A finalized plan.
    pub fn plan(&self, size: usize, engine: &EngineConfiguration) -> Option<Arc<MicroPlan>> {
        self.plans.get(&(size, *engine)).cloned()
    }

    /// The different engine configurations offered so far.
    pub fn engines(&self) -> Vec<EngineConfiguration> {
        let mut engines: Vec<EngineConfiguration> = Vec::new();
        for candidate in &self.candidates {
            if !engines.contains(&candidate.algorithm) {
                engines.push(candidate.algorithm);
            }
        }
        engines
    }
}
