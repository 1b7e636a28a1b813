//! `ucudnn tune --rnn`: times recurrent networks ahead of time, on cuDNN and on our kernels.

use ::recurrent::inference::ahead::{self, Job};
use ::recurrent::training;

use super::Options;
use super::timed::{self, Family};
use crate::Failure;
use crate::contests::{Contest, Contested};
use crate::interrupt;
use crate::recurrent::{self, Described};

const FAMILY: Family =
    Family { option: "--rnn", subjects: "recurrent networks", whole: "network", timed: "network", all: " networks" };

/// The result for a network.
enum Found {
    Inference(ahead::Found),
    Training(training::ahead::Found),
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let networks = timed::read(options, &FAMILY, &options.rnn, recurrent::read)?;
    let tune = |Described { network, trains }: &Described, device, progress: &dyn Fn(usize)| {
        let job = Job { network, device, stop: &interrupt::STOP, progress };
        match trains {
            false => ahead::tune(&job).map(Found::Inference),
            true => training::ahead::tune(&job).map(Found::Training),
        }
    };
    timed::run(options, &FAMILY, &networks, tune, decide)
}

fn decide(described: &Described, found: Found, why: String) -> Contest {
    let (name, spec) = (described.network.to_string(), described.network.spec());
    match found {
        Found::Inference(ahead::Found { chosen, first, step_times }) => Contest {
            kind: Contested::Inference,
            name,
            spec,
            chosen: vec![chosen],
            why,
            first,
            times: vec![step_times],
        },
        Found::Training(training::ahead::Found { forward, backward, times }) => {
            let chosen = vec![forward, backward];
            Contest { kind: Contested::Training, name, spec, chosen, why, first: None, times: times.into() }
        }
    }
}
