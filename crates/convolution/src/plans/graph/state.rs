//! The state of one problem in one numerical class under one limit. All of the program's plans for it share that state.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudnn_abi::*;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::enumerate;
use super::our_candidates;
use super::plan::Plan;
use super::probe::{self, Candidates, Probe};
use crate::problem::graph::{Class, EngineConfiguration, Factor, Problem};
use cudnn::graph::Target;
use gpu::background;
use guest::determinism;
use guest::settings::{self, Numerics};
use planner::{BatchSizePolicy, Configuration, MicroConfiguration, WorkspaceBudget};
use tuning::allowance;
use tuning::exploring::{Explored, Exploring};
use tuning::record::Wanted;
use tuning::registry::Registry;
use tuning::report;
use tuning::rounding;
use tuning::search::{Candidate, Goal, any_division};

/// The registry's key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub place: Place,
    pub problem: Arc<Problem>,
    pub class: Class,
    /// The most bytes of workspace, which is the workspace reported for the plans.
    pub limit: usize,
    pub sizes: BatchSizePolicy,
    /// Set if the program's engine can be put into CUDA graphs. Then the fallback should be one that can, too.
    pub for_cuda_graphs: bool,
}

/// The device that plans are for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// The device of this number.
    Device(i32),
    /// A device with the properties in this text.
    Described(Arc<str>),
}

/// The registry's entry for one key.
pub struct State {
    pub key: Key,
    pub target: Target,
    /// The fallback configuration, once it was needed. `None` if nothing runs within the limit.
    fallback: OnceCell<Option<Arc<Plan>>>,
    /// One of our engines, once it was looked for. It runs in place of the fallback until the exploration has ended.
    stand_in: OnceCell<Option<Arc<Plan>>>,
    /// What computes the problem as one product, once it was looked for: in the class of engines that do not round floats
    /// as their notes say, and in that of all others. It runs from the first execution on.
    at_once: [OnceCell<Option<Arc<Plan>>>; 2],
    /// An undivided configuration, once the fallback has failed.
    last_resort: OnceCell<Option<Arc<Plan>>>,
    /// Set once the settled plan or the stand-in has failed. From then on the fallback runs.
    pub is_broken: AtomicBool,
    /// The requested engine of the plan whose executions began to explore, and the bytes of workspace that it needs.
    pub requested: OnceCell<(EngineConfiguration, usize)>,
    /// Whether that engine rounds floats to TF32 as its notes say, once that was found out.
    rounds: OnceCell<bool>,
    /// The candidates found so far. Do not hold this lock across calls that may block.
    pub candidates: Mutex<Candidates>,
    pub exploring: Exploring<Problem, Plan>,
}

/// There is one entry for each key, so addresses tell entries apart.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for State {}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

/// A program whose shapes never repeat must not fill the memory: the registry forgets states that no plan of the program
/// holds.
static STATES: Registry<Key, State> = Registry::new(1 << 12, |_| false);

/// Returns the state of a key, a new one if there is none.
pub fn state(key: Key, target: &Target) -> Arc<State> {
    let make = || State {
        key: key.clone(),
        target: target.clone(),
        fallback: OnceCell::new(),
        stand_in: OnceCell::new(),
        at_once: Default::default(),
        last_resort: OnceCell::new(),
        is_broken: AtomicBool::new(false),
        requested: OnceCell::new(),
        rounds: OnceCell::new(),
        candidates: Mutex::default(),
        exploring: Exploring::default(),
    };
    STATES.state(&key, make)
}

impl Explored for State {
    type Subject = Problem;
    type Plan = Plan;

    fn subject(&self) -> &Problem {
        &self.key.problem
    }

    fn limit(&self) -> usize {
        self.key.limit
    }

    fn exploring(&self) -> &Exploring<Problem, Plan> {
        &self.exploring
    }

    /// The notes of an engine may name tensor cores although it does not round floats.
    fn is_prepared(&self) -> bool {
        self.in_doubt().is_none_or(|requested| {
            let known = || rounding::known(&plain(&self.key.problem), requested);
            self.rounds.get().is_some() || known().inspect(|rounds| _ = self.rounds.set(*rounds)).is_some()
        })
    }

