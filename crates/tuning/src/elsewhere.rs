//! Waiting for the results of another process that tunes the same problem. They come by the database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks at the other process's results.
const LOOK: Duration = Duration::from_secs(1);
/// After this many looks, a process tunes for itself: the other one may no longer run the problem.
const MOST_LOOKS: u32 = 60;

/// The looks at one problem.
#[derive(Default)]
pub struct Elsewhere {
    /// How often another process was found to tune it.
    looks: AtomicU32,
}

impl Elsewhere {
    /// Another process was found to tune it once more. Returns whether to wait for that process.
    pub fn waits(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) < MOST_LOOKS
    }

    /// Returns whether it is time for another look after one at `since`.
    pub fn is_due(since: Instant) -> bool {
        since.elapsed() >= LOOK
    }
}
