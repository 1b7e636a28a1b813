//! What is over before the process takes its libraries down. These go in the reverse of the order in which they came, and
//! so do those who asked to be called, among them; but parts of a library that it makes while it works come last of all and
//! go first. Before any of them go the main thread's own variables, where it is that thread that ends the process.

use once_cell::sync::OnceCell;

static END: OnceCell<fn()> = OnceCell::new();

/// Has `end` called when the process ends, before what has been loaded by now is taken down. There is one such function,
/// which is called again for each time that it was asked for.
pub fn call(end: fn()) {
    END.get_or_init(|| end);
    loaded();
}

/// A library has been loaded: what ends is over before that is taken down too.
pub fn loaded() {
    // SAFETY: the handler is a function of this library, which is never unloaded while it runs.
    unsafe { libc::atexit(at_exit) };
}

/// The calling thread has what it asked for worked on beside it: if it is the main one, and the process ends by it, all
/// ends before anything else.
pub fn works_for_this_thread() {
    if is_main_thread() {
        // During its own end there is nothing to register any more.
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
    // SAFETY: both only answer.
    unsafe { libc::gettid() == libc::getpid() }
}

extern "C" fn at_exit() {
    if let Some(end) = END.get() {
        end();
    }
}
