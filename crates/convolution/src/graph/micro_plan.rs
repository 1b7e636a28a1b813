//! Execution plans of one micro-batch size on one engine.

use cudnn_abi::*;

use super::conversion::Conversion;
use super::our_engine::OurPlan;
use crate::exec::SummedFilter;
use crate::problem::graph::{EngineConfiguration, ExecutionPlan, Factor, Kernel, OperationGraph, Route};
use cudnn::graph::Target;

/// A part of a kernel and its operation graph.
struct Graph {
    part: Kernel,
    graph: OperationGraph,
}

impl Graph {
    fn new(part: Kernel, target: &Target) -> Result<Self, cudnnStatus_t> {
        let graph = OperationGraph::new(&part, target)?;
        Ok(Self { part, graph })
    }
}

/// A kernel's mini-batch cut to some images: what its plans are made of, each piece where it is needed first.
pub struct MicroBatch<'a> {
    kernel: &'a Kernel,
    batch: usize,
    target: &'a Target,
    as_given: Option<Graph>,
    channels_last: Option<Graph>,
}

impl<'a> MicroBatch<'a> {
    /// Of so many images.
    pub fn new(kernel: &'a Kernel, batch: usize, target: &'a Target) -> Self {
        Self { kernel, batch, target, as_given: None, channels_last: None }
    }

    /// How many.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// What cuDNN's heuristics propose in `mode`, in their order: for the tensors as they are stored, or for copies that
    /// have their channels last. `Err` where there is no such graph.
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

    /// What an engine that was offered for the tensors as they are stored is on copies that have their channels last: other
    /// things may be noted of it. `None` where it does not run so.
    pub fn on_copies(&mut self, engine: &EngineConfiguration) -> Option<EngineConfiguration> {
        let plan = ExecutionPlan::new(&self.graph(true).ok()?.graph, engine).ok()?;
        // SAFETY: a live plan of our own, which is finalized.
        let found = unsafe { EngineConfiguration::of_plan(plan.raw()) }.ok()?;
        Some(EngineConfiguration { route: Route::OnCopies, ..found })
    }

    /// Whether cuDNN takes the operation graph; `Err` is its status.
    pub fn check(&mut self) -> Result<(), cudnnStatus_t> {
        self.graph(false).map(|_| ())
    }

    fn graph(&mut self, channels_last: bool) -> Result<&Graph, cudnnStatus_t> {
        let Self { kernel, batch, target, .. } = *self;
        let made = if channels_last { &mut self.channels_last } else { &mut self.as_given };
        if made.is_none() {
            let part = kernel.with_batch(batch);
            let part = if channels_last { part.channels_last().ok_or(CUDNN_STATUS_NOT_SUPPORTED)? } else { part };
            *made = Some(Graph::new(part, target)?);
        }
        made.as_ref().ok_or(CUDNN_STATUS_INTERNAL_ERROR)
    }
}

/// Execution plans of one micro-batch size on one engine.
pub enum MicroPlan {
    /// Of cuDNN.
    Cudnn {
        /// As the program's own graph.
        first: ExecutionPlan,
        /// Where micro-batches add up in the result: what adds to it.
        adding: Option<ExecutionPlan>,
        /// Where the engine runs on copies of the tensors.
        conversion: Option<Conversion>,
    },
    /// Of ours.
    Ours(OurPlan),
}

/// What one micro-batch runs.
#[derive(Clone, Copy)]
pub enum Runs<'a> {
    /// cuDNN's plan.
    Cudnn(&'a ExecutionPlan),
    /// Our kernel.
    Ours(&'a OurPlan),
}

impl MicroPlan {
    /// Of a part on an engine. `Err` where the engine cannot compute that.
    pub fn new(of: &mut MicroBatch, engine: &EngineConfiguration) -> Result<Self, cudnnStatus_t> {
        match engine.route {
            Route::Ours if of.batch == of.kernel.batch() => {
                return OurPlan::new(of.kernel, engine).map(Self::Ours);
            }
            Route::Ours => return Err(CUDNN_STATUS_NOT_SUPPORTED),
            Route::OnCopies => {
                let conversion = Some(Conversion::new(&of.kernel.with_batch(of.batch))?);
                let first = ExecutionPlan::new(&of.graph(true)?.graph, engine)?;
                return Ok(Self::Cudnn { first, adding: None, conversion });
            }
            Route::AsStored => {}
        }
        let kernel = of.kernel;
        let Graph { part, graph } = of.graph(false)?;
        let beta = kernel.convolution().beta;
        let plan = |wanted: Factor| match wanted == beta {
            true => ExecutionPlan::new(graph, engine),
            false => {
                let graph = OperationGraph::new(&part.with_beta(wanted), graph.target())?;
                ExecutionPlan::new(&graph, engine)
            }
        };
        let adds_up = part.batch() < kernel.batch() && kernel.adds_up();
        if adds_up && summed_filter(kernel).is_some() {
            // What the filter held is added once, to the sum.
            return Ok(Self::Cudnn { first: plan(Factor::ZERO)?, adding: None, conversion: None });
        }
        let adding = (adds_up && beta != Factor::ONE).then(|| plan(Factor::ONE)).transpose()?;
        Ok(Self::Cudnn { first: plan(beta)?, adding, conversion: None })
    }

    /// Bytes of workspace that it takes as a part of `kernel`'s mini-batch, or as all of it; sums included.
    pub fn workspace(&self, kernel: &Kernel, batch: usize) -> usize {
        let own = match self {
            Self::Cudnn { first, adding, conversion } => {
                let engine = first.workspace().max(adding.as_ref().map_or(0, ExecutionPlan::workspace));
                conversion.as_ref().map_or(0, Conversion::bytes) + engine
            }
            Self::Ours(ours) => ours.workspace(),
        };
        match summed_filter(kernel) {
            Some(filter) if batch < kernel.batch() => filter.workspace(own),
            _ => own,
        }
    }

    /// What a micro-batch runs before which so many others have run.
    pub fn number(&self, index: usize) -> Runs<'_> {
        match self {
            Self::Cudnn { first, adding, .. } => Runs::Cudnn(adding.as_ref().filter(|_| index > 0).unwrap_or(first)),
            Self::Ours(ours) => Runs::Ours(ours),
        }
    }

    /// What is converted for the engine, if anything is.
    pub fn conversion(&self) -> Option<&Conversion> {
        match self {
            Self::Cudnn { conversion, .. } => conversion.as_ref(),
            Self::Ours(_) => None,
        }
    }
}

/// The filter, if partial sums in its type are too small.
pub fn summed_filter(kernel: &Kernel) -> Option<SummedFilter> {
    let filter = &kernel.tensors[kernel.convolution().w];
    let summed = SummedFilter { data_type: filter.data_type, values: filter.values() };
    kernel.sums_in_reduced_precision().then_some(summed)
}
