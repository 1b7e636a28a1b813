//! Signals are the program's. One of our threads could take a signal that the program blocks in its own threads, and
//! run its handler where the program does not expect it. `libucudnn.so` and `libucudnn_solver.so` contain this file.

/// Signals that a thread raises by its own fault. The program may have a handler that reports them before it ends.
const OWN_FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// From here on, the calling thread, one of our own, takes no signal that is sent to the process.
pub fn leave_to_program() {
    let mut signals = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigfillset` initializes the set before any other use, and all pointers are valid during the calls.
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        for fault in OWN_FAULTS {
            libc::sigdelset(signals.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_threads_take_no_signals_but_their_own_faults() {
        let is_blocked = |signal| {
            let mut blocked = std::mem::MaybeUninit::uninit();
            // SAFETY: `blocked` is valid for writing, and the first call fills it before the second reads it.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
                libc::sigismember(blocked.as_ptr(), signal) == 1
            }
        };
        let ours = std::thread::spawn(move || {
            super::leave_to_program();
            [libc::SIGALRM, libc::SIGCHLD, libc::SIGTERM, libc::SIGSEGV].map(is_blocked)
        });
        assert_eq!(ours.join().unwrap(), [true, true, true, false]);
        assert!(!is_blocked(libc::SIGALRM));
    }
}
