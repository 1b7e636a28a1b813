//! The order in which the background compiles for networks: the first choice of every network before the second of any,
//! and among networks that have as many the one in which the program spends the most time. The compiling thread also does
//! the other jobs that take long, such as unloading.
//!
//! A network's kernels are compiled one at a time, each as a job of its own, so that a new network's first choice waits
//! for one compilation and not for all of another's.

use std::cmp::Reverse;

use gpu::background::Queue;
use parking_lot::Mutex;

/// A network whose candidates are being compiled.
pub trait Network: Send + 'static {
    /// The number of its device.
    fn device(&self) -> i32;
    /// The candidates that were compiled so far, or do not compile.
    fn compiled(&self) -> usize;
    /// The program's time in it so far, in any unit that all networks share.
    fn spent(&self) -> u64;
    /// Compiles the next candidate. Returns false if nothing is left to do.
    fn compile_next(&mut self) -> bool;
}

/// Does the jobs of one network after another.
static QUEUE: Queue = Queue::new("RNNs run as they did");

/// Queues a job for the compiling thread, on the calling thread's device.
pub fn later(job: impl FnOnce() + Send + 'static) -> bool {
    let device = cudnn::device();
    QUEUE.later(device, device.ordinal(), job)
}

static WAITING: Mutex<Vec<Box<dyn Network>>> = Mutex::new(Vec::new());

/// Compiles all candidates of a network of the calling thread's device in the background. Returns false if there is no
/// thread to do so; then nothing is compiled.
pub fn begin(network: impl Network) -> bool {
    let device = network.device();
    let network: Box<dyn Network> = Box::new(network);
    let this = (&raw const *network).addr();
    WAITING.lock().push(network);
    let is_queued = later(move || compile_one(device));
    if !is_queued {
        let mut waiting = WAITING.lock();
        let index = waiting.iter().position(|network| (&raw const **network).addr() == this);
        let dropped = index.map(|index| waiting.swap_remove(index));
        drop(waiting);
        drop(dropped);
    }
    is_queued
}

/// Compiles one candidate, of the network whose turn it is, and queues the next job.
fn compile_one(device: i32) {
    let mut waiting = WAITING.lock();
    let Some(index) = turn(&waiting, device) else { return };
    let mut network = waiting.swap_remove(index);
    drop(waiting);
    if network.compile_next() {
        WAITING.lock().push(network);
    }
    let is_done = WAITING.lock().iter().all(|network| network.device() != device);
    if !is_done {
        // Networks may wait without a job of their own, if no thread started for them.
        later(move || compile_one(device));
    }
}

/// The index of the network whose turn it is on a device.
fn turn(waiting: &[Box<dyn Network>], device: i32) -> Option<usize> {
    let waiting = waiting.iter().enumerate().filter(|(_, network)| network.device() == device);
    waiting.min_by_key(|(_, network)| (network.compiled(), Reverse(network.spent()))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Toy {
        device: i32,
        compiled: usize,
        spent: u64,
    }

    impl Network for Toy {
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
        let toy = |device, spent| -> Box<dyn Network> { Box::new(Toy { device, compiled: 0, spent }) };
        let mut waiting = vec![toy(0, 10), toy(0, 30), toy(1, 99), toy(0, 20)];
        let mut order = Vec::new();
        while let Some(index) = turn(&waiting, 0) {
            let mut network = waiting.remove(index);
            order.push(network.spent());
            if network.compile_next() {
                waiting.push(network);
            }
        }
        assert_eq!(order, [30, 20, 10, 30, 20, 10, 30, 20, 10]);
        assert_eq!(turn(&waiting, 1), Some(0), "another device's thread compiles for it");
    }
}