    /// Runs the engine to find that out.
    fn prepare(&self) {
        if let Some(requested) = self.in_doubt() {
            // If that fails, no plan rounds more than an engine that does not.
            self.rounds.get_or_init(|| self.find_rounding(requested).unwrap_or(false));
        }
    }

    fn wanted(&self) -> Wanted<Problem> {
        Wanted::of_all(Goal::FastestWithin(self.probe().budget), self.key.sizes, self.class())
    }

    /// A plan is made of finalized engines, which have the workspaces that count.
    fn recalled(&self, known: Candidate<EngineConfiguration>) -> Option<Candidate<EngineConfiguration>> {
        let sizes = probe::sizes(&self.key.problem, self.key.sizes);
        (sizes.contains(&known.batch) && self.probe().admits(&known.algorithm, known.batch)).then_some(known)
    }

    fn requested(&self) -> Option<EngineConfiguration> {
        self.requested.get().map(|(requested, _)| *requested)
    }

    fn plain_workspace(&self) -> Option<usize> {
        self.requested.get().map(|(_, bytes)| *bytes)
    }

    fn enumerate(&self) -> Vec<Candidate<EngineConfiguration>> {
        let (problem, probe) = (&*self.key.problem, self.probe());
        let mut candidates = std::mem::take(&mut *self.candidates.lock());
        // Keep only the engines of the fallback, out of all that were probed for it. It may have been chosen before it was
        // known how plain's engine rounds.
        let fallback = self.known_fallback().map(|fallback| fallback.configuration().parts()).unwrap_or_default();
        let is_of_fallback =
            |engine: &EngineConfiguration| fallback.iter().any(|(_, micro)| micro.algorithm == *engine);
        candidates.retain(|engine, size| is_of_fallback(engine) && probe.admits(engine, size));
        let (requested, needed) = self.requested.get().copied().unzip();
        let fits = needed.is_some_and(|needed| needed <= self.key.limit);
        let is_here = matches!(self.key.place, Place::Device(_));
        let sizes = probe::sizes(problem, self.key.sizes);
        enumerate::collect(&probe, is_here, requested.as_ref(), &sizes, &mut candidates);
        let mut found = candidates.best_first();
        let is_requested = |it: &Candidate<_>| Some(it.algorithm) == requested && it.batch == problem.batch();
        found.sort_by_key(|candidate| !is_requested(candidate));
        let budget = probe.budget;
        let fits_budget = |it: &Candidate<_>| it.workspace <= budget.before(problem.batch() - it.batch);
        found.retain(|candidate| fits || fits_budget(candidate));
        *self.candidates.lock() = candidates;
        found
    }

    fn plan(&self, configuration: Configuration<EngineConfiguration>) -> Option<Plan> {
        let finalized = self.candidates.lock().plans(&configuration);
        let plan = Plan::new(&self.key.problem, configuration, &self.target, self.key.limit, finalized).ok()?;
        (plan.workspace() <= self.key.limit).then_some(plan)
    }

    fn of_plan(plan: &Plan) -> (&Configuration<EngineConfiguration>, usize) {
        (plan.configuration(), plan.workspace())
    }

    fn ordinal(&self) -> Option<i32> {
        match self.key.place {
            Place::Device(ordinal) => Some(ordinal),
            Place::Described(_) => None,
        }
    }

    fn forget_candidates(&self) {
        let unused = std::mem::take(&mut *self.candidates.lock());
        // Unloading code may wait for the device.
        background::spawn(
            cudnn::device(),
            move || drop(unused),
            "plans that are not used any more are gone all the same",
        );
    }
}

/// The convolution alone, by which engines are known to round or not.
fn plain(problem: &Problem) -> Problem {
    problem.with_factors([Factor::ONE, Factor::ZERO])
}

/// Returns whether an engine rounds the floats of a single convolution to TF32.
fn rounds(problem: &Problem, engine: &EngineConfiguration, target: &Target) -> Result<bool, String> {
    rounding::rounds(&plain(problem), engine, |image, _| {
        let (image, budget) = (Arc::new(image.clone()), WorkspaceBudget { limit: usize::MAX, per_image: 0 });
        let class = Class::of(engine, image.data_type(), Numerics::Any, false);
        let probe = Probe { problem: &image, class, target, budget, for_cuda_graphs: false, requested: None };
        Candidates::default().workspace(&probe, image.batch(), engine)
    })
}

