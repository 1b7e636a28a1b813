//! The registry: the state of each network that the program runs, found by content.

use std::sync::Arc;

use super::compiler::later;
use super::state::{Key, State};
use crate::inference::Inference;
use cudnn::rnn::{Data, Network};
use tuning::registry::Registry;

/// The states that the registry always takes. Unloading the kernels of forgotten ones may wait for the device.
static STATES: Registry<Key, State> = Registry::new(1 << 10, |_| false).forgetting_by(|forgotten| {
    later(move || drop(forgotten));
});

/// Returns the state of a network on such data, on the calling thread's device.
pub fn state(network: &Network, data: &Data) -> Arc<State> {
    let key = Key { device: cudnn::device().ordinal(), inference: Inference::of(network, data) };
    STATES.state(&key, || State::new(key.clone()))
}
