//! Networks by the handles that the program has. A handle is a number that is never given again: one that was destroyed,
//! or is none of ours, is found out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::RwLock;

use super::Rnn;

static RNNS: Lazy<RwLock<HashMap<usize, Arc<Rnn>, foldhash::fast::RandomState>>> = Lazy::new(RwLock::default);

/// Gives a network a handle, which is not 0.
pub fn keep(rnn: Rnn) -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let handle = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    RNNS.write().insert(handle, Arc::new(rnn));
    handle
}

/// The network of a handle.
pub fn find(handle: usize) -> Option<Arc<Rnn>> {
    RNNS.read().get(&handle).cloned()
}

/// Forgets a handle; its network, once no call runs with it any more, is gone when the caller drops it.
pub fn remove(handle: usize) -> Option<Arc<Rnn>> {
    RNNS.write().remove(&handle)
}
