//! The state of a network that the program runs: where its weights lie, and which engine runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::call::Call;
use super::choice::{self, Candidates, Recalled, is_deterministic};
use super::compiler::{self, later};
use super::configuration::{Configuration, Problem};
use super::fit;
use super::kernels::{self, Engine, problem};
use super::record::FAMILY;
use super::report::{self, Decision};
use super::room::Room;
use crate::inference::Inference;
use cudnn::rnn::Weights;
use gpu::background::compiling;
use guest::settings::{self, Rnn};
use tuning::allowance;
use tuning::database::TuningLock;
use tuning::elsewhere::Elsewhere;
use tuning::family::Time;
use tuning::turns::{Step, Turns};

/// Executions by cuDNN before anything is compiled for a network: programs that do inference run thousands.
const UNTOUCHED: usize = 16;

/// The key of a network's state: executions with equal keys are timed together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The device's number.
    pub device: i32,
    pub inference: Inference,
}

/// The reported reason if the model has no configuration for a network.
pub const NOTHING_FITS: &str = "nothing fits on the device";
/// The reported reason if the database made the choice.
const KNOWN: &str = "known from before";

/// The state of a network.
pub struct State {
    pub key: Key,
    weights: OnceCell<Option<Vec<Weights>>>,
    /// What cuDNN's calls need.
    pub room: Room,
    ranked: OnceCell<Option<Ranked>>,
    recalled: OnceCell<Option<Recalled>>,
    course: Mutex<Course>,
    executions: AtomicU64,
    /// The least known milliseconds of a time step, as bits of a number; 0 while none is known.
    usual: AtomicU64,
    elsewhere: Elsewhere,
    /// Our kernels failed once: cuDNN runs the network from then on.
    is_broken: AtomicBool,
}

/// The progress of the choice between engines. The lock is not held across calls that may block.
enum Course {
    /// The database was not asked yet.
    New,
    /// The database knows nothing; cuDNN has had this many executions.
    Untouched(usize),
    /// The background thread compiles; this engine runs meanwhile, or cuDNN.
    Loading(Option<Arc<Engine>>),
    /// Another process times the network, at least it did at this moment. Its result comes by the database.
    Elsewhere(Instant),
    /// Executions are timed. `meanwhile` runs those that are not timed. `is_last` is false while more candidates are
    /// being compiled. `_lock` keeps other processes from timing the same.
    Trying {
        turns: Turns,
        candidates: Candidates,
        meanwhile: Option<Arc<Engine>>,
        is_last: bool,
        _lock: Option<TuningLock>,
    },
    /// Decided; `None` stands for cuDNN.
    Settled(Option<Arc<Engine>>),
}

/// The choice for an execution.
pub enum Run {
    Cudnn,
    /// Our engine.
    Ours(Arc<Engine>),
    /// A candidate between time marks; `None` stands for cuDNN.
    Timed(usize, Option<Arc<Engine>>),
    /// Our engine, to be compiled first.
    Load,
}

impl From<Option<Arc<Engine>>> for Run {
    /// `None` stands for cuDNN.
    fn from(engine: Option<Arc<Engine>>) -> Self {
        engine.map_or(Self::Cudnn, Self::Ours)
    }
}

/// The problem of the recurrences, and its best configurations, the model's first choice first.
struct Ranked {
    problem: Problem,
    configurations: Vec<Configuration>,
    most_exchange_bytes: usize,
}

impl Ranked {
    fn pairs(&self) -> impl Iterator<Item = (&Problem, Configuration)> {
        self.configurations.iter().map(|&configuration| (&self.problem, configuration))
    }
}

impl State {
    /// The state of a network that has not run yet.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            weights: OnceCell::new(),
            room: Room::default(),
            ranked: OnceCell::new(),
            recalled: OnceCell::new(),
            course: Mutex::new(Course::New),
            executions: AtomicU64::new(0),
            usual: AtomicU64::new(0),
            elsewhere: Elsewhere::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Where each pseudo layer's weights lie in the weight space; asks cuDNN once. `None`: our kernels do not take this
    /// layout.
    ///
    /// # Safety
    /// The call's handle and descriptor are valid, and the descriptor is for the network in the key.
    pub unsafe fn weights(&self, call: &Call) -> Option<&[Weights]> {
        let space = (call.memory.weight_space, call.memory.weight_space_size);
        let find = || {
            let layers = 0..self.key.inference.network.pseudo_layers();
            // SAFETY: the caller promises the handle and the descriptor of the key's network; `space` is the call's.
            let of = |layer| unsafe {
                Weights::find(call.handle, call.descriptor, &self.key.inference.network, layer, space)
            };
            layers.map(of).collect::<Option<Vec<_>>>()
        };
        self.weights.get_or_init(find).as_deref()
    }

