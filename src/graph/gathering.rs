//! Finds out in the background what exploring may try of a kernel: cuDNN's heuristics take too long for the program to
//! wait. One thread does so for all kernels that have run often enough.

use std::collections::VecDeque;
use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use super::execute;
use super::offers::{self, Offers};
use super::page::{Course, Page, Place};
use crate::background;
use crate::cudnn::graph::EngineConfiguration;
use crate::device::Device;
use crate::tune::record::{End, Record, Wanted};
use crate::tune::running::Exploration;
use crate::tune::search::{Candidate, Goal, Next};

/// How many engines of each list are tried at a micro-batch size.
const ENOUGH: usize = 4;
/// How many where the heuristics' best has room undivided.
const ENOUGH_WITH_ROOM: usize = 2;
/// How many of those that run on copies of the tensors: they differ little.
const ENOUGH_CONVERTED: usize = 2;
/// Between sizes at which heuristics are asked lie factors of this.
pub const ASKED_EVERY: usize = 4;

/// A kernel to gather for.
struct Job {
    page: Arc<Page>,
    /// What the program runs, and whether that fits into what it was told.
    own: EngineConfiguration,
    own_fits: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), has_thread: false });

/// Gathers for a page of the calling thread's device; then executions may explore.
pub fn begin(page: Arc<Page>, own: EngineConfiguration, own_fits: bool) {
    let mut queue = QUEUE.lock();
    queue.jobs.push_back(Job { page, own, own_fits });
    if std::mem::replace(&mut queue.has_thread, true) {
        return;
    }
    drop(queue);
    if !background::spawn(Device::current(), work, "what was not tuned yet runs as it was ready") {
        std::mem::take(&mut *QUEUE.lock());
    }
}

/// Does what is queued.
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
        let device = Device::current();
        let _entered = match job.page.key.place {
            Place::Device(ordinal) if ordinal != device.ordinal() => device.enter(ordinal),
            _ => None,
        };
        gather(&job);
    }
}

fn gather(job: &Job) {
    let Job { page, own, own_fits } = job;
    let (key, device) = (&page.key, Device::current());
    let kernel = &*key.kernel;
    let record = Record::of(kernel, device, device.ordinal());
    let wanted = Wanted::of_all(Goal::FastestWithin(page.asking().room()), key.sizes, key.class);
    let sizes = offers::sizes(kernel, key.sizes);

    // What another process has found needs no heuristics.
    let known = record.candidates(|batch, engine| sizes.contains(&batch) && key.class.admits(engine));
    let mut search = record.search(&wanted.clone().with_candidates(known), &[], &[End::Explored]);
    // What ran in place decides, which is looked up when nothing is left to be timed.
    if search.has_ended() && search.wants() == Next::Nothing && search.best().is_some() {
        execute::settle_on(page, &search);
        return;
    }
    let mut offers = std::mem::take(&mut page.state.lock().offers);
    collect(page, own, &sizes, &mut offers);
    let mut candidates = offers.best_first();
    let is_own =
        |candidate: &Candidate<EngineConfiguration>| candidate.algorithm == *own && candidate.batch == kernel.batch();
    candidates.sort_by_key(|candidate| !is_own(candidate));
    let room = page.asking().room();
    let has_room = |candidate: &Candidate<_>| candidate.workspace <= room.before(kernel.batch() - candidate.batch);
    candidates.retain(|candidate| *own_fits || has_room(candidate));
    let wanted = wanted.with_candidates(candidates);
    search = record.search(&wanted, &[], &[End::Explored]);
    let mut state = page.state.lock();
    state.offers = offers;
    state.course = Course::Exploring(Box::new(Exploration::new(wanted, search, *own)));
}

/// What cuDNN offers at the micro-batch sizes, the largest first: at each what the heuristics propose for it or for the
/// next larger size at which they are asked, also for copies of the tensors, and what is best for the whole mini-batch.
/// Where their best has room undivided they are not asked again, and few are tried: parts have little to win there, what
/// comes third in heuristics has nothing (of 68 kernels of ResNet-50 in half 3% in one), and each engine more is code that
/// stays in the device's memory.
fn collect(page: &Page, own: &EngineConfiguration, sizes: &[usize], offers: &mut Offers) {
    let asking = page.asking();
    let batch = page.key.kernel.batch();
    let mut of_all = asking.micro_batch(batch);
    offers.finalize_first(&asking, &mut of_all, &[*own], 1);
    let whole = offers::heuristics(&asking, &mut of_all, CUDNN_HEUR_MODE_A);
    offers.finalize_first(&asking, &mut of_all, &whole[..whole.len().min(1)], 1);
    let best_has_room = whole.first().is_some_and(|best| offers.plan(batch, best).is_some());
    let enough = if best_has_room { ENOUGH_WITH_ROOM } else { ENOUGH };
    if !best_has_room {
        let fallback = offers::heuristics(&asking, &mut of_all, CUDNN_HEUR_MODE_FALLBACK);
        offers.finalize_first(&asking, &mut of_all, &fallback, 1);
    }
    let (mut asked, mut proposed) = (batch, whole.clone());
    let mut converted = offers::channels_last(&asking, &mut of_all, &whole);
    for &size in sizes {
        if background::stopped() {
            return;
        }
        let of = &mut asking.micro_batch(size);
        if size <= asked / ASKED_EVERY && !best_has_room {
            asked = size;
            proposed = offers::heuristics(&asking, of, CUDNN_HEUR_MODE_A);
            converted = offers::channels_last(&asking, of, &proposed);
        }
        offers.finalize_first(&asking, of, &[*own], 1);
        offers.finalize_first(&asking, of, &converted, ENOUGH_CONVERTED);
        offers.finalize_first(&asking, of, &proposed, enough);
        offers.finalize_first(&asking, of, &whole, enough / 2);
    }
}
