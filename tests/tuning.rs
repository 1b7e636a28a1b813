//! Each micro-configuration is measured once: by the devices of one process, and by processes at the same time and one
//! after another. `database_killed.rs` has those that are killed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::hostdnn::{Build, Program, report};
use crate::programs::Outcome;
use serde_json::Value;

/// Two layers that take about a millisecond.
const SMALL: &str = "small,a,1,8,6,12,12,8,3,3,1,1,1,1,1,1,1\nsmall,b,1,8,8,10,10,6,5,5,2,2,1,1,1,1,1\n";

/// A program with its own network, database and reports.
struct Run {
    program: Program,
    network: PathBuf,
    reports: std::cell::Cell<usize>,
}

impl Run {
    fn small() -> Self {
        let program = Self::program();
        let network = program.file("network.csv");
        std::fs::write(&network, SMALL).unwrap();
        Self { program, network, reports: 0.into() }
    }

    fn alexnet() -> Self {
        let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/networks/alexnet.csv");
        Self { program: Self::program(), network, reports: 0.into() }
    }

    fn program() -> Program {
        Program::new("asked")
    }

    fn arguments<'a>(&'a self, batch: &'a str, how: &'a str) -> [&'a str; 3] {
        [self.network.to_str().unwrap(), batch, how]
    }

    /// Runs with the shared database, a new report and more variables; returns the report's lines.
    fn run(&self, batch: &str, how: &str, more: &[(&str, &str)]) -> (Outcome, Vec<Value>) {
        self.reports.set(self.reports.get() + 1);
        let lines = self.program.file(&format!("report-{}", self.reports.get()));
        let database = self.program.file("database");
        let variables = [
            ("UCUDNN_DATABASE", database.to_str().unwrap()),
            ("UCUDNN_REPORT", lines.to_str().unwrap()),
            ("UCUDNN_TUNE_SECONDS", "60"),
            // Hides the message that timing takes long, which may occur.
            ("UCUDNN_LOG", "warn,ucudnn_tuning::waiting=error"),
        ];
        let outcome = self.program.preloaded(&self.arguments(batch, how), &[&variables[..], more].concat());
        (outcome, report(&lines))
    }
}

fn answers(stdout: &str) -> Vec<&str> {
    stdout.lines().filter(|line| line.starts_with("answer ")).collect()
}

fn events<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// A micro-configuration's identity: the problem without its mini-batch, the micro-batch and the algorithm.
fn micro_configuration(line: &Value) -> String {
    // x=float:32x64x27x27@… and y likewise: the first dimension is the mini-batch.
    let field = |field: &str| match field.split_once(':') {
        Some((name @ ("x=float" | "y=float"), dims)) => format!("{name}:{}", dims.split_once('x').unwrap().1),
        _ => field.to_owned(),
    };
    let kernel: Vec<_> = line["spec"].as_str().unwrap().split(' ').map(field).collect();
    format!("{} {} {}", kernel.join(" "), line["batch"], line["algorithm"])
}

/// Fails if a micro-configuration was measured twice.
fn each_once(lines: &[Value]) {
    let mut met = HashMap::new();
    for line in events(lines, "timed") {
        assert!(line["time_ms"].as_f64().unwrap() > 0.0, "{line}");
        if let Some(before) = met.insert(micro_configuration(line), line) {
            panic!("measured twice:\n{before}\n{line}");
        }
    }
}

/// The problems of which something was measured. How many micro-configurations each takes depends on the measured
/// times, because a plan needs none that cannot be part of it.
fn measured(lines: &[Value]) -> HashSet<&str> {
    events(lines, "timed").iter().map(|line| line["spec"].as_str().unwrap()).collect()
}

fn devices(lines: &[Value]) -> HashSet<i64> {
    events(lines, "timed").iter().map(|line| line["device"].as_i64().unwrap()).collect()
}

fn plans(lines: &[Value], event: &str) -> Vec<(String, String)> {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    events(lines, event).into_iter().map(|line| (text(line, "spec"), text(line, "division"))).collect()
}

#[test]
fn a_second_start_plans_alexnet_and_measures_nothing() {
    let run = Run::alexnet();
    let limit = ("UCUDNN_WORKSPACE_LIMIT", "2MiB");
    let (first, lines) = run.run("4", "get", &[limit]);
    each_once(&lines);
    assert_eq!(measured(&lines).len(), 15);
    assert_eq!(plans(&lines, "asked").len(), 15);
    // Nothing is measured again, neither without memory to measure in nor by a program that asks only after a first
    // run.
    for (how, more) in [("get", ("UCUDNN_FAULT", "allocation")), ("after", ("UCUDNN_FAULT", ""))] {
        let (second, again) = run.run("4", how, &[limit, more]);
        assert_eq!(events(&again, "timed").len(), 0, "{how}");
        assert_eq!(plans(&again, "asked"), plans(&lines, "asked"), "{how}");
        assert_eq!(answers(&second.stdout), answers(&first.stdout), "{how}");
    }
    // Another limit may need more measurements, but none that is known.
    let (_, other) = run.run("4", "get", &[("UCUDNN_WORKSPACE_LIMIT", "8MiB")]);
    each_once(&[lines, other].concat());
}

#[test]
fn what_running_programs_explored_is_known_at_the_next_start() {
    let run = Run::small();
    let (_, lines) = run.run("8", "never", &[]);
    each_once(&lines);
    assert_eq!(measured(&lines).len(), 6);
    let (_, again) = run.run("8", "never", &[]);
    assert_eq!(measured(&again), [].into(), "measured anew");
    let sorted = |mut plans: Vec<_>| {
        plans.sort();
        plans
    };
    assert_eq!(sorted(plans(&again, "ran")), sorted(plans(&lines, "ran")));
}

