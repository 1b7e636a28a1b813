//! Engines of the graph API for problems of the legacy API: cuDNN's, on the tensors or on copies of them, and our own.

use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use crate::exec::scaling_type;
use crate::plans::graph::enumerate;
use crate::plans::graph::operands::Operands as GraphOperands;
use crate::plans::graph::our_candidates;
use crate::plans::graph::plan::Plan;
use crate::plans::graph::probe::{self, Probe};
use crate::plans::graph::targets;
use crate::problem::graph::{self, EngineConfiguration, Factor};
use crate::problem::{Algorithm, Class, Problem};
use cudnn::calls;
use cudnn::convolution::{Operands, Workspace};
use gpu::Device;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration, WorkspaceBudget};
use tuning::search::Candidate;

/// What engines ask of addresses, in bytes.
const ALIGNMENT: usize = 16;

/// The engines found for a problem. While it lives, their code stays loaded.
#[derive(Default)]
pub struct Engines {
    /// In the order in which to try them.
    pub candidates: Vec<Candidate<Algorithm>>,
    _plans: probe::Candidates,
}

impl Engines {
    /// Enumerates the engines that a class admits within `limit` bytes of workspace on the calling thread's device. Takes
    /// up to seconds, so it runs in the background. None if the device's properties are not known yet; see
    /// [`targets::learn`].
    pub fn enumerate(problem: &Problem, class: Class, sizes: BatchSizePolicy, limit: usize) -> Self {
        Self::found(problem, class, limit, |probe, found| {
            enumerate::collect(probe, has_gpu(), None, &probe::sizes(probe.problem, sizes), found);
        })
    }

    /// Enumerates our own engines alone. That takes milliseconds, so that a program can wait for it: cuDNN's heuristics
    /// are not asked.
    pub fn ours(problem: &Problem, class: Class, limit: usize) -> Self {
        Self::found(problem, class, limit, |probe, found| {
            if has_gpu() {
                our_candidates::finalize_all(found, probe, limit);
            }
        })
    }

    fn found(
        problem: &Problem,
        class: Class,
        limit: usize,
        collect: impl FnOnce(&Probe, &mut probe::Candidates),
    ) -> Self {
        let Some(target) = targets::here().filter(|_| class.engines) else { return Self::default() };
        let graph = Arc::new(graph::Problem::of_convolution(problem));
        let class_of_graph = class.of_engines(problem);
        // Parts of a legacy call take the call's workspace alone: its search knows no other.
        let budget = WorkspaceBudget { limit, per_image: 0 };
        let probe = Probe {
            problem: &graph,
            class: class_of_graph,
            target: &target,
            budget,
            for_cuda_graphs: false,
            requested: None,
        };
        let mut found = probe::Candidates::default();
        collect(&probe, &mut found);
        let candidate = |it: Candidate<EngineConfiguration>| {
            let algorithm = Algorithm::of_engine(problem, it.algorithm);
            let candidate = Candidate { batch: it.batch, algorithm, workspace: it.workspace };
            class.admits_algorithm(&algorithm).then_some(candidate)
        };
        Self { candidates: found.best_first().into_iter().filter_map(candidate).collect(), _plans: found }
    }
}

/// Returns whether our own kernels may win: on the host they are emulated, for tests of the graph API.
fn has_gpu() -> bool {
    cudnn::device() == Device::Cuda
}

/// An engine that runs a problem undivided.
pub struct Engine {
    problem: Problem,
    engine: EngineConfiguration,
    /// Bytes of workspace.
    workspace: usize,
    /// A plan for each pair of scaling factors that calls had.
    plans: Mutex<Vec<([Factor; 2], Arc<Plan>)>>,
}

impl Engine {
    /// Finalizes the engine for result = convolution. `Err` if it does not run the problem within `workspace` bytes.
    pub fn new(problem: &Problem, engine: EngineConfiguration, workspace: usize) -> Result<Self, cudnnStatus_t> {
        let made = Self { problem: *problem, engine, workspace, plans: Mutex::default() };
        made.plan([Factor::ONE, Factor::ZERO])?;
        Ok(made)
    }

    /// Returns the plan for alpha and beta; finalizes it at the first call with them.
    fn plan(&self, factors: [Factor; 2]) -> Result<Arc<Plan>, cudnnStatus_t> {
        if let Some((_, plan)) = self.plans.lock().iter().find(|(known, _)| *known == factors) {
            return Ok(plan.clone());
        }
        let target = targets::here().ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
        let graph = Arc::new(graph::Problem::of_convolution(&self.problem).with_factors(factors));
        let whole = MicroConfiguration {
            batch: self.problem.batch(),
            algorithm: self.engine,
            time: 0.0,
            workspace: self.workspace,
        };
        let plan = Plan::new(&graph, Configuration::undivided(whole), &target, self.workspace, |_, _| None)?;
        let plan = Arc::new(plan);
        self.plans.lock().push((factors, plan.clone()));
        Ok(plan)
    }

    /// Runs it on the handle's stream. [`CUDNN_STATUS_BAD_PARAM`] if this call's arguments are none for engines: fused
    /// calls, addresses that are not aligned to 16 bytes, results that overlap other tensors, and captured calls with
    /// scaling factors that no call had before.
    ///
    /// # Safety
    /// The caller promises the operands of a call of the problem, and `workspace.size` bytes of device memory.
    pub unsafe fn convolve(&self, handle: cudnnHandle_t, operands: &Operands, workspace: Workspace) -> cudnnStatus_t {
        const NOT_FOR_ENGINES: cudnnStatus_t = CUDNN_STATUS_BAD_PARAM;
        let pointers = [operands.x, operands.w, operands.y];
        let is_aligned = pointers.iter().all(|pointer| pointer.addr().is_multiple_of(ALIGNMENT));
        if operands.epilogue.is_some() || !is_aligned || workspace.size < self.workspace {
            return NOT_FOR_ENGINES;
        }
        let scaling = scaling_type(&self.problem);
        // SAFETY: the caller promises a call's operands: its factors are null or of the problem's scaling type.
        let factors = unsafe { [scaling.read(operands.alpha), scaling.read(operands.beta)] }.map(Factor::new);
        let is_known = self.plans.lock().iter().any(|(known, _)| *known == factors);
        if !is_known {
            // SAFETY: the handle is the program's, from this call.
            let stream = unsafe { calls::stream_of(handle) };
            if stream.is_none_or(|stream| cudnn::device().is_capturing(stream)) {
                return NOT_FOR_ENGINES;
            }
        }
        let Ok(plan) = self.plan(factors) else { return NOT_FOR_ENGINES };
        let operands = GraphOperands::new(&pointers, workspace.data);
        if operands.overlap(plan.problem()) {
            return NOT_FOR_ENGINES;
        }
        // SAFETY: the caller promises the tensors of the problem, and the plan needs no more than the workspace.
        match unsafe { plan.run(handle, &operands, |_, _| ()) } {
            Ok(()) => CUDNN_STATUS_SUCCESS,
            Err(failure) => failure.status,
        }
    }
}
