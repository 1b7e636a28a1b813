//! Spreading independent tasks over the cores.

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of `tasks` that run at once.
pub fn workers(tasks: usize) -> usize {
    rayon::current_num_threads().min(tasks).max(1)
}

/// Runs `work(worker, task)` for every task below `tasks`, each worker below [`workers`] one task at a time.
pub fn for_each(tasks: usize, work: impl Fn(usize, usize) + Sync) {
    let next = AtomicUsize::new(0);
    let take = |worker| {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            work(worker, task);
        }
    };
    match workers(tasks) {
        1 => take(0),
        workers => (0..workers).into_par_iter().for_each(take),
    }
}
