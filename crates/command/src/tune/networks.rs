//! `ucudnn tune --rnn`: times recurrent networks ahead of time, on cuDNN and on our kernels.

use ::recurrent::inference::ahead::{self, Job};
use ::recurrent::training;

use super::Options;
use super::timed::{self, Family};
use crate::Failure;
use crate::interrupt;
use crate::recurrent::description::{self, Described};
use crate::recurrent::{self, training as trained};

const FAMILY: Family =
    Family { option: "--rnn", subjects: "recurrent networks", whole: "network", timed: "network", all: " networks" };

/// The result for a network.
enum Found {
    Inference(ahead::Found),
    Training(training::ahead::Found),
}

enum Decision {
    Inference(recurrent::Decision),
    Training(trained::Decision),
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let networks = timed::read(options, &FAMILY, &options.rnn, description::read)?;
    let tune = |Described { network, trains }: &Described, device, progress: &dyn Fn(usize)| {
        let job = Job { network, device, stop: &interrupt::STOP, progress };
        match trains {
            false => ahead::tune(&job).map(Found::Inference),
            true => training::ahead::tune(&job).map(Found::Training),
        }
    };
    timed::run(options, &FAMILY, &networks, tune, decide, text_of)
}

fn decide(described: &Described, found: Found, why: String) -> Decision {
    let (network, spec) = (described.network.to_string(), described.network.spec());
    match found {
        Found::Inference(ahead::Found { chosen, first, step_times }) => {
            Decision::Inference(recurrent::Decision { network, spec, chosen, why, first, step_times })
        }
        Found::Training(training::ahead::Found { forward, backward, times }) => {
            Decision::Training(trained::Decision { network, spec, forward, backward, why, times })
        }
    }
}

/// The tables of inference and of training.
fn text_of(decisions: &[Decision], width: usize) -> String {
    let (mut inference, mut training) = (Vec::new(), Vec::new());
    for decision in decisions {
        match decision {
            Decision::Inference(decision) => inference.push(decision.clone()),
            Decision::Training(decision) => training.push(decision.clone()),
        }
    }
    let mut texts = Vec::new();
    if !inference.is_empty() {
        texts.push(recurrent::text_of(&inference, width));
    }
    if !training.is_empty() {
        texts.push(trained::text_of(&training, width));
    }
    texts.join("\n")
}
