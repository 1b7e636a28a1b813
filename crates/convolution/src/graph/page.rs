//! What is known of one kernel in one numerical class under one limit: shared by all of the program's plans for it.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cudnn_abi::*;
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::{Mutex, RwLock};

use super::offers::{self, Asking, Offers};
use super::plan::Plan;
use crate::candidates;
use crate::problem::graph::{Class, EngineConfiguration, Kernel};
use cudnn::graph::Target;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};
use tuning::running::Exploration;

/// What pages are kept by.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub place: Place,
    pub kernel: Arc<Kernel>,
    pub class: Class,
    /// The most bytes of workspace: what the program is told that its plans need.
    pub limit: usize,
    pub sizes: BatchSizePolicy,
    /// The program's engine can be put into CUDA graphs, and so should what is ready in its place.
    pub for_cuda_graphs: bool,
}

/// What plans are for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// The device of this number.
    Device(i32),
    /// A device like this text of its properties.
    Described(Arc<str>),
}

/// What is known.
pub struct Page {
    pub key: Key,
    pub target: Target,
    /// The ready configuration, once somebody needed it; `None` if nothing runs within the limit.
    ready: OnceCell<Option<Arc<Plan>>>,
    /// What runs undivided, once what is ready failed.
    last_resort: OnceCell<Option<Arc<Plan>>>,
    /// What runs once tuning has ended; `None` if that found nothing.
    pub settled: OnceCell<Option<Arc<Plan>>>,
    /// What was settled failed once: what is ready runs from then on.
    pub is_broken: AtomicBool,
    pub state: Mutex<State>,
}

/// There is one of each key: they are told apart by their addresses.
impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Page {}

impl Hash for Page {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

/// How far tuning while the program runs is. Not held across calls that may block.
#[derive(Default)]
pub struct State {
    pub offers: Offers,
    pub course: Course,
}

/// How far tuning is.
#[derive(Default)]
pub enum Course {
    /// No plan has run often enough to be worth it.
    #[default]
    Untouched,
    /// A thread of ours finds out what may be tried.
    Gathering,
    /// Executions try it.
    Exploring(Box<Exploration<Kernel>>),
    /// It has ended: [`Page::settled`].
    Ended,
}

type Pages = HashMap<Key, Arc<Page>, foldhash::fast::RandomState>;

static PAGES: Lazy<RwLock<Pages>> = Lazy::new(RwLock::default);

/// A program whose shapes never repeat must not fill the memory: beyond this many, pages that no plan of the program
/// holds are forgotten.
const MOST_PAGES: usize = 1 << 12;
/// How many there may be before some are forgotten: more where many are in use.
static MOST: AtomicUsize = AtomicUsize::new(MOST_PAGES);

/// The page of a key, a new one if it has none.
pub fn page(key: Key, target: &Target) -> Arc<Page> {
    if let Some(page) = PAGES.read().get(&key) {
        return page.clone();
    }
    let mut forgotten = Vec::new(); // dropped once the lock is released: cuDNN's descriptors go with it
    let mut pages = PAGES.write();
    if pages.len() >= MOST.load(Ordering::Relaxed) {
        forgotten.extend(pages.extract_if(|_, page| Arc::strong_count(page) == 1));
        MOST.store(MOST_PAGES.max(2 * pages.len()), Ordering::Relaxed);
    }
    let new = || Page {
        key: key.clone(),
        target: target.clone(),
        ready: OnceCell::new(),
        last_resort: OnceCell::new(),
        settled: OnceCell::new(),
        is_broken: AtomicBool::new(false),
        state: Mutex::default(),
    };
    pages.entry(key.clone()).or_insert_with(|| Arc::new(new())).clone()
}

impl Page {
    /// What is asked of cuDNN for it.
    pub fn asking(&self) -> Asking<'_> {
        let Key { kernel, class, limit, .. } = &self.key;
        Asking { kernel, class: *class, target: &self.target, limit: *limit, for_cuda_graphs: false }
    }

    /// The ready configuration: without timing, in heuristics' order, the largest micro-batches first. Found once, by
    /// whoever asks first; others wait. `None` if nothing runs within the limit.
    pub fn ready(&self) -> Option<Arc<Plan>> {
        self.ready.get_or_init(|| self.find_ready()).clone()
    }

    /// The ready configuration, if somebody has needed it.
    pub fn known_ready(&self) -> Option<&Arc<Plan>> {
        self.ready.get()?.as_ref()
    }