    /// The best configurations; `None` if there is none.
    fn ranked(&self) -> Option<&Ranked> {
        let rank = || {
            let Inference { network, batch, steps, .. } = &self.key.inference;
            let problem = problem(network, *batch, *steps)?;
            let configurations = fit::model().ranked(&problem, settings::get().rnn_top_k);
            let most_exchange_bytes = problem.most_exchange_bytes();
            (!configurations.is_empty()).then_some(Ranked { problem, configurations, most_exchange_bytes })
        };
        self.ranked.get_or_init(rank).as_ref()
    }

    /// The most bytes of exchange memory of any candidate; `None` where our kernels never run the network.
    pub fn most_exchange_bytes(&self) -> Option<usize> {
        self.ranked().map(|ranked| ranked.most_exchange_bytes)
    }

    /// The model's first choice.
    pub fn first_choice(&self) -> Option<&Configuration> {
        self.ranked().and_then(|ranked| ranked.configurations.first())
    }

    /// The result in the database when it was first asked, if that suffices.
    pub fn recalled(&self) -> Option<&Recalled> {
        self.recalled.get_or_init(|| self.recall()).as_ref()
    }

    /// The result in the database now, if that suffices.
    fn recall(&self) -> Option<Recalled> {
        let Ranked { problem, configurations, .. } = self.ranked()?;
        let known = FAMILY.entries()?.times(&self.key.inference.spec());
        let space = if known.is_empty() { Vec::new() } else { Configuration::space(problem) };
        choice::recall(known, &space, configurations.len(), !is_forced())
    }

    /// Decides how the next execution runs. During a capture nothing is compiled or timed.
    pub fn decide(self: &Arc<Self>, is_capturing: bool) -> Run {
        if self.is_broken.load(Ordering::Relaxed) {
            return Run::Cudnn;
        }
        self.executions.fetch_add(1, Ordering::Relaxed);
        let step_time = f64::from_bits(self.usual.load(Ordering::Relaxed));
        // The key's steps are rounded up to a power of two: a call has at least half as many.
        allowance::of_process().executed(step_time * (self.key.inference.steps as f64 / 2.0));
        let mut course = self.course.lock();
        match &mut *course {
            // Deterministic: results have the same bits each time, whatever was chosen by times.
            _ if !is_forced() && is_deterministic() => Run::Cudnn,
            Course::Settled(chosen) | Course::Loading(chosen) => chosen.clone().into(),
            Course::New | Course::Untouched(_) if is_capturing => Run::Cudnn,
            Course::New => {
                drop(course);
                self.begin()
            }
            Course::Untouched(executions) if *executions < UNTOUCHED => {
                *executions += 1;
                Run::Cudnn
            }
            Course::Untouched(_) if !allowance::of_process().explores() => Run::Cudnn,
            Course::Untouched(_) => {
                *course = Course::Loading(None);
                drop(course);
                self.load_others(None);
                Run::Cudnn
            }
            Course::Elsewhere(since) if is_capturing || !Elsewhere::is_due(*since) => Run::Cudnn,
            Course::Elsewhere(_) => {
                *course = Course::Loading(None);
                drop(course);
                let state = self.clone();
                if !later(move || state.look_again()) {
                    self.leave(|course| matches!(course, Course::Loading(None)), Course::Elsewhere(Instant::now()));
                }
                Run::Cudnn
            }
            Course::Trying { meanwhile, .. } if is_capturing => meanwhile.clone().into(),
            Course::Trying { turns, candidates, meanwhile, is_last, .. } => match self.step(turns) {
                Step::Run(index) => Run::Timed(index, candidates.engines[index].clone()),
                Step::Wait => meanwhile.clone().into(),
                Step::Over => {
                    let times = turns.times();
                    let chosen = candidates.fastest(&times);
                    if !*is_last {
                        *course = Course::Loading(chosen.clone());
                        drop(course);
                        let name = choice::name(chosen.as_deref().map(Engine::configuration));
                        log::info!("{}: {name} runs it until others are compiled", self.key.inference);
                        return chosen.into();
                    }
                    let tried = std::mem::replace(&mut *course, Course::Settled(chosen.clone()));
                    drop(course);
                    if let Course::Trying { candidates, _lock, .. } = tried {
                        self.tried(candidates, &times, _lock);
                    }
                    chosen.into()
                }
            },
        }
    }

