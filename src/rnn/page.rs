//! What is known of the networks that the program runs, by their content: where weights lie, and what runs them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::{Mutex, RwLock};

use super::configuration::{Configuration, Problem};
use super::forward::Call;
use super::kernels::{Engine, problem};
use super::model::Model;
use super::report::{self, Decision};
use super::run::bias_stride;
use super::trial::{Step, Trial};
use crate::background;
use crate::cudnn::rnn::{Data, Network, Weights};
use crate::device::Device;
use crate::settings::{self, Numerics, Rnn};

/// Executions that cuDNN runs before any of ours is compiled for them.
const UNTOUCHED: usize = 2;
/// Ours is to be faster by this much.
const MARGIN: f64 = 0.98;
/// A program whose networks never come back must not fill the memory.
const MOST_PAGES: usize = 1 << 10;

/// What tells a network's executions: those of one key are timed together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The device's number.
    pub device: i32,
    pub network: Network,
    pub layout: cudnnRNNDataLayout_t,
    pub batch: usize,
    /// Rounded up to a power of two: programs have sequences of all lengths.
    pub steps: usize,
    /// Whether all sequences have as many.
    pub is_full: bool,
}

/// Why none of ours runs where the model has none to offer.
const NOTHING_FITS: &str = "nothing fits on the device";

/// What is known of a key.
pub struct Page {
    pub key: Key,
    weights: OnceCell<Option<Vec<Weights>>>,
    ranked: OnceCell<Option<Ranked>>,
    course: Mutex<Course>,
    /// Ours has failed once: cuDNN runs it from then on.
    is_broken: AtomicBool,
}

/// How far it is decided what runs. Not held across calls that may block.
enum Course {
    /// So many executions have been cuDNN's.
    Untouched(usize),
    /// A thread of ours compiles; this runs meanwhile.
    Loading(Option<Arc<Engine>>),
    /// Executions are timed: of cuDNN where there is no engine, else of that.
    Trying { trial: Trial, candidates: Vec<Option<Arc<Engine>>> },
    /// cuDNN where there is no engine.
    Settled(Option<Arc<Engine>>),
}

/// What an execution is to run.
pub enum Run {
    /// cuDNN.
    Cudnn,
    /// Ours.
    Ours(Arc<Engine>),
    /// A candidate between marks: cuDNN where there is no engine.
    Timed(usize, Option<Arc<Engine>>),
    /// Ours, which is to be compiled first.
    Load,
}

/// What the recurrences are made for, and by which configurations, the model's first choice first.
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

static PAGES: Lazy<RwLock<HashMap<Key, Arc<Page>, foldhash::fast::RandomState>>> = Lazy::new(RwLock::default);

/// The page of a network on such data on the calling thread's device.
pub fn page(network: &Network, data: &Data) -> Arc<Page> {
    let key = Key {
        device: Device::current().ordinal(),
        network: *network,
        layout: data.layout,
        batch: data.batch(),
        steps: data.steps.next_power_of_two(),
        is_full: data.is_full(),
    };
    if let Some(page) = PAGES.read().get(&key) {
        return page.clone();
    }
    let mut forgotten = HashMap::default(); // dropped once the lock is released: kernels are unloaded with it
    let mut pages = PAGES.write();
    if pages.len() >= MOST_PAGES {
        std::mem::swap(&mut *pages, &mut forgotten);
    }
    let new = || Page {
        key: key.clone(),
        weights: OnceCell::new(),
        ranked: OnceCell::new(),
        course: Mutex::new(Course::Untouched(0)),
        is_broken: AtomicBool::new(false),
    };
    pages.entry(key.clone()).or_insert_with(|| Arc::new(new())).clone()
}

