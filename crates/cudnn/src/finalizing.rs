//! The order in which threads finalize execution plans.
//!
//! cuDNN compiles kernels while it finalizes some plans, and other threads that finalize wait. While four threads in the
//! background finalized candidates, a plan of the program's took 727 ms for 177 (a convolution of sequences with 96 groups,
//! on an H200). So the background finalizes one plan at a time, and begins none while the program does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use guest::background;
use parking_lot::Mutex;

/// The threads of the program that finalize.
static OF_PROGRAM: AtomicUsize = AtomicUsize::new(0);
/// Held by the thread in the background that finalizes.
static IN_BACKGROUND: Mutex<()> = Mutex::new(());
/// How long the background waits before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// Finalizes for the program, on its thread.
pub fn for_program<T>(finalize: impl FnOnce() -> T) -> T {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            OF_PROGRAM.fetch_sub(1, Ordering::Release);
        }
    }
    OF_PROGRAM.fetch_add(1, Ordering::Acquire);
    let _left = Left;
    finalize()
}

/// Finalizes a plan of ours. A background thread first waits until no other thread finalizes.
pub fn in_turn<T>(finalize: impl FnOnce() -> T) -> T {
    let turn = background::is_this_thread().then(|| IN_BACKGROUND.lock());
    if turn.is_some() {
        while OF_PROGRAM.load(Ordering::Acquire) > 0 && background::rest(PAUSE) {}
    }
    finalize()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_background_begins_after_the_program() {
        let (say, hear) = mpsc::channel();
        let is_begun = for_program(|| {
            let say_begun = say.clone();
            let body = move || {
                say_begun.send("waits").unwrap();
                in_turn(|| say_begun.send("background").unwrap());
            };
            let is_begun = background::spawn(body, "a test");
            if is_begun {
                assert_eq!(hear.recv(), Ok("waits"));
                // Without turns the background would be first, but for chance.
                std::thread::sleep(20 * PAUSE);
                // The program's own thread waits for nothing.
                in_turn(|| say.send("program").unwrap());
            }
            is_begun
        });
        assert!(is_begun);
        assert_eq!([hear.recv(), hear.recv()], [Ok("program"), Ok("background")]);
    }

    #[test]
    fn the_background_finalizes_one_plan_at_a_time() {
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        let (say, hear) = mpsc::channel();
        for _ in 0..4 {
            let say = say.clone();
            let body = move || {
                for _ in 0..50 {
                    let before = in_turn(|| {
                        let before = AT_ONCE.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        AT_ONCE.fetch_sub(1, Ordering::SeqCst);
                        before
                    });
                    say.send(before).unwrap();
                }
            };
            assert!(background::spawn(body, "a test"));
        }
        drop(say);
        assert_eq!(hear.iter().collect::<Vec<_>>(), [0; 200]);
    }
}
