//! The decision for calls of one problem by one algorithm within one limit: what is explored, and what runs meanwhile.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::candidates;
use super::engine::Engines;
use super::plan::Plan;
use super::rounding;
use cudnn_abi::CUDNN_FMA_MATH;

use crate::plans::graph::targets;
use crate::problem::algorithm::{Plain, Winograd};
use crate::problem::{Algorithm, Class, Problem};
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::Descriptors;
use cudnn::handle::Handle;
use guest::settings;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};
use tuning::exploring::{Explored, Exploring, recall};
use tuning::record::{End, Record, Wanted};
use tuning::search::{Candidate, Goal, any_division, covers};

/// The properties of a call that decide how it runs: the requested algorithm, the bytes that it may use, whether cuDNN
/// accepts no other algorithm, and the batch sizes to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: c_int,
    /// The algorithm that the program would request if it fitted a limit of the user's, if a promise names it.
    pub preferred: Option<c_int>,
    pub limit: usize,
    pub only: bool,
    pub sizes: BatchSizePolicy,
    /// Whether engines may run: not for fused calls, nor for calls that must divide.
    pub takes_engines: bool,
    /// Whether the program asks for determinism: then nothing that was timed while a program ran decides.
    pub is_determined: bool,
}

/// A decision. Executions explore it once a call has made it.
pub struct Decision {
    ask: Ask,
    /// The limits under which it is the same.
    covers: Range<usize>,
    problem: Problem,
    requested: Algorithm,
    /// cuDNN's entry for the preferred algorithm, or else for the requested one, under the math type of the call.
    preferred: AlgoPerf,
    /// Whether that one rounds floats as far as its math type lets it, once that is known.
    rounds: OnceCell<bool>,
    /// What may run if it does not round floats, and if it does.
    may_run: [MayRun; 2],
    /// The engines, while they may still run.
    engines: Mutex<Engines>,
    /// The plan that runs until one is found, if the requested algorithm does not fit or a better one is known.
    pub meanwhile: Option<Arc<Plan>>,
    pub exploring: Exploring<Problem, Plan>,
    /// Set once a plan has failed: from then on cuDNN runs undivided.
    pub is_broken: AtomicBool,
}

/// What may run in place of the requested algorithm.
#[derive(Clone)]
struct MayRun {
    class: Class,
    /// The candidates among cuDNN's algorithms.
    algorithms: Vec<Candidate<Algorithm>>,
}

impl Decision {
    /// Makes the decision for calls that `ask`, from what cuDNN lists and from known times. If an algorithm is requested
    /// that cuDNN does not list, or nothing is to be explored, it is settled. The descriptors are the problem's.
    pub fn new(
        handle: Handle,
        descriptors: &Descriptors,
        problem: &Problem,
        ask: Ask,
        measured: &[MicroConfiguration<Algorithm>],
    ) -> Arc<Self> {
        match Self::explored(handle, descriptors, problem, ask, measured) {
            Some(decision) => Arc::new(decision),
            None => Arc::new(Self::settled(problem, ask)),
        }
    }