impl Page {
    /// Where each pseudo layer's weights lie in the weight space, asked of cuDNN once. `None` if they lie otherwise than
    /// our kernels take them.
    ///
    /// # Safety
    /// The call's handle and descriptor are sound, and the latter is the key's network's.
    pub unsafe fn weights(&self, call: &Call) -> Option<&[Weights]> {
        let space = (call.weight_space, call.weight_space_size);
        let find = || {
            let layers = 0..self.key.network.pseudo_layers();
            // SAFETY: as ours.
            let of = |layer| unsafe { Weights::find(call.handle, call.descriptor, &self.key.network, layer, space) };
            let weights = layers.map(of).collect::<Option<Vec<_>>>()?;
            bias_stride(&weights).map(|_| weights)
        };
        self.weights.get_or_init(find).as_deref()
    }

    /// The configurations that may run; `None` if there is none.
    fn ranked(&self) -> Option<&Ranked> {
        let rank = || {
            let problem = problem(&self.key.network, self.key.batch, self.key.steps)?;
            let configurations = Model::default().ranked(&problem, settings::get().rnn_top_k);
            let most_exchange_bytes = problem.most_exchange_bytes();
            (!configurations.is_empty()).then_some(Ranked { problem, configurations, most_exchange_bytes })
        };
        self.ranked.get_or_init(rank).as_ref()
    }

    /// Bytes that the exchange takes at most; `None` if none of ours may run.
    pub fn most_exchange_bytes(&self) -> Option<usize> {
        self.ranked().map(|ranked| ranked.most_exchange_bytes)
    }

    /// What the next execution is to run. Under capture nothing is compiled or timed.
    pub fn decide(self: &Arc<Self>, is_capturing: bool) -> Run {
        if self.is_broken.load(Ordering::Relaxed) {
            return Run::Cudnn;
        }
        let force = settings::get().rnn == Rnn::Force;
        let mut course = self.course.lock();
        match &mut *course {
            Course::Settled(chosen) | Course::Loading(chosen) => chosen.clone().map_or(Run::Cudnn, Run::Ours),
            Course::Untouched(_) if is_capturing => Run::Cudnn,
            Course::Untouched(_) if force => Run::Load,
            // Results are to be the same bits each time.
            Course::Untouched(_) if settings::get().numerics == Numerics::Deterministic => Run::Cudnn,
            Course::Untouched(executions) if *executions < UNTOUCHED => {
                *executions += 1;
                Run::Cudnn
            }
            Course::Untouched(_) => {
                *course = Course::Loading(None);
                drop(course);
                self.load_others(None);
                Run::Cudnn
            }
            Course::Trying { candidates, .. } if is_capturing => meanwhile(candidates),
            Course::Trying { trial, candidates } => match trial.step() {
                Step::Run(index) => Run::Timed(index, candidates[index].clone()),
                Step::Wait => meanwhile(candidates),
                Step::Over => {
                    let (chosen, times) = choose(&trial.times(), candidates);
                    *course = Course::Settled(chosen.clone());
                    drop(course);
                    let (key, why) = (&self.key, "timed in place");
                    report::decided(&Decision { key, chosen: chosen.as_deref(), why, times: &times });
                    chosen.map_or(Run::Cudnn, Run::Ours)
                }
            },
        }
    }

    /// Compiles the best by the model, for a caller that waits, and begins to compile others behind.
    pub fn load(self: &Arc<Self>) -> Option<Arc<Engine>> {
        let mut why = NOTHING_FITS.to_owned();
        let mut load = |(problem, configuration): (&Problem, Configuration)| {
            Engine::load(problem, configuration).inspect_err(|error| why = error.clone()).ok()
        };
        let first = self.ranked().and_then(|ranked| ranked.pairs().find_map(&mut load));
        let mut course = self.course.lock();
        match (&*course, first) {
            (Course::Untouched(_), Some(first)) => {
                *course = Course::Loading(Some(first.clone()));
                drop(course);
                self.load_others(Some(first.clone()));
                Some(first)
            }
            (Course::Untouched(_), None) => {
                *course = Course::Settled(None);
                drop(course);
                log::warn!("{}: cuDNN runs it: {why}", self.key);
                report::decided(&Decision { key: &self.key, chosen: None, why: &why, times: &[] });
                None
            }
            // Another thread has been faster.
            (Course::Loading(chosen) | Course::Settled(chosen), _) => chosen.clone(),
            (Course::Trying { .. }, first) => first,
        }
    }

