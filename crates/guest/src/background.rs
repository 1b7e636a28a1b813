//! Background threads that plan while the program runs. We join them before the process ends: nothing may use cuDNN
//! while the libraries below it are being taken down. A forked process has no such threads, so it plans nothing.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::process_end;
use crate::room;
use crate::signals;

/// Set when the process is about to end.
pub static STOP: AtomicBool = AtomicBool::new(false);

static THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
/// The process that started the threads. A forked process copies their handles, but cannot join them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static IS_THIS_THREAD: Cell<bool> = const { Cell::new(false) };
}

static RESTING: Mutex<()> = Mutex::new(());
static WAKE: Condvar = Condvar::new();

/// Lets a background thread sleep for `time`. Returns false at once if the process is about to end.
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

/// Returns whether the calling thread is one of these.
pub fn is_this_thread() -> bool {
    IS_THIS_THREAD.get()
}

/// True if planning has to end at once.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Runs `plan` on a thread of its own. Where there can be none, where too little memory is left for its work
/// ([`room`]), or if the process is about to end, `plan` is dropped and the answer is false. The log then names the
/// consequence, `otherwise`; so it does if `plan` panics.
pub fn spawn(plan: impl FnOnce() + Send + 'static, otherwise: &'static str) -> bool {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        process_end::call(stop);
    });
    process_end::works_for_this_thread();
    if stopped() || !has_threads() || !room::is_left_or(otherwise) {
        return false;
    }
    let body = move || {
        signals::leave_to_program();
        IS_THIS_THREAD.set(true);
        if catch_unwind(AssertUnwindSafe(plan)).is_err() {
            log::error!("a panic inside ucudnn while it planned: {otherwise}");
        }
    };
    let mut threads = THREADS.lock();
    // `stop` has taken the threads by now, and would not join another one.
    if stopped() {
        return false;
    }
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
    // Now that we have had the lock, each resting thread has seen `STOP` or waits for `WAKE`.
    drop(RESTING.lock());
    WAKE.notify_all();
    // Without the lock, which a thread takes that starts another one.
    let threads = std::mem::take(&mut *THREADS.lock());
    for thread in threads {
        let _ = thread.join(); // the thread caught its own panics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that starts others while the process ends does not wait for what waits for it.
    #[test]
    fn a_thread_may_start_others_at_the_end() {
        for _ in 0..20 {
            assert!(spawn(|| while spawn(|| (), "") {}, ""));
            stop();
            assert!(THREADS.lock().is_empty());
            STOP.store(false, Ordering::Relaxed);
        }
    }
}
