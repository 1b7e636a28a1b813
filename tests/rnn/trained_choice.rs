//! The choice between cuDNN and our kernels for a network that trains: in the program's own passes, all of which have
//! right gradients, and in the next process by the database.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{change_database, program_with};
use crate::command::Installed;
use crate::hostdnn::{Program, has_emulator, report};

const CALLS: [&str; 3] = ["forward", "data", "weights"];

/// A program that trains an LSTM until the library decides, with its own database.
struct Network {
    program: Program,
    database: PathBuf,
    runs: usize,
}

impl Network {
    fn new() -> Self {
        let program = program_with("rnn_train_until", &["rnn_train.c"]);
        Self { database: program.file("tuning.sqlite"), program, runs: 0 }
    }

    /// Trains until the first decision, or for `passes` passes. Returns all decisions.
    fn train(&mut self, passes: Option<&str>, variables: &[(&str, &str)]) -> Vec<Value> {
        self.runs += 1;
        let path = self.program.file(&format!("report-{}.jsonl", self.runs));
        let (path_name, database) = (path.to_str().unwrap(), self.database.to_str().unwrap());
        let ours = [("UCUDNN_RNN_TOP_K", "2"), ("UCUDNN_REPORT", path_name), ("UCUDNN_DATABASE", database)];
        let arguments: Vec<_> = [path_name].into_iter().chain(passes).collect();
        self.program.preloaded(&arguments, &[&ours, variables].concat());
        let lines = if path.exists() { report(&path) } else { Vec::new() };
        lines.into_iter().filter(|line| line["event"] == "rnn-training").collect()
    }

    /// Trains until the one decision.
    fn decide(&mut self, passes: Option<&str>, variables: &[(&str, &str)]) -> Value {
        let decisions = self.train(passes, variables);
        let [decision] = &decisions[..] else { panic!("{decisions:?}") };
        decision.clone()
    }
}

/// The candidates that were timed for a call, with milliseconds a step.
fn times(decision: &Value, call: &str) -> Vec<(String, f64)> {
    let times = decision["times"][call].as_array().unwrap().iter();
    times.map(|time| (time["what"].as_str().unwrap().to_owned(), time["step_ms"].as_f64().unwrap())).collect()
}

/// The sum over all calls of the least time on one side.
fn total(decision: &Value, is_ours: bool) -> f64 {
    let least = |call| {
        let times = times(decision, call).into_iter().filter(|(what, _)| (what != "cuDNN") == is_ours);
        times.map(|(_, time)| time).min_by(f64::total_cmp).unwrap()
    };
    CALLS.into_iter().map(least).sum()
}

/// The first process times all three calls; the second knows the result once its sizes have come back.
#[test]
fn the_faster_is_chosen_and_recalled() {
    if !has_emulator() {
        return;
    }
    let mut network = Network::new();
    let cold = network.decide(None, &[]);
    assert_eq!(cold["why"], "timed in place", "{cold}");
    for call in CALLS {
        let times = times(&cold, call);
        assert_eq!(times[0].0, "cuDNN");
        let (kernels, own) = if call == "weights" { (0, "products") } else { (2, "step") };
        assert_eq!(times.len(), 2 + kernels, "{cold}");
        assert!(times.iter().any(|(what, _)| what == own) && times.iter().all(|&(_, time)| time > 0.0), "{cold}");
    }
    assert_eq!(cold["forward"] != "cuDNN", total(&cold, true) < 0.98 * total(&cold, false), "{cold}");
    let warm = network.decide(Some("4"), &[]);
    assert_eq!((&warm["why"], &warm["forward"]), (&"known from before".into(), &cold["forward"]), "{warm}");
    // Makes all our kernels faster than cuDNN, and one backward kernel the fastest.
    change_database(&network.database, "UPDATE timings SET time_ms = time_ms * 1e-6 WHERE what <> 'cuDNN'");
    let slowest = times(&cold, "data").into_iter().find(|(what, _)| what != "cuDNN" && what != "step").unwrap().0;
    change_database(
        &network.database,
        &format!("UPDATE timings SET time_ms = 1e-12 WHERE what = '{slowest}' AND subject LIKE '%pass=backward-data'"),
    );
    let ours = network.decide(Some("4"), &[]);
    assert_eq!((&ours["why"], &ours["backward"]), (&"known from before".into(), &slowest.into()), "{ours}");
    // Kernels that are not on disk are compiled in the background, while cuDNN trains.
    let cache = network.program.file("kernels");
    let ours = network.decide(None, &[("HOSTDNN_KERNEL_CACHE", cache.to_str().unwrap())]);
    assert_eq!((&ours["why"], &ours["backward"]), (&"known from before".into(), &warm_name(&ours)), "{ours}");
}

/// The fastest backward kernel by a decision's times.
fn warm_name(decision: &Value) -> Value {
    let times = times(decision, "data").into_iter().filter(|(what, _)| what != "cuDNN");
    times.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0.into()
}

/// Short programs are left to cuDNN, and so are those whose results must have the same bits each time.
#[test]
fn cudnn_trains_where_nothing_is_known() {
    let mut network = Network::new();
    assert_eq!(network.train(Some("12"), &[]).len(), 0);
    assert_eq!(network.train(Some("40"), &[("UCUDNN_NUMERICS", "deterministic")]).len(), 0);
    assert_eq!(network.train(Some("40"), &[("UCUDNN_EXPLORE", "0")]).len(), 0);
}

/// Our kernels panic where they are timed, or before, where they are loaded: the trial ends all the same.
#[test]
fn what_panics_loses() {
    if !has_emulator() {
        return;
    }
    for (place, why) in [("launch", "timed in place"), ("load", "compiling was cut short")] {
        let decision = Network::new().decide(None, &[("UCUDNN_FAULT", &format!("panic:rnn-training-{place}"))]);
        assert_eq!((&decision["forward"], &decision["why"]), (&"cuDNN".into(), &why.into()), "{decision}");
    }
}

/// With forced kernels the first ones run at once, and the fastest ones in the end.
#[test]
fn the_best_of_ours_is_found() {
    if !has_emulator() {
        return;
    }
    let decision = Network::new().decide(None, &[("UCUDNN_RNN_TRAINING", "force")]);
    for (call, pass) in [("forward", "forward"), ("data", "backward")] {
        let times = times(&decision, call);
        let least = times.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!(times.iter().all(|(what, _)| what != "cuDNN"), "{decision}");
        assert_eq!((times.len(), &decision[pass]), (3, &least.0.as_str().into()), "{decision}");
    }
}

/// A program's first process knows the times that the command took ahead of time.
#[test]
fn what_was_tuned_ahead_is_recalled() {
    if !has_emulator() {
        return;
    }
    let mut network = Network::new();
    let spec = network.decide(None, &[("UCUDNN_DATABASE", "off")])["spec"].clone();
    let ucudnn = Installed::new("tune-trained");
    ucudnn.file("run.jsonl", &format!("{}\n", json!({ "event": "rnn-training", "spec": spec })));
    let database = network.database.to_str().unwrap();
    let ended = ucudnn.tune(&["--rnn", "run.jsonl", "--top-k", "2", "--database", database], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let decision = network.decide(None, &[]);
    assert_eq!(decision["why"], "known from before", "{decision}");
    let row = ended.stdout.lines().find(|line| line.contains("LSTM")).unwrap();
    for pass in ["forward", "backward"] {
        assert!(row.contains(decision[pass].as_str().unwrap()), "{row}\n{decision}");
    }
}
