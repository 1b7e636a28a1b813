//! Compiling on all processors, where a caller waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use guest::{room, signals};

use crate::background::compiling;

/// Does `work` for each item on threads of our own. `each` is called on this thread after each item, with the number of
/// those that remain. If it fails, no more begin, and this fails likewise.
pub fn all<T: Sync, E>(
    items: &[T],
    work: impl Fn(&T) + Sync,
    mut each: impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let do_next = || {
        let item = items.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !is_over.load(Ordering::Relaxed));
        item.map(|item| compiling::now(|| work(item))).is_some()
    };
    let mut remaining = items.len();
    let mut told = || {
        remaining -= 1;
        each(remaining).inspect_err(|_| is_over.store(true, Ordering::Relaxed))
    };
    thread::scope(|scope| {
        let (done, all_done) = mpsc::channel();
        let mut threads = 0;
        for _ in (0..processors.min(items.len())).take_while(|_| room::is_left()) {
            let (do_next, done) = (&do_next, done.clone());
            let help = move || {
                signals::leave_to_program();
                while do_next() {
                    let _ = done.send(());
                }
            };
            let spawned = thread::Builder::new().name("ucudnn-compile".into()).spawn_scoped(scope, help);
            threads += usize::from(spawned.inspect_err(|error| log::info!("no thread to compile on: {error}")).is_ok());
        }
        drop(done);
        if threads > 0 {
            return all_done.into_iter().try_for_each(|()| told());
        }
        while do_next() {
            told()?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once_and_told() {
        let done: Vec<_> = (0..50).map(|_| AtomicUsize::new(0)).collect();
        let mut told = Vec::new();
        let count = |item: &AtomicUsize| {
            item.fetch_add(1, Ordering::Relaxed);
        };
        let ended = all(&done, count, |remaining| -> Result<(), ()> {
            told.push(remaining);
            Ok(())
        });
        assert_eq!((ended, told), (Ok(()), (0..50).rev().collect()));
        assert!(done.iter().all(|item| item.load(Ordering::Relaxed) == 1));
        assert_eq!(all(&[(); 0], |&()| (), |_| Err(())), Ok(()));
    }

    #[test]
    fn an_error_ends_it() {
        let mut told = Vec::new();
        let ended = all(
            &[(); 50],
            |&()| (),
            |remaining| {
                told.push(remaining);
                if remaining == 45 { Err("stop") } else { Ok(()) }
            },
        );
        assert_eq!((ended, told), (Err("stop"), vec![49, 48, 47, 46, 45]));
    }
}
