//! The tuning database: once timed, a network runs by its best configuration from the next process's first call on.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use super::{FORCE, change_database, decisions, program};
use crate::hostdnn::Program;
use crate::hostdnn::has_emulator;

const KNOWN: &str = "known from before";
const TIMED: &str = "timed in place";

/// A program that runs an LSTM until the library decides, with its own database.
struct Network {
    program: Program,
    database: PathBuf,
    runs: usize,
}

impl Network {
    fn new() -> Self {
        let program = program("rnn_until");
        Self { database: program.file("tuning.sqlite"), program, runs: 0 }
    }

    /// Runs until the first decision, or `calls` times; returns the one decision, which must exist.
    fn decide(&mut self, calls: Option<&str>, variables: &[(&str, &str)]) -> Value {
        self.runs += 1;
        let report = self.program.file(&format!("report-{}.jsonl", self.runs));
        let (report_name, database) = (report.to_str().unwrap(), self.database.to_str().unwrap());
        let ours = [("UCUDNN_RNN_TOP_K", "2"), ("UCUDNN_REPORT", report_name), ("UCUDNN_DATABASE", database)];
        let arguments: Vec<_> = [report_name].into_iter().chain(calls).collect();
        let outcome = self.program.preloaded(&arguments, &[&ours, variables].concat());
        let mut decisions = decisions(&report);
        assert_eq!(decisions.len(), 1, "{decisions:?}\n{}", outcome.stderr);
        decisions.remove(0)
    }
}

/// The timed candidates, with milliseconds a step.
fn times(decision: &Value) -> Vec<(String, Option<f64>)> {
    let times = decision["times"].as_array().unwrap().iter();
    let mut times: Vec<_> =
        times.map(|time| (time["what"].as_str().unwrap().to_owned(), time["step_ms"].as_f64())).collect();
    times.sort_by(|a, b| a.0.cmp(&b.0));
    times
}

fn objects(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "so")).count()
}

#[test]
fn the_second_start_runs_the_best_at_once() {
    if !has_emulator() {
        return;
    }
    let mut network = Network::new();
    let cold = network.decide(None, &[]);
    assert_eq!((&cold["why"], &cold["chosen"]), (&TIMED.into(), &"cuDNN".into()), "{cold}");
    let warm = network.decide(Some("1"), &[]);
    assert_eq!((&warm["why"], &warm["chosen"]), (&KNOWN.into(), &"cuDNN".into()), "{warm}");
    assert_eq!(times(&warm), times(&cold));
    // Makes our first candidate the fastest in the database: it runs from the first call on.
    let first = cold["first"].as_str().unwrap();
    change_database(&network.database, &format!("UPDATE timings SET time_ms = 1e-9 WHERE what = '{first}'"));
    let ours = network.decide(Some("1"), &[]);
    assert_eq!((&ours["why"], &ours["chosen"]), (&KNOWN.into(), &first.into()), "{ours}");
    // If it is not on disk, only this one is compiled, in the background.
    let cache = network.program.file("kernels");
    let ours = network.decide(None, &[("HOSTDNN_KERNEL_CACHE", cache.to_str().unwrap())]);
    assert_eq!((&ours["why"], &ours["chosen"]), (&KNOWN.into(), &first.into()), "{ours}");
    assert_eq!(objects(&cache), 2, "the recurrence, and what comes before it");
    // Off means cuDNN, whatever the database contains.
    let report = network.program.file("off.jsonl");
    let database = network.database.to_str().unwrap();
    let variables = [("UCUDNN_RNN", "off"), ("UCUDNN_DATABASE", database), ("UCUDNN_REPORT", report.to_str().unwrap())];
    network.program.preloaded(&[report.to_str().unwrap(), "20"], &variables);
    assert!(!report.exists());
}

