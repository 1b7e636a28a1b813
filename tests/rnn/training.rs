//! Training passes: on hostdnn plain, and with our kernels, whose launches are emulated.

use std::collections::HashSet;
use std::path::Path;

use super::numerics::{assert_exact, assert_exact_in_the_mean};
use super::program_with;
use crate::hostdnn::{has_emulator, report, seed};

const FORCE: (&str, &str) = ("UCUDNN_RNN_TRAINING", "force");

/// The networks that trained on our kernels, by the report.
fn ours(path: &Path) -> HashSet<String> {
    let lines = report(path).into_iter().filter(|line| line["event"] == "rnn-training");
    lines.map(|line| line["spec"].to_string()).collect()
}

/// Networks of all cells, types, layouts, directions, layers, lengths, biases and dropout, with and without states: our
/// results and gradients are about as exact as hostdnn's own arithmetic in the same type, with the same masks.
#[test]
fn random_gradients_are_as_exact_as_without_us() {
    let program = program_with("rnn_train_random", &["rnn_train.c"]);
    let report = program.file("report.jsonl");
    let seed = seed().to_string();
    let arguments = [seed.as_str(), "40"];
    let plain = program.plain(&arguments, &[]).stdout;
    let variables = [FORCE, ("UCUDNN_REPORT", report.to_str().unwrap())];
    let run = program.preloaded(&arguments, &variables);
    let ratios = assert_exact(&plain, &run.stdout);
    assert_eq!(plain.lines().count(), 41);
    if has_emulator() {
        assert_exact_in_the_mean(&ratios);
        assert!(ours(&report).len() > 30, "{}\n{}", ours(&report).len(), run.stderr);
        let differ = ratios.values().flatten().filter(|&&ratio| ratio != 1.0).count();
        assert!(differ > 40, "two implementations round alike: {differ}");
    }
}
