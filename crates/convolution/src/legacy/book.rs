//! The registry of problems. For each: times, the promises made to the program, and the decisions for its calls.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::exec::Plan;
use crate::problem::Problem;
use crate::problem::algorithm::Algorithm;
use cudnn::calls::query::AlgoPerf;
use gpu::Device;
use planner::{BatchSizePolicy, MicroConfiguration};
use tuning::running::Exploration;

/// The key of the registry: one problem on one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    problem: Problem,
}

type Pages = HashMap<Key, Arc<Page>, foldhash::fast::RandomState>;

static BOOK: Lazy<RwLock<Pages>> = Lazy::new(RwLock::default);

/// A program whose shapes never repeat must not fill the memory: beyond this many problems, the registry forgets those
/// without a promise.
const MOST_PAGES: usize = 1 << 14;
/// The number of problems at which the registry next forgets some. It grows if many have promises.
static MOST: AtomicUsize = AtomicUsize::new(MOST_PAGES);

/// The registry's entry for one problem on one device.
#[derive(Default)]
pub struct Page {
    /// Do not hold this lock across calls that may block.
    pub state: Mutex<State>,
    /// Notified when a thread has ended tuning.
    pub tuned: Condvar,
}

/// The state of one problem on one device.
#[derive(Default)]
pub struct State {
    /// How often the problem has run.
    pub executions: usize,
    /// Set while a thread tunes the problem and the program waits.
    pub busy: bool,
    /// Measured times of micro-configurations.
    pub measured: Vec<MicroConfiguration<Algorithm>>,
    /// The promises made in answers to queries.
    pub promises: Vec<Promise>,
    /// Set once a query was answered: from then on, an id outside `reported` has cuDNN's own workspace.
    pub answered: bool,
    /// The ids whose workspace in the newest answer is not cuDNN's own, and the bytes.
    pub reported: Vec<(c_int, usize)>,
    /// The decisions for calls without a promised plan.
    pub decisions: Vec<Decision>,
}

/// The limits and the batch sizes of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The limit that somebody gave, in bytes.
    pub asked: Option<usize>,
    /// The limit in bytes: the given one, or else the workspace of cuDNN's own choice.
    pub limit: usize,
    pub sizes: BatchSizePolicy,
}

/// The promise behind a reported algorithm id and workspace size.
#[derive(Clone)]
pub struct Promise {
    pub question: Question,
    /// The limits that get the same answer: no algorithm's workspace lies between them.
    pub covers: Range<usize>,
    /// The reported entry: id, bytes of workspace, time.
    pub entry: AlgoPerf,
    /// The fallback: an algorithm that runs undivided in the reported workspace. `None` if no algorithm does: then only
    /// divisions run.
    pub fallback: Option<c_int>,
    /// The bytes that the reported id needs to run undivided.
    pub undivided: usize,
    /// The plan. `None` if it is still to be found within the reported workspace.
    pub plan: Option<Arc<Plan>>,
    /// Set once tuning has ended: another query changes nothing.
    pub is_final: bool,
    /// Set once the plan has failed, for plain calls and for fused ones. From then on the fallback runs.
    pub broken: [bool; 2],
}

/// The decision for calls that request an algorithm within a limit.
pub struct Decision {
    pub key: Ask,
    /// The limits under which the decision is the same.
    pub covers: Range<usize>,
    pub course: Course,
}

/// The properties of a call that decide how it runs: the requested algorithm, the bytes that it may use, whether cuDNN
/// accepts no other algorithm, and the batch sizes to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: c_int,
    pub limit: usize,
    pub only: bool,
    pub sizes: BatchSizePolicy,
}

/// The progress of a decision.
pub enum Course {
    /// Executions try candidates. Between trials the plan `meanwhile` runs, or else the requested algorithm.
    Exploring { exploration: Box<Exploration<Problem>>, meanwhile: Option<Arc<Plan>> },
    /// This plan runs, or else the requested algorithm.
    Settled(Option<Arc<Plan>>),
}

