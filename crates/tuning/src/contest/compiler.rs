//! The order in which the background compiles for contests: the first choice of every contest before the second of any,
//! and among contests that have as many the one in which the program spends the most time. The compiling thread also does
//! the other jobs that take long, such as unloading.
//!
//! A contest's kernels are compiled one at a time, each as a job of its own, so that a new contest's first choice waits
//! for one compilation and not for all of another's.

use std::cmp::Reverse;

use gpu::background::Queue;
use parking_lot::Mutex;

/// The candidates of a contest that are being compiled.
pub trait Job: Send + 'static {
    /// The number of the contest's device.
    fn device(&self) -> i32;
    /// The candidates that were compiled so far, or do not compile.
    fn compiled(&self) -> usize;
    /// The program's time in the contest's passes so far, in any unit that all contests share.
    fn spent(&self) -> u64;
    /// Compiles the next candidate. Returns false if nothing is left to do.
    fn compile_next(&mut self) -> bool;
}

/// Does one job after another.
static QUEUE: Queue = Queue::new(|| 1, "RNNs and batch normalization run as they did");

/// Queues a job for the compiling thread, on the calling thread's device.
pub fn later(job: impl FnOnce() + Send + 'static) -> bool {
    let device = cudnn::device();
    QUEUE.later(device, device.ordinal(), job)
}

static WAITING: Mutex<Vec<Box<dyn Job>>> = Mutex::new(Vec::new());

/// Compiles all candidates of a contest on the calling thread's device in the background. Returns false if there is no
/// thread to do so; then nothing is compiled.
pub fn begin(job: impl Job) -> bool {
    let device = job.device();
    let job: Box<dyn Job> = Box::new(job);
    let this = (&raw const *job).addr();
    WAITING.lock().push(job);
    let is_queued = later(move || compile_one(device));
    if !is_queued {
        let mut waiting = WAITING.lock();
        let index = waiting.iter().position(|job| (&raw const **job).addr() == this);
        let dropped = index.map(|index| waiting.swap_remove(index));
        drop(waiting);
        drop(dropped);
    }
    is_queued
}

/// Compiles one candidate, of the contest whose turn it is, and queues the next job.
fn compile_one(device: i32) {
    let mut waiting = WAITING.lock();
    let Some(index) = turn(&waiting, device) else { return };
    let mut job = waiting.swap_remove(index);
    drop(waiting);
    if job.compile_next() {
        WAITING.lock().push(job);
    }
    let is_done = WAITING.lock().iter().all(|job| job.device() != device);
    if !is_done {
        // Contests may wait without a job of their own, if no thread started for them.
        later(move || compile_one(device));
    }
}

/// The index of the contest whose turn it is on a device.
fn turn(waiting: &[Box<dyn Job>], device: i32) -> Option<usize> {
    let waiting = waiting.iter().enumerate().filter(|(_, job)| job.device() == device);
    waiting.min_by_key(|(_, job)| (job.compiled(), Reverse(job.spent()))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Toy {
        device: i32,
        compiled: usize,
        spent: u64,
    }

    impl Job for Toy {
        fn device(&self) -> i32 {
            self.device
        }

        fn compiled(&self) -> usize {
            self.compiled
        }

        fn spent(&self) -> u64 {
            self.spent
        }

        fn compile_next(&mut self) -> bool {
            self.compiled += 1;
            self.compiled < 3
        }
    }

    #[test]
    fn first_choices_come_first_and_then_the_program_s_time_decides() {
        let toy = |device, spent| -> Box<dyn Job> { Box::new(Toy { device, compiled: 0, spent }) };
        let mut waiting = vec![toy(0, 10), toy(0, 30), toy(1, 99), toy(0, 20)];
        let mut order = Vec::new();
        while let Some(index) = turn(&waiting, 0) {
            let mut job = waiting.remove(index);
            order.push(job.spent());
            if job.compile_next() {
                waiting.push(job);
            }
        }
        assert_eq!(order, [30, 20, 10, 30, 20, 10, 30, 20, 10]);
        assert_eq!(turn(&waiting, 1), Some(0), "another device's thread compiles for it");
    }
}
