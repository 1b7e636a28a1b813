//! The decision for calls of one problem by one algorithm within one limit: what is explored, and what runs meanwhile.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudnn_abi::*;
use parking_lot::Mutex;

use super::candidates;
use super::engine::Engines;
use super::plan::Plan;
use crate::graph::targets;
use crate::problem::{Algorithm, Class, Problem};
use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::Descriptors;
use guest::settings::{self, Numerics};
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};
use tuning::exploring::{Explored, Exploring, recall};
use tuning::record::{End, Record, Wanted};
use tuning::search::{Candidate, Goal, any_division, covers};

/// The properties of a call that decide how it runs: the requested algorithm, the bytes that it may use, whether cuDNN
/// accepts no other algorithm, and the batch sizes to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: c_int,
    pub limit: usize,
    pub only: bool,
    pub sizes: BatchSizePolicy,
    /// Whether engines may run: not for fused calls, nor for calls that must divide.
    pub takes_engines: bool,
}

/// A decision. Executions explore it once a call has made it.
pub struct Decision {
    ask: Ask,
    /// The limits under which it is the same.
    covers: Range<usize>,
    problem: Problem,
    requested: Algorithm,
    class: Class,
    /// The candidates among cuDNN's algorithms.
    algorithms: Vec<Candidate<Algorithm>>,
    /// The engines, while they may still run.
    engines: Mutex<Engines>,
    /// The plan that runs until one is found, if the requested algorithm does not fit or a better one is known.
    pub meanwhile: Option<Arc<Plan>>,
    pub exploring: Exploring<Problem, Plan>,
    /// Set once a plan has failed: from then on cuDNN runs undivided.
    pub is_broken: AtomicBool,
}

impl Decision {
    /// Makes the decision for calls that `ask`, from what cuDNN lists and from known times. If an algorithm is requested
    /// that cuDNN does not list, or nothing is to be explored, it is settled.
    ///
    /// # Safety
    /// The caller promises that the handle and the descriptors are the program's, and that they are the problem's.
    pub unsafe fn new(
        handle: cudnnHandle_t,
        descriptors: &Descriptors,
        problem: &Problem,
        ask: Ask,
        measured: &[MicroConfiguration<Algorithm>],
    ) -> Arc<Self> {
        // SAFETY: `explored` requires only what our caller promised.
        match unsafe { Self::explored(handle, descriptors, problem, ask, measured) } {
            Some(decision) => Arc::new(decision),
            None => Arc::new(Self::settled(problem, ask)),
        }
    }

    /// # Safety
    /// The caller promises the same as for [`Self::new`].
    unsafe fn explored(
        handle: cudnnHandle_t,
        descriptors: &Descriptors,
        problem: &Problem,
        ask: Ask,
        measured: &[MicroConfiguration<Algorithm>],
    ) -> Option<Self> {
        let Ask { id, limit, only, sizes, takes_engines } = ask;
        // SAFETY: cuDNN's Get function takes the call's handle and descriptors too.
        let listed = unsafe { descriptors.get_algorithms(handle) }.ok()?;
        let chosen = Descriptors::of_algorithm(&listed, id, problem.math_type)?;
        let chosen = AlgoPerf { mathType: problem.math_type, ..chosen };
        let numerics = settings::get().numerics;
        let class = Class { only: only.then_some(id), engines: takes_engines, ..Class::of(&chosen, numerics) };
        let sizes_to_try = candidates::sizes(problem, sizes, cudnn::device());
        // SAFETY: the handle is the program's, from this call.
        let mut algorithms = unsafe { candidates::candidates(handle, problem, &listed, class, &sizes_to_try) };
        let requested = Algorithm::of(problem.direction, &chosen);
        algorithms.sort_by_key(|candidate| candidate.algorithm != requested);
        if class.engines {
            targets::learn(handle);
        }
        // Below the limit a plan may not fit, and above the next candidate's workspace another may be better.
        let covers = limit..covers(&algorithms, limit).end;
        let mut decision = Self { covers, requested, class, algorithms, ..Self::settled(problem, ask) };
        decision.exploring = Exploring::default();
        if recall(&decision, measured) {
            return Some(decision);
        }
        decision.meanwhile = decision.find_meanwhile(measured);
        if numerics == Numerics::Deterministic {
            // Exploration changes the parts, and thereby the sums, from call to call.
            decision.exploring.settle(decision.meanwhile.clone());
        }
        Some(decision)
    }

