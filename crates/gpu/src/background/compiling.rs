//! Compiles and loads kernels while the program runs: one at a time, on one thread, with rests in between.
//!
//! The driver and the compiler take locks that launches also take, and loading may wait for the device. To spare the
//! program, the thread rests several times as long as it has worked, and whoever times something discards times that were
//! measured while it worked ([`Quiet`]).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{rest, spawn};
use crate::Device;
use guest::settings::{self, Fault};

/// After a compilation, the thread rests this many times as long as the compilation took.
const REST: u32 = 4;

/// A job, and the device that it is for.
struct Job {
    device: Device,
    ordinal: i32,
    job: Box<dyn FnOnce() + Send>,
    /// What a panic of the job means.
    after_panic: &'static str,
}

/// What failures mean, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Otherwise {
    /// No thread can start.
    pub no_thread: &'static str,
    /// The job panics.
    pub panic: &'static str,
}

struct Queue {
    jobs: VecDeque<Job>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), has_thread: false });
static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// A promise to the queue that a thread starts. If the thread cannot start, dropping the promise drops the jobs.
struct Promise {
    is_kept: bool,
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.is_kept {
            let mut queue = QUEUE.lock();
            queue.has_thread = false;
            let jobs = std::mem::take(&mut queue.jobs);
            drop(queue);
            drop(jobs);
        }
    }
}

/// Queues a job for the compiling thread, which runs it on the calling thread's device. Queued jobs also run while the
/// process ends. If no thread can start, the job is dropped, and this returns false.
pub fn later(device: Device, otherwise: Otherwise, job: impl FnOnce() + Send + 'static) -> bool {
    let job = Job { device, ordinal: device.ordinal(), job: Box::new(job), after_panic: otherwise.panic };
    let mut queue = QUEUE.lock();
    queue.jobs.push_back(job);
    let has_thread = std::mem::replace(&mut queue.has_thread, true);
    drop(queue);
    let promise = Promise { is_kept: has_thread };
    has_thread || spawn(device, move || work(promise), otherwise.no_thread)
}

fn work(mut promise: Promise) {
    loop {
        let mut queue = QUEUE.lock();
        let Some(Job { device, ordinal, job, after_panic }) = queue.jobs.pop_front() else {
            queue.has_thread = false;
            promise.is_kept = true;
            return;
        };
        drop(queue);
        let done = catch_unwind(AssertUnwindSafe(|| {
            let Some(_entered) = device.enter(ordinal) else { return };
            job();
        }));
        if done.is_err() {
            log::error!("a panic inside ucudnn while it compiled: {after_panic}");
        }
    }
}

/// Compiles on the compiling thread, after its rest. `None`: the process is about to end.
pub fn gently<T>(compile: impl FnOnce() -> T) -> Option<T> {
    static RESTED: Mutex<Option<Instant>> = Mutex::new(None);
    let rested = *RESTED.lock();
    if !rest(rested.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))) {
        return None;
    }
    let begin = Instant::now();
    let compiled = now(compile);
    *RESTED.lock() = Some(Instant::now() + REST * begin.elapsed());
    Some(compiled)
}

/// Compiles on the calling thread.
pub fn now<T>(compile: impl FnOnce() -> T) -> T {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    BEGUN.fetch_add(1, Ordering::SeqCst);
    let _ended = Ended;
    compile()
}

/// Returns true if no compilation is running.
pub fn is_quiet() -> bool {
    Quiet::begin().is_some()
}

/// A period without compilations.
#[derive(Clone, Copy, Debug)]
pub struct Quiet(usize);

impl Quiet {
    /// Begins a period. `None`: a compilation is running.
    pub fn begin() -> Option<Self> {
        let begun = BEGUN.load(Ordering::SeqCst);
        (ENDED.load(Ordering::SeqCst) == begun).then_some(Self(begun))
    }

    /// Returns true if no compilation has begun since.
    pub fn lasts(self) -> bool {
        BEGUN.load(Ordering::SeqCst) == self.0
    }
}

/// Hangs until the process ends, if a test asked for it (`UCUDNN_FAULT`).
pub fn hang() -> Result<(), String> {
    if settings::get().fault == Some(Fault::Hang) {
        log::debug!("compiling hangs until the process ends: UCUDNN_FAULT asked for that");
        rest(Duration::MAX);
        return Err("UCUDNN_FAULT asked for compiling to hang".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_while_nothing_is_compiled() {
        let before = Quiet::begin().unwrap();
        assert!(before.lasts());
        assert_eq!(gently(|| Quiet::begin().is_none()), Some(true));
        let after = Quiet::begin().unwrap();
        assert!(!before.lasts() && after.lasts());
        assert!(std::panic::catch_unwind(|| now(|| panic!("a test's"))).is_err());
        assert!(Quiet::begin().is_some() && !after.lasts(), "a panic ends it too");
    }

    /// If a thread cannot start, its jobs are dropped, and the next job starts a thread again.
    #[test]
    fn what_no_thread_can_do_is_dropped() {
        let shared = std::sync::Arc::new(());
        for _ in 0..2 {
            let job = shared.clone();
            let job = Box::new(move || drop(job));
            QUEUE.lock().jobs.push_back(Job { device: Device::Host, ordinal: 0, job, after_panic: "" });
            QUEUE.lock().has_thread = true;
            drop(Promise { is_kept: false });
            assert!(QUEUE.lock().jobs.is_empty() && !QUEUE.lock().has_thread);
            assert_eq!(std::sync::Arc::strong_count(&shared), 1);
        }
    }
}
