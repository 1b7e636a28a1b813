//! Ctrl-C and SIGTERM: the first ends what the command does in good order, such as tuning after the current measurement.
//! The second ends the command at once.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::c_int;

/// Set by the first signal.
pub static STOP: AtomicBool = AtomicBool::new(false);
/// The first signal's number.
static SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGINT);

/// Makes the signals set [`STOP`] from now on.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler stores to atomics and calls `signal`, both of which a signal handler may do.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

/// Lets the signals end the process again.
pub fn release() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default action is no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

extern "C" fn note(signal: c_int) {
    STOP.store(true, Ordering::Relaxed);
    SIGNAL.store(signal, Ordering::Relaxed);
    // SAFETY: a signal handler may call `signal`; from now on the signal ends the process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Ends the process by the signal that stopped it, as shells and scripts expect of an interrupted command.
pub fn end() -> ! {
    let signal = SIGNAL.load(Ordering::Relaxed);
    // SAFETY: the default action of these signals ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}
