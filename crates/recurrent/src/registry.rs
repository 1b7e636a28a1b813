//! The registry: the state of each network that the program runs, found by content.

use std::collections::HashMap;
use std::sync::Arc;

use once_cell::sync::Lazy;
use parking_lot::RwLock;

use super::state::{Key, State, later};
use crate::inference::Inference;
use cudnn::rnn::{Data, Network};

/// The most states: a program whose networks never come back must not fill the memory.
const MOST_STATES: usize = 1 << 10;

static STATES: Lazy<RwLock<HashMap<Key, Arc<State>, foldhash::fast::RandomState>>> = Lazy::new(RwLock::default);

/// Returns the state of a network on such data, on the calling thread's device.
pub fn state(network: &Network, data: &Data) -> Arc<State> {
    let key = Key { device: cudnn::device().ordinal(), inference: Inference::of(network, data) };
    if let Some(state) = STATES.read().get(&key) {
        return state.clone();
    }
    let mut forgotten = HashMap::default();
    let mut states = STATES.write();
    if states.len() >= MOST_STATES {
        std::mem::swap(&mut *states, &mut forgotten);
    }
    let state = states.entry(key.clone()).or_insert_with(|| Arc::new(State::new(key))).clone();
    drop(states);
    if !forgotten.is_empty() {
        // This unloads kernels, which may wait for the device.
        later(move || drop(forgotten));
    }
    state
}
