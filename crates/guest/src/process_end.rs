//! Our shutdown hook, which runs before the process takes its libraries down. Exit handlers and library destructors run
//! in reverse order of registration, so we register again after each library load. Parts that a library creates while
//! it works register last and go first. The main thread's own variables go before all, if it ends the process.

use once_cell::sync::OnceCell;

static END: OnceCell<fn()> = OnceCell::new();

/// Calls `end` when the process ends, before the libraries loaded so far are taken down. The process has one such
/// function: the first `end` stays, and runs once for each registration.
pub fn call(end: fn()) {
    END.get_or_init(|| end);
    loaded();
}

/// Registers the hook again after a library load, so that the hook runs before that library is taken down.
pub fn loaded() {
    // SAFETY: the handler is a function of this library, which is never unloaded while it runs.
    unsafe { libc::atexit(at_exit) };
}

/// Notes that a background thread works for the calling thread. If that is the main thread, and it ends the process,
/// the hook then runs before everything else.
pub fn works_for_this_thread() {
    if is_main_thread() {
        // While the thread's variables are being destroyed, there is nothing left to register.
        let _ = OF_MAIN_THREAD.try_with(|_| ());
    }
}

struct OfMainThread;

impl Drop for OfMainThread {
    fn drop(&mut self) {
        at_exit();
    }
}

thread_local! {
    static OF_MAIN_THREAD: OfMainThread = const { OfMainThread };
}

fn is_main_thread() -> bool {
    // glibc has gettid itself only since 2.30.
    // SAFETY: both calls take nothing and return a number.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) }
}

extern "C" fn at_exit() {
    if let Some(end) = END.get() {
        end();
    }
}