    /// Chooses the next step of the trial.
    fn step(&self, turns: &mut Turns) -> Step {
        let step = turns.step_as_permitted();
        if let Some(least) = turns.best() {
            self.usual.store(least.to_bits(), Ordering::Relaxed);
        }
        step
    }

    /// Starts with the first execution: recalls a result from the database.
    fn begin(self: &Arc<Self>) -> Run {
        let Some(recalled) = self.recalled() else {
            if is_forced() {
                return Run::Load;
            }
            self.leave(|course| matches!(course, Course::New), Course::Untouched(1));
            return Run::Cudnn;
        };
        let (Some(configuration), Some(Ranked { problem, .. })) = (recalled.chosen, self.ranked()) else {
            if self.leave(|course| matches!(course, Course::New), Course::Settled(None)) {
                self.report(None, KNOWN, &recalled.step_times);
            }
            return Run::Cudnn;
        };
        if is_forced() || Engine::is_compiled(problem, &configuration) {
            return Run::Load;
        }
        if self.leave(|course| matches!(course, Course::New), Course::Loading(None)) {
            let state = self.clone();
            later(move || {
                if let Some(recalled) = state.recalled() {
                    state.load_gently(recalled);
                }
            });
        }
        Run::Cudnn
    }

    /// Goes on to another course if `from` accepts the current one; returns true then.
    fn leave(&self, from: impl FnOnce(&Course) -> bool, to: Course) -> bool {
        let mut course = self.course.lock();
        let leaves = from(&course);
        let _before = leaves.then(|| std::mem::replace(&mut *course, to));
        drop(course);
        leaves
    }

    /// Compiles and loads the best engine by the database in the background.
    fn load_gently(&self, recalled: &Recalled) {
        if let (Some(chosen), Some(Ranked { problem, .. })) = (&recalled.chosen, self.ranked()) {
            // If that fails, loading says why.
            let _ = Engine::compile(problem, chosen);
            compiling::gently(|| self.load_recalled(recalled));
        } else if self.leave(|course| matches!(course, Course::Loading(None)), Course::Settled(None)) {
            self.report(None, KNOWN, &recalled.step_times);
        }
    }

    /// Asks the database again for what another process has found. If it has found nothing, and has ended, the search
    /// begins here.
    fn look_again(self: &Arc<Self>) {
        match self.recall() {
            Some(recalled) => self.load_gently(&recalled),
            None => self.load_others(None),
        }
    }

    /// Loads the best engine by the database. `None`: the database names none, or that engine does not run any more.
    fn load_recalled(&self, Recalled { chosen, step_times }: &Recalled) -> Option<Arc<Engine>> {
        let Ranked { problem, .. } = self.ranked()?;
        let is_open = |course: &Course| matches!(course, Course::New | Course::Loading(None));
        match Engine::load(problem, (*chosen)?) {
            Ok(engine) => {
                if self.leave(is_open, Course::Settled(Some(engine.clone()))) {
                    self.report(Some(&engine), KNOWN, step_times);
                }
                Some(engine)
            }
            Err(why) => {
                log::info!("{}: what was best before is not there: {why}", self.key.inference);
                self.leave(is_open, Course::Untouched(0));
                None
            }
        }
    }

