//! Jobs that a few background threads do in turn.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use guest::background::spawn;
use guest::room;

use crate::Device;

/// A queue of jobs, and the threads that do them while there are any.
pub struct Queue {
    waiting: Mutex<Waiting>,
    /// The most threads.
    most: fn() -> usize,
    /// The log's words on jobs that are not done: no thread can start, or a job panics.
    otherwise: &'static str,
}

struct Waiting {
    jobs: VecDeque<Job>,
    /// The threads that do jobs, and those that are about to start.
    threads: usize,
}

/// A job, and the device that it is for.
struct Job {
    device: Device,
    ordinal: i32,
    work: Box<dyn FnOnce() + Send>,
}

/// A promise to the queue that a thread starts. If the thread cannot start, and there is no other, dropping the promise
/// drops the jobs.
struct Promise {
    queue: &'static Queue,
    is_kept: bool,
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.is_kept {
            let mut waiting = self.queue.waiting.lock();
            waiting.threads -= 1;
            let jobs = if waiting.threads == 0 { std::mem::take(&mut waiting.jobs) } else { VecDeque::new() };
            drop(waiting);
            drop(jobs);
        }
    }
}

impl Queue {
    /// An empty queue for as many threads as `most` says, one at the least.
    pub const fn new(most: fn() -> usize, otherwise: &'static str) -> Self {
        Self { waiting: Mutex::new(Waiting { jobs: VecDeque::new(), threads: 0 }), most, otherwise }
    }

    /// Queues a job for the device with this number. Queued jobs also run while the process ends. If no thread can start,
    /// or if too little memory is left ([`room`]), the job is dropped, and this returns false.
    pub fn later(&'static self, device: Device, ordinal: i32, work: impl FnOnce() + Send + 'static) -> bool {
        if !room::is_left_or(self.otherwise) {
            return false;
        }
        let mut waiting = self.waiting.lock();
        waiting.jobs.push_back(Job { device, ordinal, work: Box::new(work) });
        let others = waiting.threads;
        if others >= (self.most)().max(1) {
            return true;
        }
        waiting.threads += 1;
        drop(waiting);
        let promise = Promise { queue: self, is_kept: false };
        spawn(move || self.work(promise), self.otherwise) || others > 0
    }

    fn work(&self, mut promise: Promise) {
        loop {
            let mut waiting = self.waiting.lock();
            let Some(Job { device, ordinal, work }) = waiting.jobs.pop_front() else {
                waiting.threads -= 1;
                promise.is_kept = true;
                return;
            };
            drop(waiting);
            // Earlier jobs, or the program, may have taken the memory that was left.
            if !room::is_left_or(self.otherwise) {
                continue;
            }
            let done = catch_unwind(AssertUnwindSafe(|| {
                let Some(_entered) = device.enter(ordinal) else { return };
                work();
            }));
            if done.is_err() {
                log::error!("a panic inside ucudnn in the background: {}", self.otherwise);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a thread cannot start, its jobs are dropped, and the next job starts a thread again.
    #[test]
    fn what_no_thread_can_do_is_dropped() {
        static QUEUE: Queue = Queue::new(|| 1, "");
        let shared = std::sync::Arc::new(());
        for _ in 0..2 {
            let job = shared.clone();
            let work = Box::new(move || drop(job));
            QUEUE.waiting.lock().jobs.push_back(Job { device: Device::Host, ordinal: 0, work });
            QUEUE.waiting.lock().threads = 2;
            drop(Promise { queue: &QUEUE, is_kept: false });
            assert_eq!(QUEUE.waiting.lock().jobs.len(), 1, "another thread does it");
            drop(Promise { queue: &QUEUE, is_kept: false });
            assert!(QUEUE.waiting.lock().jobs.is_empty() && QUEUE.waiting.lock().threads == 0);
            assert_eq!(std::sync::Arc::strong_count(&shared), 1);
        }
    }

    /// Jobs that wait for each other end where each has a thread. A queue has no more threads than it may have.
    #[test]
    fn some_jobs_are_done_at_once() {
        const MOST: usize = 3;
        static QUEUE: Queue = Queue::new(|| MOST, "");
        static MEETING: std::sync::Barrier = std::sync::Barrier::new(MOST);
        let (sender, done) = std::sync::mpsc::channel();
        for _ in 0..2 * MOST {
            let sender = sender.clone();
            let threads = || QUEUE.waiting.lock().threads;
            assert!(QUEUE.later(Device::Host, 0, move || {
                MEETING.wait();
                sender.send(threads()).unwrap();
            }));
        }
        assert!((0..2 * MOST).all(|_| done.recv().unwrap() <= MOST));
    }

    #[test]
    fn a_panic_ends_its_job_alone() {
        static QUEUE: Queue = Queue::new(|| 1, "");
        let (sender, done) = std::sync::mpsc::channel();
        assert!(QUEUE.later(Device::Host, 0, || panic!("a test's")));
        assert!(QUEUE.later(Device::Host, 0, move || sender.send(()).unwrap()));
        done.recv().unwrap();
    }
}
