//! Spreading independent tasks over the cores.
//!
//! rayon compiles a large loop for each function that a loop runs. This loop is compiled once: it calls functions
//! through references.

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of `tasks` that run at once.
pub fn workers(tasks: usize) -> usize {
    rayon::current_num_threads().min(tasks).max(1)
}

/// Runs `work(task)` for every task below `tasks`, at least `in_turn` neighbours one after another. The calling
/// thread runs what cannot be shared: its turn would otherwise wait for another thread.
pub fn spread(tasks: usize, in_turn: usize, work: &(dyn Fn(usize) + Sync)) {
    if tasks <= in_turn || workers(tasks) == 1 {
        (0..tasks).for_each(work);
    } else {
        (0..tasks).into_par_iter().with_min_len(in_turn).for_each(work);
    }
}

/// What `work(task)` returns for every task below `tasks`.
pub fn map<T: Send + Sync>(tasks: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let results: Vec<OnceLock<T>> = (0..tasks).map(|_| OnceLock::new()).collect();
    spread(tasks, 1, &|task| {
        results[task].get_or_init(|| work(task));
    });
    results.into_iter().map(|result| result.into_inner().expect("every task has run")).collect()
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
    spread(workers(tasks), 1, &take);
}