    fn explored(
        handle: Handle,
        descriptors: &Descriptors,
        problem: &Problem,
        ask: Ask,
        measured: &[MicroConfiguration<Algorithm>],
    ) -> Option<Self> {
        let Ask { id, preferred, limit, only, sizes, takes_engines, is_determined } = ask;
        let listed = descriptors.get_algorithms(handle).ok()?;
        let entry = |id| {
            let entry = Descriptors::of_algorithm(&listed, id, problem.math_type)?;
            Some(AlgoPerf { mathType: problem.math_type, ..entry })
        };
        let chosen = entry(id)?;
        // cuDNN may have listed it by times.
        let preferred = preferred.filter(|_| !is_determined).and_then(entry).unwrap_or(chosen);
        let requested = Algorithm::of(problem.direction, &chosen);
        let sizes_to_try = candidates::sizes(problem, sizes, cudnn::device());
        let may_run = |rounds: bool| {
            let class_of = |algorithm| Class::of(&Plain::new(problem, algorithm, rounds), settings::get().numerics);
            let (class, preferred) = (class_of(&chosen), class_of(&preferred));
            let (deterministic, winograd) =
                (class.deterministic || is_determined, class.winograd.max(preferred.winograd));
            let class = Class { deterministic, winograd, only: only.then_some(id), engines: takes_engines, ..class };
            let of = |listed: &[AlgoPerf], class| candidates::candidates(handle, problem, listed, class, &sizes_to_try);
            // The requested algorithm is a candidate whatever its math type allows.
            let own = of(&[chosen], class.alone(&chosen));
            let listed = rounding::listed(handle, problem, &listed, class.math_type);
            let others = of(&listed, class).into_iter();
            if !parts_may_round(&class, &requested) {
                let others = others.filter(|it| it.algorithm != requested && (it.algorithm.id != id || rounds));
                return MayRun { class, algorithms: own.into_iter().chain(others).collect() };
            }
            let is_whole = |it: &Candidate<Algorithm>| it.batch == problem.batch();
            let (mut algorithms, parts): (Vec<_>, Vec<_>) = own.into_iter().partition(is_whole);
            algorithms.extend(others.filter(|it| it.algorithm.id != id || !is_whole(it)));
            let fits = |it: &&Candidate<Algorithm>| it.workspace <= limit;
            let fitting: Vec<_> = algorithms.iter().filter(fits).copied().collect();
            if any_division(problem.batch(), &fitting).is_none() {
                algorithms.extend(parts); // the call must run
            }
            MayRun { class, algorithms }
        };
        if takes_engines && !is_determined {
            targets::learn(handle.raw());
        }
        let known = if is_determined { Some(true) } else { rounding::known(problem, &preferred).map(|it| it.rounds()) };
        let may_run = match known {
            Some(rounds) => [may_run(rounds), may_run(rounds)],
            None => [may_run(false), may_run(true)],
        };
        // Below the limit a plan may not fit, and above the next candidate's workspace another may be better.
        let next = may_run.iter().map(|may| covers(&may.algorithms, limit).end).min()?;
        let mut decision = Self { covers: limit..next, requested, preferred, may_run, ..Self::settled(problem, ask) };
        decision.rounds = known.map_or_else(OnceCell::new, OnceCell::with_value);
        decision.exploring = Exploring::default();
        if is_determined {
            decision.meanwhile =
                decision.find_untimed().and_then(|untimed| Plan::new(problem, untimed).ok()).map(Arc::new);
            decision.exploring.settle(decision.meanwhile.clone());
            return Some(decision);
        }
        if known.is_some() && recall(&decision, measured) {
            return Some(decision);
        }
        decision.meanwhile = decision.find_meanwhile(measured);
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
        let only = Some(ask.id);
        let class = Class { deterministic: false, math_type: None, winograd: Winograd::All, only, engines: false };
        let nothing = MayRun { class, algorithms: Vec::new() };
        let decision = Self {
            ask,
            covers: 0..usize::MAX,
            problem: *problem,
            requested,
            preferred: AlgoPerf::default(),
            rounds: OnceCell::with_value(true),
            may_run: [nothing.clone(), nothing],
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
        let MayRun { class, algorithms } = self.may_run();
        let wanted = Wanted::among(algorithms.clone(), goal, self.ask.sizes, *class);
        let search = Record::of(problem, device, device.ordinal()).search(&wanted, measured, &[End::Explored]);
        let best = search.best().map(|(best, _)| best).or_else(|| self.find_untimed())?;
        Plan::new(problem, best).ok().map(Arc::new)
    }

    /// Returns some division if the requested algorithm does not fit. It follows from the order of cuDNN's list alone.
    fn find_untimed(&self) -> Option<Configuration<Algorithm>> {
        let (batch, limit) = (self.problem.batch(), self.ask.limit);
        let fitting: Vec<_> = self.may_run().algorithms.iter().filter(|it| it.workspace <= limit).copied().collect();
        let fits = fitting.iter().any(|it| it.batch == batch && it.algorithm == self.requested);
        if fits { None } else { any_division(batch, &fitting) }
    }

    /// Returns what may run in place of the requested algorithm. As long as it is not known whether the preferred one
    /// rounds, nothing may that does.
    fn may_run(&self) -> &MayRun {
        &self.may_run[usize::from(self.rounds.get().copied().unwrap_or(false))]
    }

    /// Returns whether it decides for a call.
    pub fn covers(&self, ask: Ask) -> bool {
        self.covers.contains(&ask.limit) && Ask { limit: ask.limit, ..self.ask } == ask
    }

    /// Returns whether a part of the mini-batch may run by the requested algorithm.
    pub fn divides_requested(&self) -> bool {
        !parts_may_round(&self.may_run().class, &self.requested)
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

/// Returns whether parts of the requested algorithm may round more than a class allows, although all images do not: cuDNN
/// chooses kernels by the number of images, too.
fn parts_may_round(class: &Class, requested: &Algorithm) -> bool {
    class.math_type == Some(CUDNN_FMA_MATH) && requested.math_type != CUDNN_FMA_MATH
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
        Wanted::of_all(Goal::Fastest { limit: self.ask.limit }, self.ask.sizes, self.may_run().class)
    }

    fn prepare(&self) {
        self.rounds.get_or_init(|| rounding::find(&self.problem, &self.preferred).rounds());
    }

    /// cuDNN's algorithms have the workspace that cuDNN names now. An engine checks its own when it is finalized.
    fn recalled(&self, known: Candidate<Algorithm>) -> Option<Candidate<Algorithm>> {
        if known.algorithm.engine.is_none() {
            return self
                .may_run()
                .algorithms
                .iter()
                .find(|it| (it.batch, it.algorithm) == (known.batch, known.algorithm))
                .copied();
        }
        let sizes = candidates::sizes(&self.problem, self.ask.sizes, cudnn::device());
        (sizes.contains(&known.batch) && self.may_run().class.admits_algorithm(&known.algorithm)).then_some(known)
    }

    fn requested(&self) -> Option<Algorithm> {
        Some(self.requested)
    }

    /// The requested algorithm comes first, then the engines, then cuDNN's other algorithms.
    fn enumerate(&self) -> Vec<Candidate<Algorithm>> {
        let MayRun { class, algorithms } = self.may_run();
        let engines = Engines::enumerate(&self.problem, *class, self.ask.sizes, self.ask.limit);
        let (mut all, others): (Vec<_>, Vec<_>) =
            algorithms.iter().partition(|candidate| candidate.algorithm == self.requested);
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