/// Under force, the fastest of our configurations runs, and cuDNN's time is ignored.
#[test]
fn force_remembers_too() {
    if !has_emulator() {
        return;
    }
    let mut network = Network::new();
    let cold = network.decide(None, &FORCE[..1]);
    assert_eq!((&cold["why"], times(&cold).len()), (&TIMED.into(), 2), "{cold}");
    let warm = network.decide(Some("1"), &FORCE[..1]);
    assert_eq!((&warm["why"], &warm["chosen"]), (&KNOWN.into(), &cold["chosen"]), "{warm}");
    // Without force, cuDNN must be timed too; then everything is known.
    let cold = network.decide(None, &[]);
    assert_eq!((&cold["why"], times(&cold).len()), (&TIMED.into(), 3), "{cold}");
    let warm = network.decide(Some("1"), &FORCE[..1]);
    assert!(warm["why"] == KNOWN && warm["chosen"] != "cuDNN", "{warm}");
}

/// Rows of another version, or without one, are ignored.
#[test]
fn what_is_not_understood_is_timed_anew() {
    if !has_emulator() {
        return;
    }
    let mut network = Network::new();
    let cold = network.decide(None, &[]);
    let first = cold["first"].as_str().unwrap().to_owned();
    let restore = format!("UPDATE timings SET what = '{first}' WHERE what LIKE 'tree%'");
    for change in [
        format!("UPDATE timings SET what = 'tree u8' WHERE what = '{first}'"),
        format!("UPDATE timings SET what = 'block u4096 b1 t256 l32 r0' WHERE what = '{first}'"),
        "DELETE FROM timings WHERE what = 'cuDNN'".to_owned(),
        "UPDATE timings SET time_ms = NULL WHERE what = 'cuDNN'".to_owned(),
        "UPDATE timings SET version = 'of another'".to_owned(),
        "UPDATE timings SET family = 'of another'".to_owned(),
        "UPDATE environments SET driver = 'another'".to_owned(),
        "DELETE FROM timings".to_owned(),
    ] {
        change_database(&network.database, &change);
        let decision = network.decide(None, &[]);
        assert_eq!(decision["why"], TIMED, "{change}: {decision}");
        assert_eq!(network.decide(Some("1"), &[])["why"], KNOWN, "{change}");
        let _ = Connection::open(&network.database).unwrap().execute(&restore, []);
    }
    // The program requests more configurations than are known.
    assert_eq!(network.decide(None, &[("UCUDNN_RNN_TOP_K", "3")])["why"], TIMED);
    assert_eq!(network.decide(Some("1"), &[("UCUDNN_RNN_TOP_K", "3")])["why"], KNOWN);
    // Nothing is kept; everything else is as without a database.
    for database in ["off", "/proc/none"] {
        let decision = network.decide(None, &[("UCUDNN_DATABASE", database)]);
        assert_eq!(decision["why"], TIMED, "{database}: {decision}");
    }
}

/// Under force, the first call waits until the model's first choice is compiled; all processes share that compilation.
#[test]
fn what_was_compiled_once_is_taken_from_disk() {
    if !has_emulator() {
        return;
    }
    let program = program("rnn_random");
    let [compiler, log, cache] = ["c++-that-counts", "compiled", "kernels"].map(|name| program.file(name));
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] || echo 1 >>{}\nexec c++ \"$@\"\n", log.display());
    std::fs::write(&compiler, script).unwrap();
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o700)).unwrap();
    let compiled = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let run = || {
        let report = program.file("report.jsonl");
        let _ = std::fs::remove_file(&report);
        let variables = [
            FORCE[0],
            FORCE[1],
            ("UCUDNN_REPORT", report.to_str().unwrap()),
            ("HOSTDNN_CXX", compiler.to_str().unwrap()),
            ("HOSTDNN_KERNEL_CACHE", cache.to_str().unwrap()),
        ];
        program.preloaded(&["11", "3"], &variables);
        decisions(&report).iter().filter(|decision| decision["chosen"] != "cuDNN").count()
    };
    let ours = run();
    let first = compiled();
    assert!(ours > 0 && first > ours, "{first} compilations for {ours} networks");
    assert_eq!((run(), compiled()), (ours, first));
}
