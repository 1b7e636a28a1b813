//! Threads of ours that plan while the program runs. They end with the process: nothing may use cuDNN while the
//! libraries below it are being taken down. A forked process has none, and so plans nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::process_end;
use crate::signals;

/// The process is about to end.
pub static STOP: AtomicBool = AtomicBool::new(false);

static THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
/// The process that has them: what a fork copies of them cannot be joined.
static PROCESS: AtomicU32 = AtomicU32::new(0);

static RESTING: Mutex<()> = Mutex::new(());
static WAKE: Condvar = Condvar::new();

/// Has a thread of ours wait so long. False, at once, if the process is about to end.
pub fn rest(time: Duration) -> bool {
    let until = Instant::now().checked_add(time);
    let mut resting = RESTING.lock();
    while !stopped() && until.is_none_or(|until| until > Instant::now()) {
        match until {
            Some(until) => drop(WAKE.wait_until(&mut resting, until)),
            None => WAKE.wait(&mut resting),
        }
    }
    !stopped()
}

/// Whether planning is to end at once.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Runs `plan` on a thread of its own. Where there can be none, or the process is about to end, `plan` is dropped and
/// the answer is false. `otherwise` says in the log what that means, or what a panic of `plan` means.
pub fn spawn(plan: impl FnOnce() + Send + 'static, otherwise: &'static str) -> bool {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        process_end::call(stop);
    });
    process_end::works_for_this_thread();
    if stopped() || !has_threads() {
        return false;
    }
    let body = move || {
        signals::leave_to_program();
        if catch_unwind(AssertUnwindSafe(plan)).is_err() {
            log::error!("a panic inside ucudnn while it planned: {otherwise}");
        }
    };
    let mut threads = THREADS.lock();
    threads.retain(|thread| !thread.is_finished());
    match Builder::new().name("ucudnn-planning".into()).spawn(body) {
        Ok(thread) => {
            threads.push(thread);
            true
        }
        Err(error) => {
            log::warn!("no thread to plan on: {error}; {otherwise}");
            false
        }
    }
}

fn has_threads() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

fn stop() {
    if !has_threads() {
        return;
    }
    STOP.store(true, Ordering::Relaxed);
    // Whoever has not seen that waits by now.
    drop(RESTING.lock());
    WAKE.notify_all();
    for thread in THREADS.lock().drain(..) {
        let _ = thread.join(); // it has caught its own panics
    }
}
