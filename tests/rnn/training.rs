//! Training passes: on hostdnn plain, and with our kernels, whose launches are emulated.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::numerics::{Ratios, assert_exact, assert_exact_in_the_mean};
use super::program_with;
use crate::hostdnn::{Program, fault_points, has_emulator, report, seed};

/// Our kernels wherever they can run, by the model's first choice.
const FORCE: [(&str, &str); 2] = [("UCUDNN_RNN_TRAINING", "force"), ("UCUDNN_RNN_TOP_K", "1")];

/// No persistent kernel runs.
const BY_STEPS: (&str, &str) = ("UCUDNN_FAULT", "launch");

/// For each network, the kernels that ran forward and backward.
type Kernels = HashMap<String, [String; 2]>;

/// The networks that trained on our kernels, by the report.
fn ours(path: &Path) -> Kernels {
    let lines = report(path).into_iter().filter(|line| line["event"] == "rnn-training");
    let kernels = |line: &Value| ["forward", "backward"].map(|pass| line[pass].as_str().unwrap().to_owned());
    lines.map(|line| (line["spec"].to_string(), kernels(&line))).collect()
}

/// hostdnn rounds its reserve to the data's type, as cuDNN does: otherwise it is more exact than cuDNN can be.
const AS_CUDNN: (&str, &str) = ("HOSTDNN_RNN_RESERVE", "elements");

/// Networks of all cells, types, layouts, directions, layers, lengths, biases and dropout, with and without states: our
/// results and gradients are about as exact as hostdnn's own arithmetic in the same type, with the same masks.
#[test]
fn some_gradients_are_as_exact_as_without_us() {
    let Some((ours, _)) = gradients_are_as_exact_as_without_us(8, 5) else { return };
    assert!(ours.len() >= 4, "{ours:?}");
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_gradients_are_as_exact_as_without_us() {
    let Some((ours, ratios)) = gradients_are_as_exact_as_without_us(40, 14) else { return };
    for (ratios, differing) in ratios.into_iter().zip([40, 15]) {
        assert_exact_in_the_mean(&ratios);
        let differ = ratios.values().flatten().filter(|&&ratio| ratio != 1.0).count();
        assert!(differ > differing, "two implementations round alike: {differ}");
    }
    assert!(ours.len() > 30, "{ours:?}");
    for regime in ["block", "cluster"] {
        for pass in 0..2 {
            assert!(ours.values().any(|kernels| kernels[pass].starts_with(regime)), "no {regime}: {ours:?}");
        }
    }
}

/// Runs `count` networks, the first `by_steps` of them also with one launch a time step. Returns the kernels that ran,
/// and both runs' ratios of errors; `None` where no kernel runs.
fn gradients_are_as_exact_as_without_us(count: usize, by_steps: usize) -> Option<(Kernels, [Ratios; 2])> {
    let program = program_with("rnn_train_random", &["rnn_train.c"]);
    let report = program.file("report.jsonl");
    let (seed, all, few) = (seed().to_string(), count.to_string(), by_steps.to_string());
    let arguments = [seed.as_str(), &all];
    let plain = program.plain(&arguments, &[AS_CUDNN]).stdout;
    assert_eq!(plain.lines().count(), count + 1);
    let variables = [FORCE[0], FORCE[1], AS_CUDNN, ("UCUDNN_REPORT", report.to_str().unwrap())];
    let persistent = program.preloaded(&arguments, &variables);
    let first: String = plain.lines().take(by_steps).map(|line| format!("{line}\n")).collect();
    let steps = program.preloaded(&[seed.as_str(), &few], &[FORCE[0], FORCE[1], AS_CUDNN, BY_STEPS]);
    let ratios = [(&plain, &persistent), (&first, &steps)]
        .map(|(plain, run)| assert_exact(&with_errors(plain), &with_errors(&run.stdout)));
    has_emulator().then(|| {
        assert!(steps.stderr.contains("each time step is a launch from now on"), "{}", steps.stderr);
        (ours(&report), ratios)
    })
}

fn scenarios() -> Program {
    program_with("rnn_train_scenarios", &["rnn_train.c"])
}

/// The lines of a run that have errors.
fn with_errors(stdout: &str) -> String {
    stdout.lines().filter(|line| line.contains('|')).map(|line| format!("{line}\n")).collect()
}

/// The last sizes of workspaces and reserves that were reported to a run.
fn sizes(stdout: &str) -> Vec<[usize; 2]> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("sizes: "));
    let numbers = |line: &str| line.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<usize>>();
    lines.map(|line| numbers(line).try_into().unwrap()).collect()
}

