//! Ctrl-C and SIGTERM: the first ends tuning after what is being measured, the second ends the command at once.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::c_int;

/// Set by the first signal.
pub static STOP: AtomicBool = AtomicBool::new(false);
/// Which signal that was.
static SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGINT);

/// From here on signals set [`STOP`].
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does nothing but what a signal handler may.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

extern "C" fn note(signal: c_int) {
    STOP.store(true, Ordering::Relaxed);
    SIGNAL.store(signal, Ordering::Relaxed);
    // SAFETY: allowed in a handler; from now on the signal ends the process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Ends the process by the signal that stopped it, as shells and scripts expect of a command that was interrupted.
pub fn end() -> ! {
    let signal = SIGNAL.load(Ordering::Relaxed);
    // SAFETY: the default action of these signals ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}