impl State {
    /// The class, as far as it is known: without tensor cores, if the requested engine turned out not to round floats.
    fn class(&self) -> Class {
        match (self.rounds.get(), self.requested.get()) {
            (Some(false), Some((requested, _))) => self.class_of(requested, false),
            _ => self.key.class,
        }
    }

    /// The class of an engine that rounds floats as its notes say, or does not.
    fn class_of(&self, engine: &EngineConfiguration, rounds: bool) -> Class {
        if rounds {
            return self.key.class;
        }
        let exact = engine.without_tensor_cores();
        Class::of(&exact, self.key.problem.data_type(), settings::get().numerics, self.key.class.keeps_nan())
    }

    /// Returns whether the notes alone do not tell how an engine rounds: it multiplies single convolutions of floats on
    /// tensor cores, by its notes. Notes are all that counts where the program wants what it allows.
    pub fn may_round(&self, engine: &EngineConfiguration) -> bool {
        matches!(settings::get().numerics, Numerics::Match | Numerics::Deterministic)
            && engine.has_tensor_cores()
            && self.key.problem.data_type() == CUDNN_DATA_FLOAT
            && self.key.problem.operations.len() == 1
    }

    /// The requested engine, if its notes alone do not tell how it rounds.
    fn in_doubt(&self) -> Option<&EngineConfiguration> {
        self.requested.get().map(|(requested, _)| requested).filter(|requested| self.may_round(requested))
    }

    /// Returns whether what is found for the plan that explores holds for a plan of another engine. If the notes alone
    /// do not tell, the other may round less.
    pub fn holds_for(&self, engine: &EngineConfiguration) -> bool {
        let alike = |(requested, _): &(EngineConfiguration, usize)| requested.engine == engine.engine;
        !self.may_round(engine) || self.requested.get().is_none_or(alike)
    }

