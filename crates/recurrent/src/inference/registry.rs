//! The registry: the contest of each network that the program runs, found by content.

use std::sync::Arc;

use crate::inference::contestant::{InferenceContest, InferenceContestant, Key};
use crate::network::inference::Inference;
use cudnn::rnn::{Data, Network};
use tuning::contest::compiler::later;
use tuning::registry::Registry;

/// Unloading the kernels of forgotten contests may wait for the device.
static CONTESTS: Registry<Key, InferenceContest> = Registry::new(1 << 10, |_| false).forgetting_by(|forgotten| {
    later(move || drop(forgotten));
});

/// Returns the contest of a network on such data, on the calling thread's device.
pub fn contest(network: &Network, data: &Data) -> Arc<InferenceContest> {
    let key = Key { device: cudnn::device().ordinal(), inference: Inference::of(network, data) };
    CONTESTS.state(&key, || InferenceContest::new(InferenceContestant::new(key.clone())))
}
