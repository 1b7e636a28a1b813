//! Enumerates a problem's candidates in the background: cuDNN's heuristics take too long for the program to wait. One
//! thread serves all problems that have run often enough.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use cudnn_abi::*;
use parking_lot::Mutex;

use super::execute;
use super::micro_plan::MicroBatch;
use super::offers::{self, Candidates, Probe};
use super::our_engine;
use super::page::{Course, Page, Place, SMALLEST_PART};
use crate::problem::graph::EngineConfiguration;
use cudnn::convolution::Direction;
use gpu::background;
use tuning::record::{End, Record, Wanted};
use tuning::running::Exploration;
use tuning::search::{Candidate, Goal, Next};

/// The number of engines on copies to try at a micro-batch size: they differ little.
const ENOUGH_CONVERTED: usize = 2;
/// An engine has enough workspace if it fits parts of 1 / `ROOMY` of the mini-batch or more. On smaller parts, our
/// engines without workspace may be faster: at a limit of 0, they were in 13 problems of ResNet-50 in half, by 1.4 to
/// 6.6 times, and in 11 in TF32.
const ROOMY: usize = 2;
/// The factor between sizes at which the heuristics are queried.
pub const ASKED_EVERY: usize = 4;

/// A problem whose candidates are to be enumerated.
struct Job {
    page: Arc<Page>,
    /// The requested engine, and whether it fits the reported workspace.
    own: EngineConfiguration,
    requested_fits: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), has_thread: false });

/// Enumerates candidates for an entry of the calling thread's device. Then executions may explore.
pub fn begin(page: Arc<Page>, own: EngineConfiguration, requested_fits: bool) {
    let mut queue = QUEUE.lock();
    queue.jobs.push_back(Job { page, own, requested_fits });
    if std::mem::replace(&mut queue.has_thread, true) {
        return;
    }
    drop(queue);
    if !background::spawn(cudnn::device(), work, "what was not tuned yet runs as it was ready") {
        std::mem::take(&mut *QUEUE.lock());
    }
}

/// Works until the queue is empty.
fn work() {
    struct Panicked;
    impl Drop for Panicked {
        fn drop(&mut self) {
            QUEUE.lock().has_thread = false;
        }
    }
    let panicked = Panicked;
    loop {
        let mut queue = QUEUE.lock();
        let Some(job) = queue.jobs.pop_front().filter(|_| !background::stopped()) else {
            queue.has_thread = false;
            std::mem::forget(panicked);
            return;
        };
        drop(queue);
        let device = cudnn::device();
        let _entered = match job.page.key.place {
            Place::Device(ordinal) if ordinal != device.ordinal() => device.enter(ordinal),
            _ => None,
        };
        gather(&job);
    }
}

fn gather(job: &Job) {
    let Job { page, own, requested_fits } = job;
    let (key, device) = (&page.key, cudnn::device());
    let problem = &*key.problem;
    let record = Record::of(problem, device, device.ordinal());
    let wanted = Wanted::of_all(Goal::FastestWithin(page.probe().room()), key.sizes, key.class);
    let sizes = offers::sizes(problem, key.sizes);

    // Candidates that another process has found need no heuristics.
    let known = record.candidates(|batch, engine| sizes.contains(&batch) && key.class.admits(engine));
    let mut search = record.search(&wanted.clone().with_candidates(known), &[], &[End::Explored]);
    // The times of whole configurations in place decide. They are looked up once no candidate is left to time.
    if search.has_ended()
        && search.wants() == Next::Nothing
        && let Some(found) = execute::best_of(page, &search)
    {
        execute::settle_on(page, &search, Some(found));
        return;
    }
    let begin = Instant::now();
    let mut offers = std::mem::take(&mut page.state.lock().offers);
    // Keep only the engines of the fallback, out of all that were probed for it.
    let fallback = page.known_fallback().map(|fallback| fallback.configuration().parts()).unwrap_or_default();
    offers.retain(|engine| fallback.iter().any(|(_, micro)| micro.algorithm == *engine));
    collect(page, own, &sizes, &mut offers);
    let mut candidates = offers.best_first();
    let is_requested =
        |candidate: &Candidate<EngineConfiguration>| candidate.algorithm == *own && candidate.batch == problem.batch();
    candidates.sort_by_key(|candidate| !is_requested(candidate));
    let room = page.probe().room();
    let has_room = |candidate: &Candidate<_>| candidate.workspace <= room.before(problem.batch() - candidate.batch);
    candidates.retain(|candidate| *requested_fits || has_room(candidate));
    let wanted = wanted.with_candidates(candidates);
    search = record.search(&wanted, &[], &[End::Explored]);
    let (plans, elapsed) = (offers.count(), begin.elapsed());
    log::debug!("{problem}: {} of {plans} plans may be tried, known after {elapsed:?}", search.remaining());
    let mut state = page.state.lock();
    state.offers = offers;
    state.course = Course::Exploring(Box::new(Exploration::new(wanted, search, *own)));
}

