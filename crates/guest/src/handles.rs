//! Objects by handle. A handle is a number that no other object of any kind has had, so a lookup detects handles that
//! are destroyed or foreign.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::RwLock;

type Objects<T> = HashMap<usize, Arc<T>, foldhash::fast::RandomState>;

/// The objects of one kind.
pub struct Handles<T>(Lazy<RwLock<Objects<T>>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Handles<T> {
    /// No objects yet.
    pub const fn new() -> Self {
        Self(Lazy::new(RwLock::default))
    }

    /// Stores an object and returns its handle, which is not 0.
    pub fn keep(&self, object: T) -> usize {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let handle = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.write().insert(handle, Arc::new(object));
        handle
    }

    /// Returns the object of a handle.
    pub fn find(&self, handle: usize) -> Option<Arc<T>> {
        self.0.read().get(&handle).cloned()
    }

    /// Forgets a handle. Its object is dropped once the caller and all running calls have let go of it.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.0.write().remove(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_or_foreign_handle_is_detected() {
        let (numbers, texts) = (Handles::new(), Handles::new());
        let (one, two, text) = (numbers.keep(1), numbers.keep(2), texts.keep("text"));
        assert_eq!(numbers.find(0), None);
        assert_eq!((numbers.find(text), texts.find(one)), (None, None));
        let used = numbers.find(one).unwrap();
        assert_eq!(numbers.remove(one).as_deref(), Some(&1));
        assert_eq!((numbers.find(one), numbers.remove(one)), (None, None));
        assert_eq!((*used, numbers.find(two).as_deref()), (1, Some(&2)));
        assert!(numbers.keep(3) > text);
    }
}