    /// Compiles the best engine, by the database or else by the model, while the caller waits. Then begins to compile
    /// other candidates in the background.
    pub fn load(self: &Arc<Self>) -> Option<Arc<Engine>> {
        let recalled = compiling::now(|| self.recalled().and_then(|recalled| self.load_recalled(recalled)));
        if recalled.is_some() || !is_forced() {
            return recalled;
        }
        let mut why = NOTHING_FITS.to_owned();
        let mut load = |(problem, configuration): (&Problem, Configuration)| {
            Engine::load(problem, configuration).inspect_err(|error| why = error.clone()).ok()
        };
        let first = compiling::now(|| self.ranked().and_then(|ranked| ranked.pairs().find_map(&mut load)));
        let mut course = self.course.lock();
        match (&*course, first) {
            (Course::New | Course::Untouched(_), Some(first)) => {
                *course = Course::Loading(Some(first.clone()));
                drop(course);
                self.load_others(Some(first.clone()));
                Some(first)
            }
            (Course::New | Course::Untouched(_), None) => {
                *course = Course::Settled(None);
                drop(course);
                log::warn!("{}: cuDNN runs it: {why}", self.key.inference);
                self.report(None, &why, &[]);
                None
            }
            // Another thread was faster.
            (Course::Loading(chosen) | Course::Settled(chosen), _) => chosen.clone(),
            (Course::Trying { .. } | Course::Elsewhere(_), first) => first,
        }
    }

    /// Compiles the other candidates in the background. `first` is compiled already; without it, cuDNN is a candidate
    /// too.
    fn load_others(self: &Arc<Self>, first: Option<Arc<Engine>>) {
        let others = || Others {
            state: self.clone(),
            first: first.clone(),
            engines: first.iter().cloned().collect(),
            failed: Vec::new(),
            why: NOTHING_FITS.to_owned(),
            lock: None,
        };
        let is_only = settings::get().rnn_top_k == 1 || is_deterministic() || !allowance::of_process().explores();
        if is_only && first.is_some() {
            self.settle(first, "the model's first choice");
        } else if !compiler::begin(others()) {
            self.settle(first, "there is no thread to compile others on");
        }
    }

    fn loaded(&self, Others { first, engines, failed, why, lock, .. }: &mut Others) {
        let (first, engines, failed) = (first.take(), std::mem::take(engines), std::mem::take(failed));
        match (&first, engines.len()) {
            (None, 0) => return self.settle(None, why),
            (Some(_), 1) => return self.settle(first, "nothing else runs"),
            _ => {}
        }
        let cudnn = first.is_none().then_some(None);
        let engines: Vec<_> = cudnn.into_iter().chain(engines.into_iter().map(Some)).collect();
        let candidates = Candidates { engines, failed };
        let mut course = self.course.lock();
        let (mut turns, meanwhile) = match std::mem::replace(&mut *course, Course::New) {
            // The first engine is still being timed. It has the same index among all candidates.
            Course::Trying { turns, meanwhile, .. } => (turns, meanwhile),
            Course::Loading(chosen) => (Turns::new(0), chosen),
            _ => (Turns::new(0), first),
        };
        turns.again(candidates.engines.len());
        *course = Course::Trying { turns, candidates, meanwhile, is_last: true, _lock: lock.take() };
    }

    /// Times the first compiled engine beside cuDNN; the faster one runs while others are compiled.
    fn try_first(&self, engine: &Arc<Engine>) {
        let candidates = Candidates { engines: vec![None, Some(engine.clone())], failed: Vec::new() };
        let trying = Course::Trying { turns: Turns::new(2), candidates, meanwhile: None, is_last: false, _lock: None };
        self.leave(|course| matches!(course, Course::Loading(None)), trying);
    }

    fn settle(&self, chosen: Option<Arc<Engine>>, why: &str) {
        self.report(chosen.as_deref(), why, &[]);
        self.leave(|_| true, Course::Settled(chosen));
    }

    /// Compiles and loads the candidates, cuDNN beside them, while the caller waits. `each` gets the number of remaining
    /// compilations after each one, and may stop with `Err`. `Err` also if none of our kernels can run.
    pub fn candidates(&self, each: impl FnMut(usize) -> Result<(), String>) -> Result<Candidates, String> {
        let Ranked { problem, configurations, .. } = self.ranked().ok_or(NOTHING_FITS)?;
        cudnn::device().compile_all(&kernels::sources(problem.element, &[(problem, configurations)]), each)?;
        let (mut engines, mut failed, mut why) = (vec![None], Vec::new(), String::new());
        for &configuration in configurations {
            match compiling::now(|| Engine::load(problem, configuration)) {
                Ok(engine) => engines.push(Some(engine)),
                Err(error) => {
                    failed.push(configuration);
                    why = error;
                }
            }
        }
        if engines.len() > 1 { Ok(Candidates { engines, failed }) } else { Err(why) }
    }

