//! What is remembered of each kernel: times, promises made to the program, and what its calls run.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::exec::Plan;
use crate::problem::Kernel;
use crate::problem::algorithm::Algorithm;
use cudnn::calls::query::AlgoPerf;
use gpu::Device;
use planner::{BatchSizePolicy, MicroConfiguration};
use tuning::running::Exploration;

/// What pages are kept by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    kernel: Kernel,
}

type Pages = HashMap<Key, Arc<Page>, foldhash::fast::RandomState>;

static BOOK: Lazy<RwLock<Pages>> = Lazy::new(RwLock::default);

/// A program whose shapes never repeat must not fill the memory: beyond this many kernels, those that
/// nothing was promised for are forgotten.
const MOST_PAGES: usize = 1 << 14;
/// How many there may be before some are forgotten: more where many were promised.
static MOST: AtomicUsize = AtomicUsize::new(MOST_PAGES);

/// What is known of one kernel on one device.
#[derive(Default)]
pub struct Page {
    /// What is known. Not held across calls that may block.
    pub state: Mutex<State>,
    /// Notified when a thread has ended tuning.
    pub tuned: Condvar,
}

/// What is known of one kernel on one device.
#[derive(Default)]
pub struct State {
    /// How often it has run.
    pub executions: usize,
    /// A thread is tuning it while its program waits.
    pub busy: bool,
    /// Times of micro-configurations.
    pub measured: Vec<MicroConfiguration<Algorithm>>,
    /// What queries were answered.
    pub promises: Vec<Promise>,
    /// A query was answered: ids that it told of have the workspace that it told.
    pub answered: bool,
    /// The workspace that belongs to an algorithm id by the newest answer, where it is not cuDNN's own.
    pub told: Vec<(c_int, usize)>,
    /// What calls run that no promise has a plan for.
    pub decisions: Vec<Decision>,
}

/// What a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The limit that somebody gave, in bytes.
    pub asked: Option<usize>,
    /// The limit in bytes: that, or cuDNN's own choice's workspace.
    pub limit: usize,
    pub sizes: BatchSizePolicy,
}

/// What stands behind an algorithm id and a workspace size that the program was told.
#[derive(Clone)]
pub struct Promise {
    pub question: Question,
    /// The limits under which the answer would be the same: between them no algorithm's workspace lies.
    pub covers: Range<usize>,
    /// What the program was told: id, bytes of workspace, time.
    pub entry: AlgoPerf,
    /// The ready configuration: an algorithm that runs undivided in the reported workspace. `None` if
    /// none does: then only divisions run.
    pub ready: Option<c_int>,
    /// Bytes that the reported id needs to run undivided itself.
    pub undivided: usize,
    /// What runs; `None` if that is still to be found within the reported workspace.
    pub plan: Option<Arc<Plan>>,
    /// Tuning has ended: asking again changes nothing.
    pub is_final: bool,
    /// The plan failed once: the ready configuration runs from then on. Plain calls, and fused ones.
    pub broken: [bool; 2],
}

/// What a call that asks for an algorithm within a limit runs.
pub struct Decision {
    pub key: Ask,
    /// The limits under which it would be the same.
    pub covers: Range<usize>,
    pub course: Course,
}

/// A call, as far as it decides what runs: the algorithm asked for, the bytes it may use, and whether
/// it takes no other algorithm; and the sizes that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: c_int,
    pub limit: usize,
    pub only: bool,
    pub sizes: BatchSizePolicy,
}

/// How far the decision is.
pub enum Course {
    /// Candidates are tried; meanwhile this runs, or what the program asked for.
    Exploring { exploration: Box<Exploration<Kernel>>, meanwhile: Option<Arc<Plan>> },
    /// This runs, or what the program asked for.
    Settled(Option<Arc<Plan>>),
}

