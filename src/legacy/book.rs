//! What is remembered of each kernel: times, promises made to the program, and what its calls run.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;

use once_cell::sync::Lazy;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::cudnn::algorithm::Algorithm;
use crate::cudnn::calls::query::AlgoPerf;
use crate::cudnn::kernel::Kernel;
use crate::device::Device;
use crate::exec::Plan;
use crate::plan::{BatchSizePolicy, MicroConfiguration};
use crate::tune::running::Exploration;

/// What plans are kept by: everything that changes them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    policy: BatchSizePolicy,
    kernel: Kernel,
}

type Pages = HashMap<Key, Arc<Page>, foldhash::fast::RandomState>;

static BOOK: Lazy<RwLock<Pages>> = Lazy::new(RwLock::default);

/// A program whose shapes never repeat must not fill the memory: beyond this many kernels, those that
/// nothing is known of are forgotten.
const MOST_PAGES: usize = 1 << 14;

/// What is known of one kernel on one device.
#[derive(Default)]
pub struct Page {
    /// What is known. Not held across calls into cuDNN.
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
    /// What queries were answered; of those with one id, the last.
    pub promises: Vec<Promise>,
    /// What calls run that no promise covers.
    pub decisions: Vec<Decision>,
}

/// A plan that the program was told of as an algorithm id and a workspace size.
#[derive(Clone)]
pub struct Promise {
    /// The limit that the query had: `None` for cuDNN's own choice's workspace.
    pub asked: Option<usize>,
    /// The limit in bytes that the plan was made for.
    pub limit: usize,
    /// What the program was told: id, bytes of workspace, time.
    pub entry: AlgoPerf,
    /// The ready configuration: an algorithm that runs undivided in the reported workspace.
    pub ready: c_int,
    /// What runs.
    pub plan: Arc<Plan>,
    /// The plan failed once: the ready configuration runs from then on. Plain calls, and fused ones.
    pub broken: [bool; 2],
}

/// What a call that asks for an algorithm within a limit runs.
pub struct Decision {
    pub key: Ask,
    pub course: Course,
}

/// A call, as far as it decides what runs: the algorithm asked for, the bytes it may use, and whether
/// it takes no other algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: c_int,
    pub limit: usize,
    pub only: bool,
}

/// How far the decision is.
pub enum Course {
    /// Candidates are tried; meanwhile this runs, or what the program asked for.
    Exploring { exploration: Box<Exploration>, meanwhile: Option<Arc<Plan>> },
    /// This runs, or what the program asked for.
    Settled(Option<Arc<Plan>>),
}

/// The kernel's page, a new one if it has none.
pub fn page(device: Device, policy: BatchSizePolicy, kernel: &Kernel) -> Arc<Page> {
    let key = Key { device: device.ordinal(), policy, kernel: *kernel };
    if let Some(page) = BOOK.read().get(&key) {
        return page.clone();
    }
    let mut book = BOOK.write();
    if book.len() >= MOST_PAGES {
        book.retain(|_, page| page.state.try_lock().is_none_or(|state| !state.is_blank()));
    }
    book.entry(key).or_default().clone()
}

/// The kernel's page, if it has one.
pub fn known_page(device: Device, policy: BatchSizePolicy, kernel: &Kernel) -> Option<Arc<Page>> {
    let key = Key { device: device.ordinal(), policy, kernel: *kernel };
    BOOK.read().get(&key).cloned()
}

impl State {
    fn is_blank(&self) -> bool {
        !self.busy && self.measured.is_empty() && self.promises.is_empty() && self.decisions.is_empty()
    }

    /// What the program was told of an algorithm id.
    pub fn promise(&self, id: c_int) -> Option<&Promise> {
        self.promises.iter().find(|promise| promise.entry.algo == id)
    }

    /// Makes a promise; an older one for the same id is void.
    pub fn promised(&mut self, promise: Promise) {
        self.promises.retain(|old| old.entry.algo != promise.entry.algo);
        self.promises.push(promise);
    }

    /// What such a call runs, if that has been decided.
    pub fn decision(&mut self, ask: Ask) -> Option<&mut Decision> {
        self.decisions.iter_mut().find(|decision| decision.key == ask)
    }

    /// Remembers times; the newest of equal micro-configurations.
    pub fn learn(&mut self, measured: &[MicroConfiguration<Algorithm>]) {
        for new in measured {
            self.measured.retain(|old| old.batch != new.batch || old.algorithm != new.algorithm);
            self.measured.push(*new);
        }
    }
}
