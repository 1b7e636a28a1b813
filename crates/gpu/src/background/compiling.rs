//! Compiles and loads kernels while the program runs: one at a time, with rests in between.
//!
//! The driver and the compiler take locks that launches also take, and loading may wait for the device. To spare the
//! program, a background thread rests several times as long as it has compiled, and whoever times something discards
//! times that were measured while anything was compiled ([`Quiet`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::rest;
use guest::settings::{self, Fault};

/// After a compilation, the thread rests this many times as long as the compilation took.
const REST: u32 = 4;

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Compiles on a background thread, after its rest. `None`: the process is about to end.
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
}
