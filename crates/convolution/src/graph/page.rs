//! The state of one problem in one numerical class under one limit. All of the program's plans for it share that state.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cudnn_abi::*;
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::{Mutex, RwLock};

use super::offers::{self, Candidates, Probe};
use super::plan::Plan;
use crate::candidates;
use crate::problem::graph::{Class, EngineConfiguration, Problem};
use cudnn::graph::Target;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};
use tuning::running::Exploration;

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
pub struct Page {
    pub key: Key,
    pub target: Target,
    /// The fallback configuration, once it was needed. `None` if nothing runs within the limit.
    fallback: OnceCell<Option<Arc<Plan>>>,
    /// An undivided configuration, once the fallback has failed.
    last_resort: OnceCell<Option<Arc<Plan>>>,
    /// The plan that runs once tuning has ended. `None` if tuning found none.
    pub settled: OnceCell<Option<Arc<Plan>>>,
    /// Set once the settled plan has failed. From then on the fallback runs.
    pub is_broken: AtomicBool,
    pub state: Mutex<State>,
}

/// There is one entry for each key, so addresses tell entries apart.
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

/// The progress of tuning while the program runs. Do not hold its lock across calls that may block.
#[derive(Default)]
pub struct State {
    pub offers: Candidates,
    pub course: Course,
}

/// The progress of tuning.
#[derive(Default)]
pub enum Course {
    /// No plan has run often enough to be worth tuning.
    #[default]
    Untouched,
    /// A background thread enumerates candidates.
    Enumerating,
    /// Executions try the candidates.
    Exploring(Box<Exploration<Problem>>),
    /// Tuning has ended; see [`Page::settled`].
    Ended,
}

type Pages = HashMap<Key, Arc<Page>, foldhash::fast::RandomState>;

static PAGES: Lazy<RwLock<Pages>> = Lazy::new(RwLock::default);

/// A program whose shapes never repeat must not fill the memory: beyond this many, the registry forgets entries that no
/// plan of the program holds.
const MOST_PAGES: usize = 1 << 12;
/// The number of entries at which the registry next forgets some. It grows if many are in use.
static MOST: AtomicUsize = AtomicUsize::new(MOST_PAGES);

/// Returns the entry for a key, a new one if there is none.
pub fn page(key: Key, target: &Target) -> Arc<Page> {
    if let Some(page) = PAGES.read().get(&key) {
        return page.clone();
    }
    let mut forgotten = Vec::new(); // dropped after the lock is released: this destroys cuDNN's descriptors
    let mut pages = PAGES.write();
    if pages.len() >= MOST.load(Ordering::Relaxed) {
        forgotten.extend(pages.extract_if(|_, page| Arc::strong_count(page) == 1));
        MOST.store(MOST_PAGES.max(2 * pages.len()), Ordering::Relaxed);
    }
    let new = || Page {
        key: key.clone(),
        target: target.clone(),
        fallback: OnceCell::new(),
        last_resort: OnceCell::new(),
        settled: OnceCell::new(),
        is_broken: AtomicBool::new(false),
        state: Mutex::default(),
    };
    pages.entry(key.clone()).or_insert_with(|| Arc::new(new())).clone()
}

impl Page {
    /// Returns the parameters for probing cuDNN.
    pub fn probe(&self) -> Probe<'_> {
        let Key { problem, class, limit, .. } = &self.key;
        Probe { problem, class: *class, target: &self.target, limit: *limit, for_cuda_graphs: false }
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

    /// Returns a configuration that runs undivided within the limit, for use after a failed fallback, if there is one.
    pub fn last_resort(&self) -> Option<&Arc<Plan>> {
        let find = || {
            let (problem, probe) = (&self.key.problem, self.probe());
            let division = find_division(&probe, &[problem.batch()], &mut Candidates::default())?;
            Plan::new(problem, division, &self.target, probe.limit, |_, _| None).ok().map(Arc::new)
        };
        self.last_resort.get_or_init(find).as_ref()
    }

