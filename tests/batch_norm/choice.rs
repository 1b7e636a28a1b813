//! The choice between cuDNN's and our kernels, its reports, and the tuning database.

use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::Value;

use super::FORCE;
use crate::hostdnn::{Build, Program, has_emulator, report};

const KNOWN: &str = "known from before";
const TIMED: &str = "timed in place";

/// A program that normalizes a batch until the library decides, with its own database.
struct Norms {
    program: Program,
    database: PathBuf,
    runs: usize,
}

impl Norms {
    fn new() -> Self {
        let sources = ["batch_norm_until.c", "kernel.c"];
        let build = Build { sources: &sources, options: &["-pthread", "-ldl"], ..Build::default() };
        let program = Program::build("batch_norm_until", build);
        Self { database: program.file("tuning.sqlite"), program, runs: 0 }
    }

    /// Runs until both passes are decided, or `calls` times; returns the decisions, forward first, and the log.
    fn run(&mut self, threads: &str, calls: Option<&str>, variables: &[(&str, &str)]) -> (Vec<Value>, String) {
        self.runs += 1;
        let written = self.program.file(&format!("report-{}.jsonl", self.runs));
        let (name, database) = (written.to_str().unwrap(), self.database.to_str().unwrap());
        let ours = [("UCUDNN_REPORT", name), ("UCUDNN_DATABASE", database), ("UCUDNN_LOG", "info")];
        let arguments: Vec<_> = [name, threads].into_iter().chain(calls).collect();
        let outcome = self.program.preloaded(&arguments, &[&ours, variables].concat());
        assert_eq!(outcome.stdout, "ended\n");
        let mut lines = report(&written);
        lines.retain(|line| line["event"] == "norm");
        lines.sort_by_key(|line| line["spec"].as_str().unwrap().starts_with("backward"));
        (lines, outcome.stderr)
    }

    fn decide(&mut self, threads: &str, calls: Option<&str>, variables: &[(&str, &str)]) -> [Value; 2] {
        let (lines, log) = self.run(threads, calls, variables);
        lines.try_into().unwrap_or_else(|lines| panic!("{lines:?}\n{log}"))
    }
}

/// The milliseconds of cuDNN and of our kernels.
fn times(decision: &Value) -> [(String, f64); 2] {
    let times = decision["times"].as_array().unwrap().iter();
    let mut times: Vec<_> =
        times.map(|time| (time["what"].as_str().unwrap().to_owned(), time["time_ms"].as_f64().unwrap())).collect();
    times.sort_by_key(|(what, _)| what != "cuDNN");
    times.try_into().unwrap()
}

#[test]
fn the_faster_is_chosen_and_known_from_then_on() {
    if !has_emulator() {
        return;
    }
    let mut norms = Norms::new();
    let cold = norms.decide("1", None, &[]);
    for (decision, pass) in cold.iter().zip(["forward", "backward"]) {
        assert_eq!(decision["spec"], format!("{pass} spatial float images=4 channels=8 plane=36"));
        assert_eq!(decision["why"], TIMED, "{decision}");
        let [(cudnn, its), (ours, own)] = times(decision);
        assert!(cudnn == "cuDNN" && ours.starts_with("clusters of ") && its > 0.0 && own > 0.0, "{decision}");
        assert_eq!(decision["chosen"], if own < 0.98 * its { ours } else { cudnn });
    }
    // The next process knows it from the first call on.
    let warm = norms.decide("1", Some("1"), &[]);
    for (warm, cold) in warm.iter().zip(&cold) {
        assert_eq!((&warm["why"], &warm["chosen"]), (&KNOWN.into(), &cold["chosen"]), "{warm}");
        assert_eq!(times(warm), times(cold));
    }
    // Our kernels are the faster ones in the database: they run from the first call on.
    let database = Connection::open(&norms.database).unwrap();
    let change = |statement: &str| assert_eq!(database.execute(statement, []).unwrap(), 2, "{statement}");
    change("UPDATE timings SET time_ms = 1e-9 WHERE what <> 'cuDNN'");
    let count = "2 passes of normalization: 2 on our kernels, 0 by cuDNN or PyTorch";
    let (lines, log) = norms.run("1", Some("1"), &[]);
    assert!(lines.len() == 2 && log.contains(count), "{log}");
    assert!(lines.iter().all(|line| line["why"] == KNOWN && line["chosen"] != "cuDNN"), "{lines:?}");
    // From the moment on that the program asks for determinism, cuDNN runs.
    let torch = crate::determinism::torch(&norms.program, false);
    let report = norms.program.file("asks.jsonl");
    let arguments = [report.to_str().unwrap(), "1", "5", torch.to_str().unwrap()];
    let variables = [("UCUDNN_DATABASE", norms.database.to_str().unwrap()), ("UCUDNN_LOG", "info")];
    let asks = norms.program.preloaded(&arguments, &variables).stderr;
    assert!(asks.contains("10 passes of normalization: 2 on our kernels, 8 by cuDNN or PyTorch"), "{asks}");
    // If they are not on disk, they are compiled in the background.
    let cache = norms.program.file("kernels");
    let ours = norms.decide("1", None, &[("HOSTDNN_KERNEL_CACHE", cache.to_str().unwrap())]);
    assert!(ours.iter().all(|line| line["why"] == KNOWN && line["chosen"] != "cuDNN"), "{ours:?}");
    // Results of other kernels count for nothing.
    change("UPDATE timings SET version = 'another' WHERE what <> 'cuDNN'");
    assert!(norms.decide("1", None, &[]).iter().all(|line| line["why"] == TIMED));
}

#[test]
fn what_cannot_run_is_cudnns() {
    let mut norms = Norms::new();
    let decisions = norms.decide("1", None, &[("UCUDNN_FAULT", "compiler")]);
    assert!(decisions.iter().all(|line| line["chosen"] == "cuDNN" && line["times"] == Value::Array(Vec::new())));
    // Our kernels panic where they are timed: the trial ends all the same.
    let (lines, log) = norms.run("1", None, &[("UCUDNN_FAULT", "panic:norm-launch")]);
    assert!(lines.len() == 2 && lines.iter().all(|line| line["chosen"] == "cuDNN"), "{lines:?}");
    assert!(log.contains(" 0 on our kernels, "), "{log}");
    assert!(!has_emulator() || log.contains("a panic inside ucudnn"), "{log}");
}

/// Nothing is timed where that was ruled out, where results must be the same bits each time, and where no time is left.
#[test]
fn nothing_is_tried_where_that_is_not_wanted() {
    let mut norms = Norms::new();
    // The kernels are on disk from here on, so that 60 calls are enough for a trial.
    norms.decide("1", None, &[("UCUDNN_DATABASE", "off")]);
    for variable in [
        ("UCUDNN_NORM", "off"),
        ("UCUDNN_NUMERICS", "deterministic"),
        ("UCUDNN_EXPLORE", "0"),
        ("UCUDNN_POLICY", "off"),
        ("UCUDNN_FAULT", "hang"),
    ] {
        let (lines, _) = norms.run("1", Some("200"), &[variable]);
        assert_eq!(lines.len(), 0, "{variable:?}: {lines:?}");
    }
}

#[test]
fn threads() {
    let mut norms = Norms::new();
    for threads in ["2", "8"] {
        let decisions = norms.decide(threads, None, &[("UCUDNN_DATABASE", "off")]);
        if has_emulator() {
            assert!(decisions.iter().all(|line| line["why"] == TIMED), "{decisions:?}");
        }
        norms.run(threads, Some("20"), &[FORCE, ("UCUDNN_DATABASE", "off")]);
    }
}