    /// Compiles what else may be best on a thread of ours; what is there already comes first. Without one there, cuDNN is
    /// a candidate too.
    fn load_others(self: &Arc<Self>, first: Option<Arc<Engine>>) {
        let page = self.clone();
        let (known, otherwise) = (first.clone(), "RNNs run as they did");
        let load = move || {
            settings::fault_point("rnn-load");
            let mut why = NOTHING_FITS.to_owned();
            let mut engines: Vec<_> = known.iter().cloned().collect();
            for (problem, configuration) in page.ranked().into_iter().flat_map(Ranked::pairs) {
                if background::stopped() {
                    return;
                }
                if engines.iter().any(|engine| *engine.configuration() == configuration) {
                    continue;
                }
                match Engine::load(problem, configuration) {
                    Ok(engine) => engines.push(engine),
                    Err(error) => why = error,
                }
            }
            page.loaded(known, engines, &why);
        };
        if settings::get().rnn_top_k == 1 && first.is_some() {
            self.settle(first, "the model's first choice", &[]);
        } else if !background::spawn(Device::current(), load, otherwise) {
            self.settle(first, "there is no thread to compile others on", &[]);
        }
    }

    fn loaded(&self, first: Option<Arc<Engine>>, engines: Vec<Arc<Engine>>, why: &str) {
        match (&first, engines.len()) {
            (None, 0) => return self.settle(None, why, &[]),
            (Some(_), 1) => return self.settle(first, "nothing else runs", &[]),
            _ => {}
        }
        let cudnn = first.is_none().then_some(None);
        let candidates: Vec<_> = cudnn.into_iter().chain(engines.into_iter().map(Some)).collect();
        *self.course.lock() = Course::Trying { trial: Trial::new(candidates.len()), candidates };
    }

    fn settle(&self, chosen: Option<Arc<Engine>>, why: &str, times: &[Timed]) {
        report::decided(&Decision { key: &self.key, chosen: chosen.as_deref(), why, times });
        *self.course.lock() = Course::Settled(chosen);
    }

    /// A timed candidate ran or did not; with the trial, if it is still that.
    pub fn with_trial(&self, tell: impl FnOnce(&mut Trial)) {
        if let Course::Trying { trial, .. } = &mut *self.course.lock() {
            tell(trial);
        }
    }

    /// Ours failed: never again.
    pub fn give_up(&self, why: &str) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("{}: our kernels failed: {why}; cuDNN runs it from now on", self.key);
            report::decided(&Decision { key: &self.key, chosen: None, why, times: &[] });
        }
    }
}

/// A candidate's name, and its time in milliseconds a time step; none where it did not run.
pub type Timed = (String, Option<f64>);

/// The fastest, ours only if it is faster than cuDNN beyond doubt; and all by their names.
fn choose(times: &[Option<f64>], candidates: &[Option<Arc<Engine>>]) -> (Option<Arc<Engine>>, Vec<Timed>) {
    let handicap = |index: usize| if candidates[index].is_none() { MARGIN } else { 1.0 };
    let timed = times.iter().enumerate().filter_map(|(index, time)| Some((index, time.as_ref()? * handicap(index))));
    let best = timed.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index);
    let name = |engine: &Option<Arc<Engine>>| {
        engine.as_ref().map_or("cuDNN".to_owned(), |engine| engine.configuration().to_string())
    };
    let named = candidates.iter().map(name).zip(times.iter().copied()).collect();
    (best.and_then(|best| candidates[best].clone()), named)
}

/// What runs while times are still to come: cuDNN where that is a candidate, else the model's first choice.
fn meanwhile(candidates: &[Option<Arc<Engine>>]) -> Run {
    candidates.first().cloned().flatten().map_or(Run::Cudnn, Run::Ours)
}