/// How far down the heuristics' lists to look.
struct Depth {
    /// The number of engines of a list to look at.
    looked_at: usize,
    /// The number of fitting engines that is enough at a micro-batch size.
    enough: usize,
    /// Set to query the heuristics again for smaller sizes.
    asks_again: bool,
}

/// The heuristics' proposals at each queried size: for the tensors as stored, and for copies.
#[derive(Default)]
struct Proposals {
    known: HashMap<usize, [Vec<EngineConfiguration>; 2]>,
}

impl Proposals {
    fn at(&mut self, probe: &Probe, of: &mut MicroBatch) -> &[Vec<EngineConfiguration>; 2] {
        self.known.entry(of.batch()).or_insert_with(|| {
            let as_stored = offers::heuristics(probe, of, CUDNN_HEUR_MODE_A);
            let on_copies = offers::heuristics_on_copies(probe, of, &as_stored);
            [as_stored, on_copies]
        })
    }
}

/// Probes candidates at the micro-batch sizes: the requested engine, our engines, and the heuristics' proposals, for
/// copies of the tensors too. If no tensor core engine has enough workspace ([`ROOMY`]), our engines without workspace
/// follow. If nothing fits in large parts, all other engines follow, unless our engine computes a filter's gradient.
///
/// If the heuristics' best engine fits undivided, few are tried: parts win little there, the third engine of a list
/// wins nothing (3% in one of 68 problems of ResNet-50 in half), and each engine's code stays in the device's memory.
/// Otherwise, too, a list is not tried to its end: the engines far down need no workspace but take some ten times as
/// long, and would use up the budget of exploring.
fn collect(page: &Page, own: &EngineConfiguration, sizes: &[usize], offers: &mut Candidates) {
    const WITH_ROOM: Depth = Depth { looked_at: 8, enough: 2, asks_again: false };
    const FIRST: Depth = Depth { looked_at: 8, enough: 4, asks_again: true };
    const ALL: Depth = Depth { looked_at: usize::MAX, ..FIRST };
    let probe = page.probe();
    let of_all = &mut probe.micro_batch(page.key.problem.batch());
    offers.finalize_first(&probe, of_all, &[*own], 1);
    if let Place::Device(_) = page.key.place {
        offers.finalize_first(&probe, of_all, &our_engine::offered(&probe, probe.limit), 1);
    }
    let mut proposals = Proposals::default();
    let best = proposals.at(&probe, of_all)[0].first().copied();
    let depth = if offers.finalize_first(&probe, of_all, best.as_slice(), 1) > 0 { &WITH_ROOM } else { &FIRST };
    let have_room = collect_to(depth, &probe, &mut proposals, own, sizes, offers);
    if let Place::Device(_) = page.key.place
        && !offers.has_tensor_cores(page.key.problem.batch().div_ceil(ROOMY))
    {
        offers.finalize_first(&probe, of_all, &our_engine::offered_without_room(&probe, probe.limit), 1);
    }
    // Our engine is fastest then (for all 23 filters of ResNet-50 at a limit of 0), so we skip hundreds of others.
    let is_found = page.key.problem.convolution().direction == Direction::BackwardFilter && offers.has_ours();
    if !have_room && !is_found {
        collect_to(&ALL, &probe, &mut proposals, own, sizes, offers);
        let fallback = offers::heuristics(&probe, of_all, CUDNN_HEUR_MODE_FALLBACK);
        offers.finalize_first(&probe, of_all, &fallback, 1);
    }
}

/// Probes candidates at the micro-batch sizes, the largest first. At each size: the proposals for that size or for the
/// next larger queried size, and those for the whole mini-batch. Returns whether any of them fits in large parts.
fn collect_to(
    depth: &Depth,
    probe: &Probe,
    proposals: &mut Proposals,
    own: &EngineConfiguration,
    sizes: &[usize],
    offers: &mut Candidates,
) -> bool {
    let Depth { looked_at, enough, asks_again } = *depth;
    let batch = probe.problem.batch();
    let [whole, on_copies] = proposals.at(probe, &mut probe.micro_batch(batch)).clone();
    let (mut asked, mut proposed, mut converted) = (batch, whole.clone(), on_copies);
    let mut have_room = false;
    for &size in sizes {
        if background::stopped() {
            return true;
        }
        let is_large = size * SMALLEST_PART >= batch;
        let of = &mut probe.micro_batch(size);
        // Proposals for small parts bring yet other engines, whose code takes time to load.
        if asks_again && size <= asked / ASKED_EVERY && (is_large || !have_room) {
            asked = size;
            [proposed, converted] = proposals.at(probe, of).clone();
        }
        offers.finalize_first(probe, of, &[*own], 1);
        let mut offer = |engines: &[EngineConfiguration], enough| {
            offers.finalize_first(probe, of, &engines[..engines.len().min(looked_at)], enough)
        };
        let found = offer(&converted, ENOUGH_CONVERTED) + offer(&proposed, enough) + offer(&whole, enough / 2);
        have_room |= is_large && found > 0;
    }
    have_room
}