/// Returns the problem's entry, a new one if there is none.
pub fn page(device: Device, problem: &Problem) -> Arc<Page> {
    let key = Key { device: device.ordinal(), problem: *problem };
    if let Some(page) = BOOK.read().get(&key) {
        return page.clone();
    }
    let mut book = BOOK.write();
    if book.len() >= MOST.load(Ordering::Relaxed) {
        // The holder of an entry may be about to promise something. Nobody gets an entry while we hold the lock.
        book.retain(|_, page| {
            Arc::strong_count(page) > 1 || page.state.try_lock().is_none_or(|state| !state.promises.is_empty())
        });
        MOST.store(MOST_PAGES.max(2 * book.len()), Ordering::Relaxed);
    }
    book.entry(key).or_default().clone()
}

/// Returns the problem's entry, if there is one.
pub fn known_page(device: Device, problem: &Problem) -> Option<Arc<Page>> {
    let key = Key { device: device.ordinal(), problem: *problem };
    BOOK.read().get(&key).cloned()
}

/// Records the promise that answers a query. Programs set a result's math type before they use the result, so the
/// promise is recorded under that math type too. A program that keeps its own math type gets no looser plan.
pub fn tell(device: Device, problem: &Problem, promise: &Promise) {
    let math_type = promise.entry.mathType;
    if math_type == problem.math_type {
        return page(device, problem).state.lock().tell(Some(promise));
    }
    page(device, &Problem { math_type, ..*problem }).state.lock().tell(Some(promise));
    let plan = promise.plan.clone().filter(|plan| plan.runs_within(problem.math_type));
    page(device, problem).state.lock().tell(Some(&Promise { plan, ..promise.clone() }));
}

impl State {
    /// Returns the earlier answer to such a question, the newest if there are several.
    pub fn answer(&self, question: Question) -> Option<&Promise> {
        let Question { asked, limit, sizes } = question;
        self.promises.iter().rev().find(|promise| {
            promise.covers.contains(&limit)
                && promise.question.asked.is_some() == asked.is_some()
                && promise.question.sizes == sizes
        })
    }

    /// Returns the promise behind a call of `id` with `workspace` bytes: of the promises that fit, the one with the
    /// largest reported workspace.
    pub fn promise(&self, id: c_int, workspace: usize) -> Option<&Promise> {
        let made = self.promises.iter().filter(|p| p.entry.algo == id && p.entry.memory <= workspace);
        made.max_by_key(|promise| promise.entry.memory)
    }

    /// Records an answer: a promise, or `None` for cuDNN's own results.
    pub fn tell(&mut self, promise: Option<&Promise>) {
        self.answered = true;
        self.reported.clear();
        if let Some(promise) = promise {
            self.reported.push((promise.entry.algo, promise.entry.memory));
            // No promise is withdrawn: the program may still use it. The same entry promised under other limits answers
            // another question, so both stay.
            let reported = |promise: &Promise| {
                let Question { asked, sizes, .. } = promise.question;
                (promise.entry.algo, promise.entry.memory, sizes, asked.is_some(), promise.covers.clone())
            };
            self.promises.retain(|old| reported(old) != reported(promise));
            self.promises.push(promise.clone());
        }
    }

    /// Returns an id's workspace in the newest answer. `None` if that is cuDNN's own.
    pub fn reported(&self, id: c_int) -> Option<usize> {
        self.reported.iter().find(|(reported, _)| *reported == id).map(|(_, bytes)| *bytes)
    }

    /// Returns the decision for such a call, if there is one.
    pub fn decision(&mut self, ask: Ask) -> Option<&mut Decision> {
        self.decisions
            .iter_mut()
            .find(|decision| decision.covers.contains(&ask.limit) && Ask { limit: ask.limit, ..decision.key } == ask)
    }

    /// Stores times. A new time replaces the old one of an equal micro-configuration.
    pub fn learn(&mut self, measured: &[MicroConfiguration<Algorithm>]) {
        for new in measured {
            self.measured.retain(|old| old.batch != new.batch || old.algorithm != new.algorithm);
            self.measured.push(*new);
        }
    }
}
