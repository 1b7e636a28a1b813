//! Networks by handle. A handle is a number that is never reused, so a lookup detects handles that are destroyed or
//! foreign.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::RwLock;

use super::Rnn;

static RNNS: Lazy<RwLock<HashMap<usize, Arc<Rnn>, foldhash::fast::RandomState>>> = Lazy::new(RwLock::default);

/// Stores a network and returns its handle, which is not 0.
pub fn keep(rnn: Rnn) -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let handle = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    RNNS.write().insert(handle, Arc::new(rnn));
    handle
}

/// Returns the network of a handle.
pub fn find(handle: usize) -> Option<Arc<Rnn>> {
    RNNS.read().get(&handle).cloned()
}

/// Forgets a handle. Its network is freed once the caller and all running calls have dropped it.
pub fn remove(handle: usize) -> Option<Arc<Rnn>> {
    RNNS.write().remove(&handle)
}