    fn find_ready(&self) -> Option<Arc<Plan>> {
        let (problem, probe) = (&self.key.problem, self.probe());
        let mut offers = Candidates::default();
        let sizes = offers::sizes(problem, self.key.sizes);
        let wanted = Probe { for_cuda_graphs: self.key.for_cuda_graphs, ..probe };
        let mut division = find_division(&wanted, &sizes, &mut offers);
        if division.is_none() && wanted.for_cuda_graphs {
            division = find_division(&probe, &sizes, &mut offers);
        }
        // The fallback gets plans of its own: an exploration may run the probed ones at the same time.
        let fallback =
            division.and_then(|division| Plan::new(problem, division, &self.target, probe.limit, |_, _| None).ok());
        let fallback = fallback.filter(|fallback| fallback.workspace() <= probe.limit);
        if let Some(fallback) = &fallback {
            log::debug!("{problem}: ready within {} bytes: {}", probe.limit, fallback.configuration());
        }
        let mut state = self.state.lock();
        if matches!(state.course, Course::Untouched) {
            state.offers = offers;
        }
        fallback.map(Arc::new)
    }

    /// Returns the least limit, in bytes, under which anything runs. `None` if nothing does.
    pub fn least(&self) -> Option<usize> {
        self.fallback();
        let offered = self.state.lock().offers.largest_first();
        let mut limits: Vec<_> = offered.iter().map(|candidate| candidate.workspace).collect();
        limits.sort_unstable();
        limits.into_iter().find(|limit| {
            let fitting: Vec<_> = offered.iter().filter(|candidate| candidate.workspace <= *limit).copied().collect();
            candidates::any_division(self.key.problem.batch(), &fitting).is_some()
        })
    }
}

/// The fallback uses no micro-batches below 1 / `SMALLEST_PART` of the mini-batch if another engine avoids them: many
/// small ones take longer than an engine further down the heuristics' list. (For filter gradients in TF32, 32 parts
/// took a third of the time of an engine without workspace in VGG-16 and two thirds in ResNet-50; 128 parts took twice
/// as long in ResNet-50.)
pub const SMALLEST_PART: usize = 32;

/// Finds a configuration within the limit, by the heuristics for the whole mini-batch, or else for parts of it.
fn find_division(
    probe: &Probe,
    sizes: &[usize],
    offers: &mut Candidates,
) -> Option<Configuration<EngineConfiguration>> {
    let mut engines: Vec<EngineConfiguration> = Vec::new();
    for &size in sizes {
        let mut of = probe.micro_batch(size);
        for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
            for engine in offers::heuristics(probe, &mut of, mode) {
                if !engines.contains(&engine) {
                    engines.push(engine);
                }
            }
            if let Some(division) = divide(probe, sizes, &engines, offers) {
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
    offers: &mut Candidates,
) -> Option<Configuration<EngineConfiguration>> {
    let (batch, room) = (probe.problem.batch(), probe.room());
    let (mut rest, mut parts) = (batch, Vec::new());
    while rest > 0 {
        let mut has_room = |rest: usize, size: usize, engine: &EngineConfiguration| {
            let workspace = (size <= rest).then(|| offers.workspace(probe, size, engine)).flatten()?;
            let found = MicroConfiguration { batch: size, algorithm: *engine, time: 0.0, workspace };
            (workspace <= room.before(rest - size)).then_some(found)
        };
        let large: Vec<_> = sizes.iter().filter(|&&size| size * SMALLEST_PART >= batch).collect();
        let preferred = engines.iter().find_map(|engine| large.iter().find_map(|&&size| has_room(rest, size, engine)));
        let found = preferred
            .or_else(|| sizes.iter().find_map(|&size| engines.iter().find_map(|engine| has_room(rest, size, engine))));
        let Some(found) = found else {
            // No size fits the rest, because of the tensors' alignment or the budget.
            let whole = engines.iter().find_map(|engine| has_room(batch, batch, engine))?;
            return Some(Configuration::undivided(whole));
        };
        parts.push((1, found));
        rest -= found.batch;
    }
    Some(Configuration::new(parts))
}
