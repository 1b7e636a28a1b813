//! The clock of hostdnn's devices: the time that their work takes. `HOSTDNN_CLOCK=NANOSECONDS` makes it count work in
//! place of time: so many nanoseconds for a multiply-add of an efficient product, by the estimate that ranks algorithms.
//! Then programs take the same times by this clock however busy the machine is, and a test can have a device as slow as
//! it likes. Each thread has a count of its own: what runs on another thread takes a thread's call no time.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The nanoseconds of a multiply-add; `None` if the clock measures time.
static COUNTS: LazyLock<Option<f64>> = LazyLock::new(|| {
    let text = std::env::var("HOSTDNN_CLOCK").ok()?;
    let counts = text.trim().parse().ok().filter(|nanoseconds| (1e-6..=1e6).contains(nanoseconds));
    if counts.is_none() {
        eprintln!("hostdnn: HOSTDNN_CLOCK={text:?} is not understood: it takes 1e-6 to 1e6; the clock measures time");
    }
    counts
});

thread_local! {
    /// The nanoseconds that this thread has counted.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// The time since some moment of this process, or what this thread has counted.
pub fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    match *COUNTS {
        Some(_) => Duration::from_nanos(COUNTED.get()),
        None => START.elapsed(),
    }
}

/// A device has done work of so many multiply-adds. `estimate` is not called if the clock measures time.
pub fn count(estimate: impl FnOnce() -> f64) {
    if let Some(nanoseconds) = *COUNTS {
        COUNTED.set(COUNTED.get() + (estimate() * nanoseconds) as u64);
    }
}