    /// Ends a trial in the background: reports and stores the result, and unloads the losers.
    fn tried(self: &Arc<Self>, candidates: Candidates, times: &[Option<f64>], lock: Option<TuningLock>) {
        let (state, times) = (self.clone(), times.to_vec());
        later(move || {
            state.found(&candidates, &times, "timed in place");
            drop(lock);
        });
    }

    /// Reports and stores the result of a trial.
    pub fn found(&self, candidates: &Candidates, times: &[Option<f64>], why: &str) {
        let step_times = candidates.step_times(times);
        if let Some(entries) = FAMILY.entries() {
            entries.keep(&self.key.inference.spec(), &step_times);
            fit::learn(&entries);
        }
        self.report(candidates.fastest(times).as_deref(), why, &step_times);
    }

    fn report(&self, chosen: Option<&Engine>, why: &str, times: &[Time]) {
        let Key { device, ref inference } = self.key;
        report::decided(&Decision { device, inference, chosen, first: self.first_choice(), why, times });
    }

    /// Records the outcome of a timed execution, if the trial still runs.
    pub fn with_turns(&self, tell: impl FnOnce(&mut Turns)) {
        if let Course::Trying { turns, .. } = &mut *self.course.lock() {
            tell(turns);
        }
    }

    /// Our kernels failed: cuDNN runs the network from now on.
    pub fn give_up(&self, why: &str) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("{}: our kernels failed: {why}; cuDNN runs it from now on", self.key.inference);
            self.report(None, why, &[]);
            // Other processes may time it now.
            self.leave(|_| true, Course::Settled(None));
        }
    }
}

/// The candidates of a network that the background compiles.
struct Others {
    state: Arc<State>,
    /// Compiled already, because our kernels are forced. Without it, cuDNN is a candidate too.
    first: Option<Arc<Engine>>,
    engines: Vec<Arc<Engine>>,
    failed: Vec<Configuration>,
    /// Why the last one of them does not run.
    why: String,
    /// Keeps other processes from timing the same.
    lock: Option<TuningLock>,
}

impl compiler::Network for Others {
    fn device(&self) -> i32 {
        self.state.key.device
    }

    fn compiled(&self) -> usize {
        self.engines.len() + self.failed.len()
    }

    /// A network of few rows takes about the same time for each step of each layer.
    fn spent(&self) -> u64 {
        let Inference { network, steps, .. } = &self.state.key.inference;
        let executions = self.state.executions.load(Ordering::Relaxed);
        executions.saturating_mul((steps * network.pseudo_layers()) as u64)
    }

    fn compile_next(&mut self) -> bool {
        settings::fault_point("rnn-load");
        if self.lock.is_none()
            && self.first.is_none()
            && let Some(entries) = FAMILY.entries()
        {
            self.lock = entries.begin_exploring(&self.state.key.inference.spec());
            if self.lock.is_none() && self.state.elsewhere.waits() {
                log::debug!("{}: another process times it", self.state.key.inference);
                self.state.leave(|course| matches!(course, Course::Loading(None)), Course::Elsewhere(Instant::now()));
                return false;
            }
        }
        let Self { state, first, engines, failed, .. } = self;
        let is_open = |configuration: &Configuration| {
            !failed.contains(configuration) && engines.iter().all(|engine| engine.configuration() != configuration)
        };
        let next = state.ranked().and_then(|ranked| ranked.pairs().find(|(_, configuration)| is_open(configuration)));
        let Some((problem, configuration)) = next else {
            let state = state.clone();
            state.loaded(self);
            return false;
        };
        let compiled = Engine::compile(problem, &configuration);
        if state.is_broken.load(Ordering::Relaxed) {
            return false;
        }
        if gpu::background::stopped() {
            return false; // a failure that the process's end causes says nothing
        }
        match compiled
            .map_or_else(|why| Some(Err(why)), |()| compiling::gently(|| Engine::load(problem, configuration)))
        {
            None => return false,
            Some(Ok(engine)) => {
                engines.push(engine);
                if first.is_none() && engines.len() == 1 {
                    state.try_first(&engines[0]);
                }
            }
            Some(Err(why)) => {
                failed.push(configuration);
                self.why = why;
            }
        }
        true
    }
}

/// Returns true if our kernels must run wherever they can.
fn is_forced() -> bool {
    settings::get().rnn == Rnn::Force
}
