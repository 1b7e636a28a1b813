//! The threads that share the work of a run.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rayon::ThreadPool;

/// Threads for runs. All nets with the same number share them; they end with the last such net.
#[derive(Clone, Debug)]
pub struct Threads {
    /// `None`: the caller's thread alone.
    pool: Option<Arc<ThreadPool>>,
    count: usize,
    /// A forked child has none of its parent's threads.
    process: u32,
}

impl Threads {
    /// So many threads; 0 for one a core. Fewer if the system makes no more.
    pub fn new(count: usize) -> Self {
        /// By process and count.
        type Pools = HashMap<(u32, usize), Weak<ThreadPool>>;
        static POOLS: LazyLock<Mutex<Pools>> = LazyLock::new(Mutex::default);
        let count = match count {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            count => count,
        };
        let process = std::process::id();
        if count == 1 {
            return Self { pool: None, count, process };
        }
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |number| format!("ucudnn-host-{number}");
        let make = || rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(name).build().ok().map(Arc::new);
        let pool = pools.get(&(process, count)).and_then(Weak::upgrade).or_else(make);
        if let Some(pool) = &pool {
            pools.insert((process, count), Arc::downgrade(pool));
        }
        Self { count: if pool.is_some() { count } else { 1 }, pool, process }
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs work, and tells it how many threads may share it; in a forked child, one.
    pub(super) fn run<R: Send>(&self, work: impl FnOnce(usize) -> R + Send) -> R {
        match &self.pool {
            Some(pool) if self.process == std::process::id() => pool.install(|| work(self.count)),
            _ => work(1),
        }
    }
}

impl Drop for Threads {
    /// A forked child forgets the pool of its parent. Ending a pool takes its locks, and a thread of the parent may have
    /// held one of these locks when the process forked: the child would wait forever.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.pool.take());
        }
    }
}

/// Shares the numbers from `first` to `end` among threads, in parts of at least `least`.
pub(super) fn share(threads: usize, first: usize, end: usize, least: usize, work: &(impl Fn(usize, usize) + Sync)) {
    if threads <= 1 || end - first < 2 * least.max(1) {
        return work(first, end);
    }
    let half = threads / 2;
    let middle = first + (end - first) * half / threads;
    rayon::join(|| share(half, first, middle, least, work), || share(threads - half, middle, end, least, work));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_forgets_its_parents_threads() {
        let parents = Threads::new(2);
        let pool = parents.pool.clone().expect("two threads");
        let mut childs = parents.clone();
        let held = Arc::strong_count(&pool);
        childs.process += 1;
        drop(childs);
        assert_eq!(Arc::strong_count(&pool), held);
        drop(parents);
        assert_eq!(Arc::strong_count(&pool), held - 1);
    }
}