    /// Returns the parameters for probing cuDNN.
    pub fn probe(&self) -> Probe<'_> {
        let Key { problem, limit, .. } = &self.key;
        let budget = WorkspaceBudget { limit: *limit, per_image: problem.unwritten_per_image() };
        let requested = self.requested.get().map(|(requested, _)| *requested);
        Probe { problem, class: self.class(), target: &self.target, budget, for_cuda_graphs: false, requested }
    }

    /// Returns the fallback configuration. It is chosen without timing, in the heuristics' order, the largest
    /// micro-batches first. The first caller chooses it while others wait. `None` if nothing runs within the limit.
    pub fn fallback(&self) -> Option<Arc<Plan>> {
        self.fallback.get_or_init(|| self.find_ready()).clone()
    }

    /// Returns the fallback configuration if it was needed before.
    pub fn known_fallback(&self) -> Option<&Arc<Plan>> {
        self.fallback.get()?.as_ref()
    }

    /// Looks for a stand-in: one of our engines on tensor cores, undivided, that fits the limit. It runs in place of the
    /// fallback until the exploration has ended. A fallback on tensor cores in large parts needs none. The first caller
    /// compiles the engine's code.
    ///
    /// Without tensor cores, a filter's gradient of ResNet-50 took 12 to 26 ms on an H100, and 0.1 to 0.5 ms by ours.
    pub fn prepare_stand_in(&self) {
        self.stand_in.get_or_init(|| self.find_stand_in());
    }

    /// Returns the stand-in, if one was looked for and found.
    pub fn stand_in(&self) -> Option<&Arc<Plan>> {
        self.stand_in.get()?.as_ref()
    }

    /// Returns the plan that computes the problem as one product, for the plans of `requested`, which needs `bytes` of
    /// workspace. `None` if there is no such product. No time decides on it. Where the notes of `requested` do not tell
    /// how it rounds, it runs first to find that out, if it `may_run` and exploring may cost the time. So a program that asks
    /// for determinism gets no product then.
    pub fn at_once(
        &self,
        requested: &EngineConfiguration,
        bytes: usize,
        may_run: impl FnOnce() -> bool,
    ) -> Option<Arc<Plan>> {
        if self.key.place != Place::Device(cudnn::device().ordinal()) {
            return None;
        }
        let rounds = match self.may_round(requested) {
            true if determinism::is_asked() => return None,
            true => self.rounds_at_once(requested, may_run)?,
            false => true,
        };
        let find = || self.find_at_once(self.class_of(requested, rounds), bytes);
        self.at_once[usize::from(rounds)].get_or_init(find).clone()
    }

    /// Returns whether an engine rounds floats as its notes say, if that decides on a product.
    fn rounds_at_once(&self, requested: &EngineConfiguration, may_run: impl FnOnce() -> bool) -> Option<bool> {
        let is_product = |rounds| {
            let class = self.class_of(requested, rounds);
            our_candidates::at_once(&Probe { class, ..self.probe() }).is_some()
        };
        if ![false, true].into_iter().any(is_product) {
            return None;
        }
        rounding::known(&plain(&self.key.problem), requested).or_else(|| {
            // The program waits for it.
            let allowance = allowance::of_process();
            let may_run = allowance.explores() && allowance.permits(0.0) && may_run();
            if may_run { allowance.timed(|| self.find_rounding(requested)) } else { None }
        })
    }

    /// Runs an engine to find out whether it rounds floats as its notes say. `None` if that cannot be found out.
    fn find_rounding(&self, engine: &EngineConfiguration) -> Option<bool> {
        // In this scope, calls do not disturb captures of other threads.
        let device = cudnn::device();
        let _entered = device.enter(device.ordinal());
        let rounds = rounds(&self.key.problem, engine, &self.target);
        rounds.inspect_err(|why| log::debug!("{}: {why}", self.key.problem)).ok()
    }

    /// Returns a configuration that runs undivided within the limit, for use after a failed fallback, if there is one.
    pub fn last_resort(&self) -> Option<&Arc<Plan>> {
        let find = || {
            let (problem, probe) = (&self.key.problem, self.probe());
            let division = find_division(&probe, &[problem.batch()], &mut Candidates::default())?;
            Plan::new(problem, division, &self.target, probe.budget.limit, |_, _| None).ok().map(Arc::new)
        };
        self.last_resort.get_or_init(find).as_ref()
    }

    fn find_ready(&self) -> Option<Arc<Plan>> {
        let (problem, probe) = (&self.key.problem, self.probe());
        let mut candidates = Candidates::default();
        let sizes = probe::sizes(problem, self.key.sizes);
        let wanted = Probe { for_cuda_graphs: self.key.for_cuda_graphs, ..probe };
        let mut division = find_division(&wanted, &sizes, &mut candidates);
        if division.is_none() && wanted.for_cuda_graphs {
            division = find_division(&probe, &sizes, &mut candidates);
        }
        // The fallback gets plans of its own: an exploration may run the probed ones at the same time.
        let fallback = division
            .and_then(|division| Plan::new(problem, division, &self.target, probe.budget.limit, |_, _| None).ok());
        let fallback = fallback.filter(|fallback| fallback.workspace() <= probe.budget.limit);
        if let Some(fallback) = &fallback {
            log::debug!("{problem}: ready within {} bytes: {}", probe.budget.limit, fallback.configuration());
        }
        if self.exploring.is_untouched() {
            *self.candidates.lock() = candidates;
        }
        fallback.map(Arc::new)
    }

    fn find_at_once(&self, class: Class, plain: usize) -> Option<Arc<Plan>> {
        let (problem, probe, limit) = (&self.key.problem, Probe { class, ..self.probe() }, self.key.limit);
        let engine = our_candidates::at_once(&probe)?;
        let workspace = Candidates::default().workspace(&probe, problem.batch(), &engine)?;
        let micro = MicroConfiguration { batch: problem.batch(), algorithm: engine, time: 0.0, workspace };
        let plan = Plan::new(problem, Configuration::undivided(micro), &self.target, limit, |_, _| None).ok()?;
        report::at_once(&**problem, plan.configuration(), (plan.workspace(), limit, plain));
        Some(Arc::new(plan))
    }

    fn find_stand_in(&self) -> Option<Arc<Plan>> {
        let (problem, probe, limit) = (&self.key.problem, self.probe(), self.key.limit);
        let fallback = self.fallback()?;
        let is_fast = |micro: &MicroConfiguration<EngineConfiguration>| {
            micro.algorithm.has_tensor_cores() && probe.is_large(micro.batch)
        };
        let is_here = matches!(self.key.place, Place::Device(_));
        if !is_here || fallback.configuration().parts().iter().all(|(_, micro)| is_fast(micro)) {
            return None;
        }
        let engines = our_candidates::by_priority(&probe, limit).into_iter().flatten();
        let engines = engines.filter(EngineConfiguration::has_tensor_cores);
        let mut candidates = Candidates::default();
        let (engine, workspace) = engines
            .filter_map(|engine| Some((engine, candidates.workspace(&probe, problem.batch(), &engine)?)))
            .find(|(_, workspace)| *workspace <= limit)?;
        let micro = MicroConfiguration { batch: problem.batch(), algorithm: engine, time: 0.0, workspace };
        let plan = Plan::new(problem, Configuration::undivided(micro), &self.target, limit, |_, _| None).ok()?;
        log::debug!("{problem}: {} runs until the choice is made", plan.configuration());
        Some(Arc::new(plan))
    }

    /// Returns the least limit, in bytes, under which anything runs. `None` if nothing does.
    pub fn least(&self) -> Option<usize> {
        self.fallback();
        let offered = self.candidates.lock().largest_first();
        let mut limits: Vec<_> = offered.iter().map(|candidate| candidate.workspace).collect();
        limits.sort_unstable();
        limits.into_iter().find(|limit| {
            let fitting: Vec<_> = offered.iter().filter(|candidate| candidate.workspace <= *limit).copied().collect();
            any_division(self.key.problem.batch(), &fitting).is_some()
        })
    }
}