/// Reserves that are cloned, moved or larger, algorithms that change, several forward calls before backward: all
/// results are as exact as without us, and calls that cuDNN refuses stay refused. Our reserves are hardly larger.
#[test]
fn all_reserves_lead_to_right_gradients() {
    let program = scenarios();
    let report = program.file("report.jsonl");
    let plain = program.plain(&["results"], &[AS_CUDNN]).stdout;
    let variables = [FORCE[0], FORCE[1], AS_CUDNN, ("UCUDNN_REPORT", report.to_str().unwrap())];
    let run = program.preloaded(&["results"], &variables);
    let steps = program.preloaded(&["results"], &[FORCE[0], FORCE[1], AS_CUDNN, BY_STEPS]);
    let others = |stdout: &str| {
        let lines = stdout.lines().filter(|line| !line.contains('|') && !line.starts_with("sizes"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    for run in [&run, &steps] {
        assert_exact(&with_errors(&plain), &with_errors(&run.stdout));
        assert_eq!(others(&plain), others(&run.stdout));
    }
    if has_emulator() {
        assert_eq!(ours(&report).len(), 4, "{}", run.stderr);
        for ([_, theirs], [_, ours]) in sizes(&plain).into_iter().zip(sizes(&run.stdout)) {
            assert!(ours >= theirs && ours <= theirs + (8 << 10), "{ours} and {theirs}");
        }
    }
}

/// Passes of cuDNN and of our side are alive together. Their reserves are copied to and fro, also to places where the
/// other owner had a reserve: the owner whose forward call ran also runs backward.
#[test]
fn backward_follows_forward_wherever_the_reserve_goes() {
    let program = scenarios();
    let plain = program.plain(&["both"], &[AS_CUDNN]).stdout;
    let run = program.preloaded(&["both"], &[FORCE[0], FORCE[1], AS_CUDNN]);
    assert_exact(&with_errors(&plain), &with_errors(&run.stdout));
    if has_emulator() {
        let counts = run.stdout.lines().filter_map(|line| line.strip_prefix("ours: ")?.parse::<usize>().ok());
        assert!(counts.clone().all(|count| (40..80).contains(&count)) && counts.count() == 4, "{}", run.stdout);
        assert_eq!(run.stderr, "");
    }
}

/// Backward on a reserve that forward did not leave gives NaN and an error line, and so does cuDNN's backward on a reserve
/// of ours that nobody expects. Afterwards the same memory serves cuDNN and us.
#[test]
fn no_wrong_gradient_is_silent() {
    if !has_emulator() {
        return;
    }
    let program = scenarios();
    for (scenarios, nans) in [("spoilt", 12), ("unexpected", 4)] {
        let run = program.preloaded(&[scenarios], &[FORCE[0], FORCE[1], AS_CUDNN]);
        assert_eq!(run.stdout.lines().filter(|line| line.ends_with("NaN")).count(), nans, "{}", run.stdout);
        let said = run.stderr.matches("got a reserve that its forward call did not leave").count();
        assert!(said >= nans, "{said} lines:\n{}", run.stderr);
    }
}

/// Whatever fails inside of us, all calls succeed and have the right results.
#[test]
fn failures_stay_inside() {
    let program = program_with("rnn_train_random", &["rnn_train.c"]);
    let arguments = ["11", "2"];
    let plain = program.plain(&arguments, &[AS_CUDNN]).stdout;
    let functions = [
        "cudnnGetRNNDescriptor_v8",
        "cudnnGetRNNDataDescriptor",
        "cudnnGetStream",
        "cudnnGetDropoutDescriptor",
        "cudnnDropoutGetReserveSpaceSize",
    ];
    let by_us = fault_points("crates/recurrent/src/training", &[]);
    assert!(by_us.len() >= 2, "{by_us:?}");
    // Forced kernels are not loaded ahead: `trained_choice` has this place.
    let by_us = by_us.into_iter().filter(|place| place != "rnn-training-load").map(|place| format!("panic:{place}"));
    let by_us = by_us.chain(["compiler", "compilation"].map(ToOwned::to_owned)).map(|fault| ("UCUDNN_FAULT", fault));
    let by_cudnn = functions.iter().map(|name| ("HOSTDNN_FAIL", format!("{name}:1+")));
    for (variable, fault) in by_us.chain(by_cudnn) {
        let run = program.preloaded(&arguments, &[FORCE[0], FORCE[1], AS_CUDNN, (variable, &fault)]);
        assert_exact(&plain, &run.stdout);
        let place = fault.strip_prefix("panic:").unwrap_or_default();
        assert!(run.stderr.contains(place), "{fault} does not strike: {}", run.stderr);
    }
}

/// If forward fails on our kernels, cuDNN runs it, and backward.
#[test]
fn a_forward_that_fails_is_cudnns() {
    let program = program_with("rnn_train_random", &["rnn_train.c"]);
    // Some of these networks have dropout.
    let arguments = ["5", "16"];
    let plain = program.plain(&arguments, &[AS_CUDNN]).stdout;
    let run =
        program.preloaded(&arguments, &[FORCE[0], FORCE[1], AS_CUDNN, ("HOSTDNN_FAIL", "cudnnDropoutForward:1+")]);
    assert_exact(&with_errors(&plain), &with_errors(&run.stdout));
    if has_emulator() {
        assert!(run.stderr.contains("cuDNN runs the call, and the next ones"), "{}", run.stderr);
    }
}

/// With the setting off every call goes to cuDNN, with the sizes that it reports.
#[test]
fn off_changes_nothing() {
    let program = scenarios();
    let plain = program.plain(&["results"], &[]).stdout;
    for off in [("UCUDNN_RNN_TRAINING", "off"), ("UCUDNN_RNN", "off"), ("UCUDNN_POLICY", "off")] {
        assert_eq!(program.preloaded(&["results"], &[off]).stdout, plain, "{off:?}");
    }
}

/// Calls with a wrong argument are refused where cuDNN refuses them, on reserves of either owner.
#[test]
fn hostile_calls_are_refused_as_without_us() {
    let program = program_with("rnn_train_hostile", &["rnn_train.c"]);
    let plain = program.plain(&[], &[]).stdout;
    assert_eq!(program.preloaded(&[], &FORCE).stdout, plain);
    let [runs, others] =
        [true, false].map(|runs| plain.lines().filter(|line| line.ends_with("_SUCCESS") == runs).count());
    assert!(runs > 20 && others > 40, "{plain}");
}

#[test]
fn another_schedule_gives_the_same_results() {
    schedules_give_the_same_results(["21", "1"], &["1"]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn any_schedule_gives_the_same_results() {
    schedules_give_the_same_results(["21", "2"], &["1", "2"]);
}

/// However the threads of blocks and the blocks of clusters take turns, the results of the program with these arguments
/// are the same. The first networks of seed 21 run in clusters.
fn schedules_give_the_same_results(arguments: [&str; 2], seeds: &[&str]) {
    if !has_emulator() {
        return;
    }
    let program = program_with("rnn_train_random", &["rnn_train.c"]);
    let in_order = program.preloaded(&arguments, &FORCE).stdout;
    for seed in seeds {
        let run = program.preloaded(&arguments, &[FORCE[0], FORCE[1], ("HOSTDNN_SCHEDULE_SEED", seed)]);
        assert_eq!(run.stdout, in_order, "seed {seed}");
    }
}