#[test]
fn several_devices_measure_each_micro_configuration_once() {
    let variables = [("HOSTDNN_DEVICES", "3"), ("UCUDNN_BENCHMARK_DEVICES", "all")];
    for how in ["get", "findex"] {
        let run = Run::alexnet();
        let (outcome, lines) = run.run("4", how, &variables);
        assert_eq!(outcome.stderr, "");
        each_once(&lines);
        assert_eq!(devices(&lines), [0, 1, 2].into(), "{how}");
        // FindEx's own fastest algorithm, which decides the candidates, varies from run to run.
        if how == "get" {
            let (_, again) = run.run("4", how, &variables);
            assert!(events(&again, "timed").is_empty(), "{again:?}");
        }
    }
    let run = Run::small();
    let starts = [(); 2].map(|()| run.run("8", "findex", &variables).1);
    each_once(&starts.concat());
}

#[test]
fn only_devices_that_are_alike_share_results() {
    let run = Run::alexnet();
    let alike = [("HOSTDNN_DEVICES", "3"), ("HOSTDNN_DEVICE_NAMES", "a,b,a")];
    let (outcome, lines) = run.run("4", "get", &[&alike[..], &[("UCUDNN_BENCHMARK_DEVICES", "all")]].concat());
    assert_eq!(outcome.stderr, "");
    assert_eq!(devices(&lines), [0, 2].into());
    // Another device's results do not apply here.
    let (_, other) = run.run("4", "get", &[("HOSTDNN_DEVICE_NAMES", "b")]);
    assert_eq!(measured(&other).len(), 15);
    assert_eq!(devices(&other), [0].into());
}

#[test]
fn devices_that_are_not_there_or_unlike_are_one_warning() {
    let run = Run::small();
    let variables =
        [("HOSTDNN_DEVICES", "3"), ("HOSTDNN_DEVICE_NAMES", "a,b,a"), ("UCUDNN_BENCHMARK_DEVICES", "1,2,7")];
    let (outcome, lines) = run.run("8", "get", &variables);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    for part in ["UCUDNN_BENCHMARK_DEVICES=1, 2, 7", "7 of 3 is not there", "1 is unlike"] {
        assert!(outcome.stderr.contains(part), "{part} is not in {}", outcome.stderr);
    }
    assert!(devices(&lines).is_subset(&[0, 2].into()));
}

#[test]
fn a_panic_on_any_device_stays_inside() {
    let run = Run::small();
    let plain = run.program.plain(&run.arguments("8", "get"), &[]);
    let variables = [("HOSTDNN_DEVICES", "3"), ("UCUDNN_BENCHMARK_DEVICES", "all"), ("UCUDNN_FAULT", "panic:run")];
    let (outcome, lines) = run.run("8", "get", &variables);
    assert!(outcome.stderr.contains("a panic inside ucudnn"), "{}", outcome.stderr);
    assert_eq!(answers(&outcome.stdout), answers(&plain.stdout));
    assert_eq!(lines.len(), 0, "{lines:?}");
    // The database keeps nothing of it either.
    let (_, lines) = run.run("8", "get", &[]);
    assert_eq!(measured(&lines).len(), 6, "{lines:?}");
}

#[test]
fn processes_at_once_measure_each_micro_configuration_once() {
    let run = Run::small();
    let (lines, database) = (run.program.file("report"), run.program.file("database"));
    let variables = [
        ("UCUDNN_DATABASE", database.to_str().unwrap()),
        ("UCUDNN_REPORT", lines.to_str().unwrap()),
        ("UCUDNN_TUNE_SECONDS", "60"),
        ("UCUDNN_WORKSPACE_LIMIT", "100KiB"),
        ("HOSTDNN_DEVICES", "2"),
        ("UCUDNN_BENCHMARK_DEVICES", "all"),
    ];
    let (program, arguments) = (&run.program, run.arguments("32", "get"));
    let told: Vec<String> = std::thread::scope(|scope| {
        let processes: Vec<_> =
            (0..8).map(|_| scope.spawn(|| program.preloaded(&arguments, &variables).stdout)).collect();
        processes.into_iter().map(|process| process.join().unwrap()).collect()
    });
    let lines = report(&lines);
    each_once(&lines);
    assert_eq!(measured(&lines).len(), 6);
    assert_eq!(events(&lines, "asked").len(), 8 * 6);
    assert_eq!(answers(&told[0]).len(), 6);
    assert!(told.iter().all(|one| answers(one) == answers(&told[0])), "{told:?}");
}

/// Tuning's own data do not fit in memory: tuning ends, and the program goes on.
#[test]
fn where_there_is_no_memory_tuning_ends() {
    let sources = ["asked.c", "kernel.c", "kernel_calls.c", "no_memory.c"];
    let program = Program::build("asked_no_memory", Build { sources: &sources, ..Build::default() });
    let network = program.file("network.csv");
    std::fs::write(&network, SMALL).unwrap();
    let variables = [("UCUDNN_TUNE_SECONDS", "60"), ("UCUDNN_DATABASE", "off"), ("UCUDNN_LOG", "info")];
    // 128 images: a tensor takes half a mebibyte.
    let ended = program.preloaded(&[network.to_str().unwrap(), "128", "get"], &variables);
    let refused = ended.stderr.lines().find_map(|line| line.strip_prefix("refused ")).unwrap();
    assert_ne!(refused, "0", "nothing needed that much memory");
    assert!(ended.stderr.contains("its buffers cannot be filled"), "{}", ended.stderr);
    assert!(!answers(&ended.stdout).is_empty());
}