    /// Whatever runs undivided within the limit, for when what is ready has failed. `None` if nothing does.
    pub fn last_resort(&self) -> Option<&Arc<Plan>> {
        let find = || {
            let (kernel, asking) = (&self.key.kernel, self.asking());
            let division = find_division(&asking, &[kernel.batch()], &mut Offers::default())?;
            Plan::new(kernel, division, &self.target, asking.limit, |_, _| None).ok().map(Arc::new)
        };
        self.last_resort.get_or_init(find).as_ref()
    }

    fn find_ready(&self) -> Option<Arc<Plan>> {
        let (kernel, asking) = (&self.key.kernel, self.asking());
        let mut offers = Offers::default();
        let sizes = offers::sizes(kernel, self.key.sizes);
        let wanted = Asking { for_cuda_graphs: self.key.for_cuda_graphs, ..asking };
        let mut division = find_division(&wanted, &sizes, &mut offers);
        if division.is_none() && wanted.for_cuda_graphs {
            division = find_division(&asking, &sizes, &mut offers);
        }
        // Not by the plans that were offered: exploring runs those, maybe beside this one.
        let ready =
            division.and_then(|division| Plan::new(kernel, division, &self.target, asking.limit, |_, _| None).ok());
        let ready = ready.filter(|ready| ready.workspace() <= asking.limit);
        if let Some(ready) = &ready {
            log::debug!("{kernel}: ready within {} bytes: {}", asking.limit, ready.configuration());
        }
        let mut state = self.state.lock();
        if matches!(state.course, Course::Untouched) {
            state.offers = offers;
        }
        ready.map(Arc::new)
    }

    /// The least limit under which something runs, in bytes; `None` if nothing does.
    pub fn least(&self) -> Option<usize> {
        self.ready();
        let offered = self.state.lock().offers.largest_first();
        let mut limits: Vec<_> = offered.iter().map(|candidate| candidate.workspace).collect();
        limits.sort_unstable();
        limits.into_iter().find(|limit| {
            let fitting: Vec<_> = offered.iter().filter(|candidate| candidate.workspace <= *limit).copied().collect();
            candidates::any_division(self.key.kernel.batch(), &fitting).is_some()
        })
    }
}

/// A micro-batch of what is ready is no smaller than this part of the mini-batch as long as another engine helps: many
/// small ones take longer than an engine that the heuristics put further back. (VGG-16's and ResNet-50's gradients of
/// filters in TF32 took a third and two thirds of an engine without workspace in 32 parts, and ResNet-50's twice as long
/// in 128.)
pub const SMALLEST_PART: usize = 32;

/// Some configuration within the limit, by what the heuristics offer for the whole mini-batch, or else for parts of it.
fn find_division(asking: &Asking, sizes: &[usize], offers: &mut Offers) -> Option<Configuration<EngineConfiguration>> {
    let mut engines: Vec<EngineConfiguration> = Vec::new();
    for &size in sizes {
        let mut of = asking.micro_batch(size);
        for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
            for engine in offers::heuristics(asking, &mut of, mode) {
                if !engines.contains(&engine) {
                    engines.push(engine);
                }
            }
            if let Some(division) = divide(asking, sizes, &engines, offers) {
                return Some(division);
            }
        }
    }
    None
}

/// The first of `engines` for which there is room in large micro-batches, or else the largest micro-batch for which any has
/// room, again and again.
fn divide(
    asking: &Asking,
    sizes: &[usize],
    engines: &[EngineConfiguration],
    offers: &mut Offers,
) -> Option<Configuration<EngineConfiguration>> {
    let (batch, room) = (asking.kernel.batch(), asking.room());
    let (mut rest, mut parts) = (batch, Vec::new());
    while rest > 0 {
        let mut has_room = |rest: usize, size: usize, engine: &EngineConfiguration| {
            let workspace = (size <= rest).then(|| offers.workspace(asking, size, engine)).flatten()?;
            let found = MicroConfiguration { batch: size, algorithm: *engine, time: 0.0, workspace };
            (workspace <= room.before(rest - size)).then_some(found)
        };
        let large: Vec<_> = sizes.iter().filter(|&&size| size * SMALLEST_PART >= batch).collect();
        let preferred = engines.iter().find_map(|engine| large.iter().find_map(|&&size| has_room(rest, size, engine)));
        let found = preferred
            .or_else(|| sizes.iter().find_map(|&size| engines.iter().find_map(|engine| has_room(rest, size, engine))));
        let Some(found) = found else {
            // What was cut off leaves a rest that no size divides, as tensors are aligned, or that has no room.
            let whole = engines.iter().find_map(|engine| has_room(batch, batch, engine))?;
            return Some(Configuration::undivided(whole));
        };
        parts.push((1, found));
        rest -= found.batch;
    }
    Some(Configuration::new(parts))
}
