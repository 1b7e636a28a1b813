//! `examples/rnn_bench.c`, plain on hostdnn and with libucudnn.so preloaded: its measurements of all algorithms, and
//! the table that `examples/rnn_bench/table.py` makes of them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::hostdnn::{Build, Program, has_emulator};
use crate::programs::{self, library};
use guest::testing::skip;

const SMALL: [&str; 6] = ["--rounds", "2", "--samples", "3", "--steps", "4"];
/// Our GPU kernels wherever they can run, by the model's first choice: emulated, they are slower than hostdnn's.
const FORCE: [(&str, &str); 2] = [("UCUDNN_RNN", "force"), ("UCUDNN_RNN_TOP_K", "1")];

fn bench() -> Program {
    let parts = ["contender", "data", "device", "network", "number", "options", "ours", "reference"];
    let parts = parts.map(|part| format!("rnn_bench/{part}.c"));
    let files = ["rnn_bench.c", "convnet/memory.c"].into_iter().chain(parts.iter().map(String::as_str));
    let sources: Vec<_> = files.map(|file| format!("../../examples/{file}")).collect();
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    Program::build_by(
        &programs::c_compiler(),
        &["-std=c99", "-O2", "-Werror", "-Wpedantic"],
        "rnn_bench",
        Build { sources: &sources, ..Build::default() },
    )
}

