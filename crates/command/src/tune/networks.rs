//! `ucudnn tune --rnn`: times recurrent networks ahead of time, on cuDNN and on our kernels.

use ::recurrent::ahead::{self, Found, Job};
use ::recurrent::inference::Inference;

use super::Options;
use super::timed::{self, Family};
use crate::Failure;
use crate::interrupt;
use crate::recurrent::{self, Decision};

const FAMILY: Family =
    Family { option: "--rnn", subjects: "recurrent networks", whole: "network", timed: "network", all: " networks" };

pub fn run(options: &Options) -> Result<(), Failure> {
    let networks = timed::read(options, &FAMILY, &options.rnn, recurrent::read)?;
    let tune = |network: &Inference, device, progress: &dyn Fn(usize)| {
        ahead::tune(&Job { network, device, stop: &interrupt::STOP, progress })
    };
    let decide = |network: &Inference, found: Found, why| Decision {
        network: network.to_string(),
        spec: network.spec(),
        chosen: found.chosen,
        why,
        first: found.first,
        step_times: found.step_times,
    };
    timed::run(options, &FAMILY, &networks, tune, decide, recurrent::text_of)
}