    /// The decision to run as requested.
    fn settled(problem: &Problem, ask: Ask) -> Self {
        let requested = Algorithm {
            direction: problem.direction,
            id: ask.id,
            math_type: problem.math_type,
            deterministic: false,
            engine: None,
        };
        let decision = Self {
            ask,
            covers: 0..usize::MAX,
            problem: *problem,
            requested,
            class: Class { deterministic: false, math_type: None, only: Some(ask.id), engines: false },
            algorithms: Vec::new(),
            engines: Mutex::default(),
            meanwhile: None,
            exploring: Exploring::default(),
            is_broken: AtomicBool::new(false),
        };
        decision.exploring.settle(None);
        decision
    }

    /// Returns the best plan by known times, or some division if the requested algorithm does not fit.
    fn find_meanwhile(&self, measured: &[MicroConfiguration<Algorithm>]) -> Option<Arc<Plan>> {
        let (problem, limit, device) = (&self.problem, self.ask.limit, cudnn::device());
        let goal = Goal::Fastest { limit };
        let wanted = Wanted::among(self.algorithms.clone(), goal, self.ask.sizes, self.class);
        let search = Record::of(problem, device, device.ordinal()).search(&wanted, measured, &[End::Explored]);
        let fitting: Vec<_> =
            self.algorithms.iter().filter(|candidate| candidate.workspace <= limit).copied().collect();
        let fits = fitting.iter().any(|c| c.batch == problem.batch() && c.algorithm == self.requested);
        let untimed = if fits { None } else { any_division(problem.batch(), &fitting) };
        let best = search.best().map(|(best, _)| best).or(untimed)?;
        Plan::new(problem, best).ok().map(Arc::new)
    }

    /// Returns whether it decides for a call.
    pub fn covers(&self, ask: Ask) -> bool {
        self.covers.contains(&ask.limit) && Ask { limit: ask.limit, ..self.ask } == ask
    }

    /// The requested algorithm.
    pub fn requested_algorithm(&self) -> Algorithm {
        self.requested
    }

    /// Returns whether a plan is the requested algorithm, undivided.
    pub fn is_requested(&self, plan: &Plan) -> bool {
        let configuration = plan.configuration();
        configuration.is_undivided() && configuration.parts()[0].1.algorithm == self.requested
    }
}

impl Explored for Decision {
    type Subject = Problem;
    type Plan = Plan;

    fn subject(&self) -> &Problem {
        &self.problem
    }

    fn limit(&self) -> usize {
        self.ask.limit
    }

    fn exploring(&self) -> &Exploring<Problem, Plan> {
        &self.exploring
    }

    fn wanted(&self) -> Wanted<Problem> {
        Wanted::of_all(Goal::Fastest { limit: self.ask.limit }, self.ask.sizes, self.class)
    }

    /// cuDNN's algorithms have the workspace that cuDNN names now. An engine checks its own when it is finalized.
    fn recalled(&self, known: Candidate<Algorithm>) -> Option<Candidate<Algorithm>> {
        if known.algorithm.engine.is_none() {
            return self
                .algorithms
                .iter()
                .find(|it| (it.batch, it.algorithm) == (known.batch, known.algorithm))
                .copied();
        }
        let sizes = candidates::sizes(&self.problem, self.ask.sizes, cudnn::device());
        (sizes.contains(&known.batch) && self.class.admits_algorithm(&known.algorithm)).then_some(known)
    }

    fn requested(&self) -> Option<Algorithm> {
        Some(self.requested)
    }

    /// The requested algorithm comes first, then the engines, then cuDNN's other algorithms.
    fn enumerate(&self) -> Vec<Candidate<Algorithm>> {
        let engines = Engines::enumerate(&self.problem, self.class, self.ask.sizes, self.ask.limit);
        let (mut all, others): (Vec<_>, Vec<_>) =
            self.algorithms.iter().partition(|candidate| candidate.algorithm == self.requested);
        all.extend(&engines.candidates);
        all.extend(others);
        *self.engines.lock() = engines;
        all
    }

    fn plan(&self, configuration: Configuration<Algorithm>) -> Option<Plan> {
        let plan = Plan::new(&self.problem, configuration).ok()?;
        (plan.workspace() <= self.ask.limit).then_some(plan)
    }

    fn of_plan(plan: &Plan) -> (&Configuration<Algorithm>, usize) {
        (plan.configuration(), plan.workspace())
    }

    fn ordinal(&self) -> Option<i32> {
        None
    }

    fn forget_candidates(&self) {
        let unused = std::mem::take(&mut *self.engines.lock());
        // Unloading code may wait for the device.
        gpu::background::spawn(cudnn::device(), move || drop(unused), "engines that are not used any more stay loaded");
    }
}