/// The kernel's page, a new one if it has none.
pub fn page(device: Device, kernel: &Kernel) -> Arc<Page> {
    let key = Key { device: device.ordinal(), kernel: *kernel };
    if let Some(page) = BOOK.read().get(&key) {
        return page.clone();
    }
    let mut book = BOOK.write();
    if book.len() >= MOST.load(Ordering::Relaxed) {
        // Who holds a page may be about to promise something: nobody gets one while we write.
        book.retain(|_, page| {
            Arc::strong_count(page) > 1 || page.state.try_lock().is_none_or(|state| !state.promises.is_empty())
        });
        MOST.store(MOST_PAGES.max(2 * book.len()), Ordering::Relaxed);
    }
    book.entry(key).or_default().clone()
}

/// The kernel's page, if it has one.
pub fn known_page(device: Device, kernel: &Kernel) -> Option<Arc<Page>> {
    let key = Key { device: device.ordinal(), kernel: *kernel };
    BOOK.read().get(&key).cloned()
}

/// A query about the kernel is answered with a promise. Programs set the math type that a result names
/// before they use it: the kernel under that one is told, too. Those that do not set it get no looser one than they
/// set.
pub fn tell(device: Device, kernel: &Kernel, promise: &Promise) {
    let math_type = promise.entry.mathType;
    if math_type == kernel.math_type {
        return page(device, kernel).state.lock().tell(Some(promise));
    }
    page(device, &Kernel { math_type, ..*kernel }).state.lock().tell(Some(promise));
    let plan = promise.plan.clone().filter(|plan| plan.runs_within(kernel.math_type));
    page(device, kernel).state.lock().tell(Some(&Promise { plan, ..promise.clone() }));
}

impl State {
    /// The answer that such a question got before, the newest if there are several.
    pub fn answer(&self, question: Question) -> Option<&Promise> {
        let Question { asked, limit, sizes } = question;
        self.promises.iter().rev().find(|promise| {
            promise.covers.contains(&limit)
                && promise.question.asked.is_some() == asked.is_some()
                && promise.question.sizes == sizes
        })
    }

    /// The promise that a call by `id` with `workspace` bytes relies on: of those that it has room
    /// for, the one that was told to need the most.
    pub fn promise(&self, id: c_int, workspace: usize) -> Option<&Promise> {
        let made = self.promises.iter().filter(|p| p.entry.algo == id && p.entry.memory <= workspace);
        made.max_by_key(|promise| promise.entry.memory)
    }

    /// The program is answered with a promise, or with cuDNN's own results.
    pub fn tell(&mut self, promise: Option<&Promise>) {
        self.answered = true;
        self.told.clear();
        if let Some(promise) = promise {
            self.told.push((promise.entry.algo, promise.entry.memory));
            // Of what was promised nothing is taken back: the program may hold on to it.
            // The same told under other limits is another question's answer, and stays that.
            let told = |promise: &Promise| {
                let Question { asked, sizes, .. } = promise.question;
                (promise.entry.algo, promise.entry.memory, sizes, asked.is_some(), promise.covers.clone())
            };
            self.promises.retain(|old| told(old) != told(promise));
            self.promises.push(promise.clone());
        }
    }

    /// The workspace that belongs to an id by the newest answer; `None` if that is cuDNN's own.
    pub fn told(&self, id: c_int) -> Option<usize> {
        self.told.iter().find(|(told, _)| *told == id).map(|(_, bytes)| *bytes)
    }

    /// What such a call runs, if that has been decided.
    pub fn decision(&mut self, ask: Ask) -> Option<&mut Decision> {
        self.decisions
            .iter_mut()
            .find(|decision| decision.covers.contains(&ask.limit) && Ask { limit: ask.limit, ..decision.key } == ask)
    }

    /// Remembers times; the newest of equal micro-configurations.
    pub fn learn(&mut self, measured: &[MicroConfiguration<Algorithm>]) {
        for new in measured {
            self.measured.retain(|old| old.batch != new.batch || old.algorithm != new.algorithm);
            self.measured.push(*new);
        }
    }
}
