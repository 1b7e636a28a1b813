//! Compiles and loads kernels on all processors at once, where a caller waits for them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use gpu::background::compiling;
use guest::signals;

/// Makes `load` of each item, for the calling thread's device. Calls `each` on this thread after each of them, with the
/// number of those that remain; if that fails, no more begin, and this fails likewise. Returns the results in the items'
/// order.
pub fn load<T: Sync, R: Send, E>(
    items: &[T],
    load: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(usize) -> Result<(), E>,
) -> Result<Vec<R>, E> {
    let device = cudnn::device();
    let (ordinal, processors) = (device.ordinal(), thread::available_parallelism().map_or(1, |count| count.get()));
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (done, all_done) = mpsc::channel();
    let work = |done: mpsc::Sender<(usize, R)>| {
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let _ = done.send((index, compiling::now(|| load(item))));
        }
    };
    let mut loaded: Vec<Option<R>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let mut has_thread = false;
        for _ in 0..processors.min(items.len()) {
            let (work, done) = (&work, done.clone());
            let help = move || {
                signals::leave_to_program();
                let _entered = device.enter(ordinal);
                work(done);
            };
            let spawned = thread::Builder::new().name("ucudnn-compile".into()).spawn_scoped(scope, help);
            has_thread |= spawned.inspect_err(|error| log::info!("no thread to compile on: {error}")).is_ok();
        }
        if !has_thread {
            work(done.clone());
        }
        drop(done);
        for (count, (index, result)) in (1..).zip(all_done) {
            loaded[index] = Some(result);
            each(items.len() - count).inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    })?;
    Ok(loaded.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_told() {
        let items: Vec<usize> = (0..50).collect();
        let mut told = Vec::new();
        let loaded = load(
            &items,
            |item| 2 * item,
            |remaining| -> Result<(), ()> {
                told.push(remaining);
                Ok(())
            },
        );
        assert_eq!(loaded, Ok((0..50).map(|item| 2 * item).collect()));
        assert_eq!(told, (0..50).rev().collect::<Vec<_>>());
        assert_eq!(load(&[], |&(): &()| (), |_| Err(())), Ok(Vec::new()));
    }

    #[test]
    fn an_error_ends_it() {
        let mut told = Vec::new();
        let ended = load(
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
