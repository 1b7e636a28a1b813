//! `ucudnn tune --norm`: times batch normalization ahead of time, on cuDNN and on our kernels.

use ::norm::ahead::{self, Found, Job};
use ::norm::subject::Normalization;

use super::Options;
use super::timed::{self, Family};
use crate::Failure;
use crate::contests::{Contest, Contested};
use crate::interrupt;
use crate::normalization;

const FAMILY: Family = Family {
    option: "--norm",
    subjects: "batch normalization",
    whole: "tensor",
    timed: "batch normalization",
    all: "",
};

pub fn run(options: &Options) -> Result<(), Failure> {
    let subjects = timed::read(options, &FAMILY, &options.norm, normalization::read)?;
    let tune = |subject: &Normalization, device, progress: &dyn Fn(usize)| {
        ahead::tune(&Job { subject, device, bytes: options.bytes, stop: &interrupt::STOP, progress })
    };
    let decide = |subject: &Normalization, found: Found, why| Contest {
        kind: Contested::Norm,
        name: subject.to_string(),
        spec: subject.spec(),
        chosen: vec![found.chosen],
        why,
        first: None,
        times: vec![found.times],
    };
    timed::run(options, &FAMILY, &subjects, tune, decide)
}
