//! The thread that plans while the program runs. It ends with the process: nothing may use cuDNN while
//! the libraries below it are being taken down.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

use super::network::Planning;
use crate::legacy::policies::Policies;

/// The process is about to end.
pub static STOP: AtomicBool = AtomicBool::new(false);

static THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Whether planning is to end at once.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Plans on a thread of its own, on the calling thread's device. Where there can be none, nothing
/// changes.
pub fn plan(planning: Planning, policies: Policies) {
    static AT_EXIT: Once = Once::new();
    // Handlers run in reverse order: before those of all that was loaded by now.
    // SAFETY: the handler is a function of this library, which is never unloaded while it runs.
    AT_EXIT.call_once(|| unsafe {
        libc::atexit(stop);
    });
    let device = planning.device();
    let ordinal = device.ordinal();
    let body = move || {
        let planned = catch_unwind(AssertUnwindSafe(|| {
            let Some(_entered) = device.enter(ordinal) else { return };
            planning.plan(&policies, false);
        }));
        if planned.is_err() {
            log::error!("a panic inside ucudnn while it planned: the workspace stays divided as it was");
        }
    };
    let mut threads = THREADS.lock();
    threads.retain(|thread| !thread.is_finished());
    match Builder::new().name("ucudnn-planning".into()).spawn(body) {
        Ok(thread) => threads.push(thread),
        Err(error) => log::warn!("no thread to plan on: {error}; the workspace stays divided as it was"),
    }
}

extern "C" fn stop() {
    STOP.store(true, Ordering::Relaxed);
    for thread in THREADS.lock().drain(..) {
        let _ = thread.join(); // it has caught its own panics
    }
}
