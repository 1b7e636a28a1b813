//! Execution plans of one micro-batch size on one engine.

use cudnn_abi::*;

use super::conversion::Conversion;
use super::our_engine;
use crate::engines;
use crate::exec::SummedFilter;
use crate::problem::graph::{EngineConfiguration, ExecutionPlan, Factor, OperationGraph, Problem, Route};
use cudnn::graph::Target;

/// A part of a problem, with its operation graph.
struct Graph {
    part: Problem,
    graph: OperationGraph,
}

impl Graph {
    fn new(part: Problem, target: &Target) -> Result<Self, cudnnStatus_t> {
        let graph = OperationGraph::new(&part, target)?;
        Ok(Self { part, graph })
    }
}

/// A problem cut to a micro-batch of some images. Makes each operation graph of its plans on first use.
pub struct MicroBatch<'a> {
    problem: &'a Problem,
    batch: usize,
    target: &'a Target,
    as_given: Option<Graph>,
    channels_last: Option<Graph>,
}

impl<'a> MicroBatch<'a> {
    /// Cuts `problem` to `batch` images.
    pub fn new(problem: &'a Problem, batch: usize, target: &'a Target) -> Self {
        Self { problem, batch, target, as_given: None, channels_last: None }
    }

    /// The number of images.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the engines that cuDNN's heuristics propose in `mode`, in their order: for the tensors as stored, or for
    /// channels-last copies. `Err` if there is no such graph.
    pub fn heuristics(
        &mut self,
        mode: cudnnBackendHeurMode_t,
        channels_last: bool,
    ) -> Result<Vec<EngineConfiguration>, cudnnStatus_t> {
        let mut offered = self.graph(channels_last)?.graph.heuristics(mode)?;
        let route = if channels_last { Route::OnCopies } else { Route::AsStored };
        offered.iter_mut().for_each(|engine| engine.route = route);
        Ok(offered)
    }

    /// Returns the configuration on channels-last copies of an engine that was proposed for the tensors as stored: its
    /// notes may differ. `None` if the engine does not run on copies.
    pub fn on_copies(&mut self, engine: &EngineConfiguration) -> Option<EngineConfiguration> {
        let plan = ExecutionPlan::new(&self.graph(true).ok()?.graph, engine).ok()?;
        // SAFETY: the plan is our own, live and finalized.
        let found = unsafe { EngineConfiguration::of_plan(plan.raw()) }.ok()?;
        Some(EngineConfiguration { route: Route::OnCopies, ..found })
    }

    /// Checks that cuDNN accepts the operation graph. `Err` is cuDNN's status.
    pub fn check(&mut self) -> Result<(), cudnnStatus_t> {
        self.graph(false).map(|_| ())
    }

    fn graph(&mut self, channels_last: bool) -> Result<&Graph, cudnnStatus_t> {
        let Self { problem, batch, target, .. } = *self;
        let made = if channels_last { &mut self.channels_last } else { &mut self.as_given };
        if made.is_none() {
            let part = problem.with_batch(batch);
            let part = if channels_last { part.channels_last().ok_or(CUDNN_STATUS_NOT_SUPPORTED)? } else { part };
            *made = Some(Graph::new(part, target)?);
        }
        made.as_ref().ok_or(CUDNN_STATUS_INTERNAL_ERROR)
    }
}

/// Execution plans of one micro-batch size on one engine.
pub enum MicroPlan {
    /// cuDNN's plans.
    Cudnn {
        /// Runs the first micro-batch, and all others if `adding` is `None`.
        first: ExecutionPlan,
        /// Runs all later micro-batches, if these must add to the result.
        adding: Option<ExecutionPlan>,
        /// The copies, if the engine runs on copies of the tensors.
        conversion: Option<Conversion>,
    },
    /// Our engine's plan.
    Ours(Box<dyn engines::Plan>),
}

/// The plan of one micro-batch.
#[derive(Clone, Copy)]
pub enum Runs<'a> {
    /// cuDNN's plan.
    Cudnn(&'a ExecutionPlan),
    /// Our engine's plan.
    Ours(&'a dyn engines::Plan),
}

impl MicroPlan {
    /// Makes the plans of a part on an engine. `Err` if the engine cannot compute it.
    pub fn new(of: &mut MicroBatch, engine: &EngineConfiguration) -> Result<Self, cudnnStatus_t> {
        match engine.route {
            Route::Ours if of.batch == of.problem.batch() => {
                return our_engine::plan(of.problem, engine).map(Self::Ours);
            }
            Route::Ours => return Err(CUDNN_STATUS_NOT_SUPPORTED),
            Route::OnCopies => {
                let conversion = Some(Conversion::new(&of.problem.with_batch(of.batch))?);
                let first = ExecutionPlan::new(&of.graph(true)?.graph, engine)?;
                return Ok(Self::Cudnn { first, adding: None, conversion });
            }
            Route::AsStored => {}
        }
        let problem = of.problem;
        let Graph { part, graph } = of.graph(false)?;
        let beta = problem.convolution().beta;
        let plan = |wanted: Factor| match wanted == beta {
            true => ExecutionPlan::new(graph, engine),
            false => {
                let graph = OperationGraph::new(&part.with_beta(wanted), graph.target())?;
                ExecutionPlan::new(&graph, engine)
            }
        };
        let adds_up = part.batch() < problem.batch() && problem.adds_up();
        if adds_up && summed_filter(problem).is_some() {
            // The filter's old content is added once, to the final sum.
            return Ok(Self::Cudnn { first: plan(Factor::ZERO)?, adding: None, conversion: None });
        }
        let adding = (adds_up && beta != Factor::ONE).then(|| plan(Factor::ONE)).transpose()?;
        Ok(Self::Cudnn { first: plan(beta)?, adding, conversion: None })
    }

    /// The bytes of workspace of a micro-batch, as a part of `problem`'s mini-batch or as all of it; sums included.
    pub fn workspace(&self, problem: &Problem, batch: usize) -> usize {
        let own = match self {
            Self::Cudnn { first, adding, conversion } => {
                let engine = first.workspace().max(adding.as_ref().map_or(0, ExecutionPlan::workspace));
                conversion.as_ref().map_or(0, Conversion::bytes) + engine
            }
            Self::Ours(ours) => ours.workspace(),
        };
        match summed_filter(problem) {
            Some(filter) if batch < problem.batch() => filter.workspace(own),
            _ => own,
        }
    }

    /// Returns the plan of a micro-batch with `index` others before it.
    pub fn number(&self, index: usize) -> Runs<'_> {
        match self {
            Self::Cudnn { first, adding, .. } => Runs::Cudnn(adding.as_ref().filter(|_| index > 0).unwrap_or(first)),
            Self::Ours(ours) => Runs::Ours(&**ours),
        }
    }

    /// The copies that the engine runs on, if any.
    pub fn conversion(&self) -> Option<&Conversion> {
        match self {
            Self::Cudnn { conversion, .. } => conversion.as_ref(),
            Self::Ours(_) => None,
        }
    }
}

/// The filter, if its type is too small for partial sums.
pub fn summed_filter(problem: &Problem) -> Option<SummedFilter> {
    let filter = &problem.tensors[problem.convolution().w];
    let summed = SummedFilter { data_type: filter.data_type, values: filter.values() };
    problem.sums_in_reduced_precision().then_some(summed)
}
