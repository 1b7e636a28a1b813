//! What is over before the process takes its libraries down: these go in the reverse of the order in which they came, and
//! so do those who asked to be called, among them.

use once_cell::sync::OnceCell;

static END: OnceCell<fn()> = OnceCell::new();

/// Has `end` called when the process ends, before what has been loaded by now is taken down. There is one such function.
pub fn call(end: fn()) {
    END.get_or_init(|| end);
    loaded();
}

/// A library has been loaded: what ends is over before that is taken down too. `end` is called once for each time.
pub fn loaded() {
    // SAFETY: the handler is a function of this library, which is never unloaded while it runs.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    if let Some(end) = END.get() {
        end();
    }
}