/// Runs our configuration on a network, with a new report; returns the line that the program prints.
fn ours(program: &Program, variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let report = program.file("report.jsonl");
    let _ = std::fs::remove_file(&report);
    let variables = [variables, &[("UCUDNN_REPORT", report.to_str().unwrap())]].concat();
    let outcome = program.preloaded(&[&SMALL[..], arguments].concat(), &variables);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// Checks that each round has times, and that errors are the type's.
fn check_contenders(line: &Value, names: &[&str], most_error: f64) {
    let contenders = line["contenders"].as_array().unwrap();
    assert_eq!(contenders.iter().map(|contender| contender["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for contender in contenders {
        let times = contender["stream_ms"].as_array().unwrap();
        assert!(times.len() == 2 && times.iter().all(|time| time.as_f64().unwrap() > 0.0), "{contender}");
        let error = contender["stream_error"].as_f64().unwrap();
        assert!(error > 0.0 && error < most_error, "{contender}");
        assert!(contender.get("graph_ms").is_none(), "there are no CUDA graphs on the CPU: {contender}");
    }
}

const CUDNN: [&str; 4] = ["STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC", "PERSIST_STATIC_SMALL_H"];

#[test]
fn all_algorithms_and_ours_are_measured() {
    let program = bench();
    let plain = program.plain(&[&SMALL[..], &["lstm/float/20/3"]].concat(), &[]);
    check_contenders(&serde_json::from_str(&plain.stdout).unwrap(), &CUDNN, 1e-6);
    if !has_emulator() {
        return;
    }
    let all = [&CUDNN[..], &["ours"]].concat();
    for (network, most_error) in
        [("lstm/float/20/3", 1e-6), ("gru/half/20/3", 2e-3), ("tanh/bfloat16/9/2", 2e-2), ("relu/tf32/9/1", 2e-3)]
    {
        let line = ours(&program, &FORCE, &[network]);
        check_contenders(&line, &all, most_error);
        let chosen = line["decision"]["chosen"].as_str().unwrap();
        assert!(chosen != "cuDNN" && line["rows_checked"] == line["batch"], "{line}");
        // Only one handle ran our GPU kernels: the others have the bits of a run without the library.
        let [cudnn, by_us] = [0, 4].map(|i| line["contenders"][i]["stream_error"].as_f64().unwrap());
        assert_ne!(cudnn, by_us, "{line}");
    }
}

/// With nothing set, it waits for the decision, which on the CPU is cuDNN.
#[test]
fn it_waits_until_ours_has_settled() {
    let line = ours(&bench(), &[("UCUDNN_RNN_TOP_K", "1")], &["lstm/float/20/3"]);
    assert_eq!(line["decision"]["chosen"], "cuDNN");
    assert!(line["calls_to_settle"].as_u64().unwrap() > 2, "{line}");
    check_contenders(&line, &[&CUDNN[..], &["ours"]].concat(), 1e-6);
}

#[test]
fn repeated_runs_are_compared() {
    if !has_emulator() {
        return;
    }
    let line = ours(&bench(), &FORCE, &["--repeat", "20", "gru/float/20/3"]);
    assert_eq!((&line["runs"], &line["different"]), (&20.into(), &0.into()));
    assert!(line["decision"]["chosen"] != "cuDNN" && line["error"].as_f64().unwrap() < 1e-6, "{line}");
}

#[test]
fn bad_arguments_are_named() {
    let program = bench();
    for (arguments, named) in [
        (&["lstm/half/256"][..], "'lstm/half/256' is no network: expected CELL/TYPE/HIDDEN/BATCH"),
        (&["lstm/double/256/1"], "is no network"),
        (&["--rounds", "0", "lstm/half/9/1"], "--rounds 0: expected a whole number above 0"),
        (&["--fast", "1", "lstm/half/9/1"], "--fast 1: expected a known option"),
        (&["--repeat", "3", "lstm/half/9/1"], "preload libucudnn.so"),
    ] {
        let ended = program.end(arguments, &[], false);
        assert!(ended.code == Some(2) && ended.outcome.stderr.contains(named), "{}", ended.outcome.stderr);
    }
    let ended = program.end(&["lstm/half/9/1"], &[], true);
    assert!(ended.code == Some(2) && ended.outcome.stderr.contains("UCUDNN_REPORT"), "{}", ended.outcome.stderr);
}

/// The table's own checks, and a table of measurements made here.
#[test]
fn the_table_has_what_was_measured() {
    let version = Command::new("python3").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return skip("there is no python3");
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rnn_bench");
    let checks = Command::new("python3").args(["-B", "-m", "unittest"]).current_dir(&scripts).output().unwrap();
    assert!(checks.status.success(), "{}", String::from_utf8_lossy(&checks.stderr));
    let program = bench();
    let out = program.file("out/table.txt");
    let folder = out.parent().unwrap();
    let run = |more: &[&str]| {
        let mut table = Command::new("python3");
        table.arg("-B").arg(scripts.join("table.py")).args(SMALL).args(["--network", "lstm/float/20/3"]);
        table.arg("--bench").arg(program.file("rnn_bench")).arg("--shim").arg(library()).arg("--out").arg(folder);
        table.arg("--cudnn").arg(program.file("rnn_bench").parent().unwrap()).env("UCUDNN_RNN_TOP_K", "1");
        table.args(["--rnn", "force"]).args(more);
        let output = table.env_remove("LD_PRELOAD").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(&[]).contains("0 networks are there, 1 to go"));
    assert!(run(&[]).contains("1 networks are there, 0 to go"));
    let text = std::fs::read_to_string(&out).unwrap();
    let row = text.lines().find(|line| line.starts_with("lstm/float/20/3 T4")).unwrap_or_else(|| panic!("{text}"));
    assert!(!row.contains("nan") && text.contains("stream: 1 networks"), "{text}");
    if has_emulator() {
        let ours = ["block u", "cluster u", "grid u"].iter().any(|kind| row.contains(kind));
        assert!(ours, "ours did not run: {text}");
    }
    let exhaustive = run(&["--exhaustive", "3"]);
    assert!(exhaustive.contains("0 networks are there, 1 to go"), "{exhaustive}");
    if has_emulator() {
        assert!(exhaustive.contains("lstm/float/20/3: 3 configurations"), "{exhaustive}");
        let text = std::fs::read_to_string(folder.join("exhaustive.txt")).unwrap();
        assert!(text.contains("1 networks: the first choice takes"), "{text}");
    }
    let csv = std::fs::read_to_string(folder.join("table.csv")).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(std::fs::read_to_string(folder.join("table.svg")).unwrap().ends_with("</svg>\n"));
}