/// Finds a configuration within the limit, by the heuristics for the whole mini-batch, or else for parts of it.
fn find_division(
    probe: &Probe,
    sizes: &[usize],
    candidates: &mut Candidates,
) -> Option<Configuration<EngineConfiguration>> {
    let mut engines: Vec<EngineConfiguration> = Vec::new();
    for &size in sizes {
        let mut of = probe.micro_batch(size);
        for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
            for engine in probe::heuristics(probe, &mut of, mode) {
                if !engines.contains(&engine) {
                    engines.push(engine);
                }
            }
            if let Some(division) = divide(probe, sizes, &engines, candidates) {
                return Some(division);
            }
        }
    }
    None
}

/// Cuts off micro-batches until no images are left. Prefers the first of `engines` that fits in large micro-batches;
/// takes the largest micro-batch that fits any engine otherwise.
fn divide(
    probe: &Probe,
    sizes: &[usize],
    engines: &[EngineConfiguration],
    candidates: &mut Candidates,
) -> Option<Configuration<EngineConfiguration>> {
    let (batch, budget) = (probe.problem.batch(), probe.budget);
    let (mut rest, mut parts) = (batch, Vec::new());
    while rest > 0 {
        let mut fits = |rest: usize, size: usize, engine: &EngineConfiguration| {
            let workspace = (size <= rest && probe.admits(engine, size))
                .then(|| candidates.workspace(probe, size, engine))
                .flatten()?;
            let found = MicroConfiguration { batch: size, algorithm: *engine, time: 0.0, workspace };
            (workspace <= budget.before(rest - size)).then_some(found)
        };
        let large: Vec<_> = sizes.iter().filter(|&&size| probe.is_large(size)).collect();
        let preferred = engines.iter().find_map(|engine| large.iter().find_map(|&&size| fits(rest, size, engine)));
        let found = preferred
            .or_else(|| sizes.iter().find_map(|&size| engines.iter().find_map(|engine| fits(rest, size, engine))));
        let Some(found) = found else {
            // No size fits the rest, because of the tensors' alignment or the budget.
            let whole = engines.iter().find_map(|engine| fits(batch, batch, engine))?;
            return Some(Configuration::undivided(whole));
        };
        parts.push((1, found));
        rest -= found.batch;
    }
    Some(Configuration::new(parts))
}
