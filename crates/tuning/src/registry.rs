//! A capped map of states by key, one for the whole process.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::RwLock;

type States<K, V> = HashMap<K, Arc<V>, foldhash::fast::RandomState>;

/// States by key. A program whose shapes never repeat must not fill the memory: beyond a number of states, the registry
/// forgets those that nobody needs.
pub struct Registry<K, V> {
    states: Lazy<RwLock<States<K, V>>>,
    /// The number of states that it always takes.
    least: usize,
    /// The number of states at which it next forgets some. It grows if many are needed.
    next: AtomicUsize,
    /// Returns true for a state that must stay although nobody holds it.
    is_needed: fn(&V) -> bool,
    /// Drops forgotten states. No lock is held meanwhile.
    forget: fn(Vec<(K, Arc<V>)>),
}

impl<K: Clone + Eq + Hash, V> Registry<K, V> {
    /// An empty registry.
    pub const fn new(least: usize, is_needed: fn(&V) -> bool) -> Self {
        Self { states: Lazy::new(RwLock::default), least, next: AtomicUsize::new(least), is_needed, forget: drop }
    }

    /// The registry, with another way to drop forgotten states.
    pub const fn forgetting_by(mut self, forget: fn(Vec<(K, Arc<V>)>)) -> Self {
        self.forget = forget;
        self
    }

    /// Returns the state of a key; makes one if there is none.
    pub fn state(&self, key: &K, make: impl FnOnce() -> V) -> Arc<V> {
        if let Some(state) = self.known(key) {
            return state;
        }
        let mut forgotten = Vec::new();
        let mut states = self.states.write();
        if states.len() >= self.next.load(Ordering::Relaxed) {
            // Nobody gets a state while we write, so one that nobody else holds now is in no use.
            forgotten.extend(states.extract_if(|_, state| Arc::strong_count(state) == 1 && !(self.is_needed)(state)));
            self.next.store(self.least.max(2 * states.len()), Ordering::Relaxed);
        }
        let state = states.entry(key.clone()).or_insert_with(|| Arc::new(make())).clone();
        drop(states);
        // This may destroy cuDNN's descriptors.
        if !forgotten.is_empty() {
            (self.forget)(forgotten);
        }
        state
    }

    /// Returns the state of a key, if it has one.
    pub fn known(&self, key: &K) -> Option<Arc<V>> {
        self.states.read().get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_cap_only_needed_and_held_states_stay() {
        static REGISTRY: Registry<u32, u32> = Registry::new(4, |state| *state == 100);
        let held = REGISTRY.state(&0, || 0);
        REGISTRY.state(&1, || 100);
        for key in 2..4 {
            REGISTRY.state(&key, || key);
        }
        assert!((0..4).all(|key| REGISTRY.known(&key).is_some()));
        REGISTRY.state(&4, || 4);
        let known: Vec<u32> = (0..=4).filter(|key| REGISTRY.known(key).is_some()).collect();
        assert_eq!(known, [0, 1, 4]);
        assert_eq!(REGISTRY.state(&0, || 7), held, "a state is made once");
    }
}
