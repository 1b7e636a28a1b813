//! `make demo`: the arithmetic of its script, and the whole script on hostdnn with a small batch.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::hostdnn::{Build, Program};
use crate::programs;
use guest::testing::skip;

fn convnet() -> Program {
    let parts = ["convolution", "data", "memory", "network", "options"].map(|part| format!("convnet/{part}.c"));
    let files = ["convnet.c"].into_iter().chain(parts.iter().map(String::as_str));
    let sources: Vec<_> = files.map(|file| format!("../../examples/{file}")).collect();
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    let strict = ["-std=c99", "-O2", "-Werror", "-Wpedantic"];
    Program::build_by(&programs::c_compiler(), &strict, "convnet", Build { sources: &sources, ..Build::default() })
}

fn has_python() -> bool {
    let version = Command::new("python3").arg("--version").output();
    let there = version.is_ok_and(|output| output.status.success());
    if !there {
        skip("there is no python3");
    }
    there
}

#[test]
fn the_scripts_own_tests_pass() {
    if !has_python() {
        return;
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let checks = Command::new("python3").args(["-B", "-m", "unittest"]).current_dir(scripts).output().unwrap();
    let said = String::from_utf8_lossy(&checks.stderr);
    assert!(checks.status.success() && !said.contains("Ran 0 tests"), "{said}");
}

#[test]
fn both_sides_take_turns_and_agree() {
    if !has_python() {
        return;
    }
    let program = convnet();
    let out = program.file("out/demo.json");
    let folder = program.file("convnet");
    let folder = folder.parent().unwrap();
    let mut demo = Command::new("python3");
    demo.arg("-B").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/demo.py"));
    demo.arg("--convnet").arg(program.file("convnet")).arg("--output").arg(out.parent().unwrap());
    demo.arg("--target").arg(folder).arg("--cudnn").arg(folder);
    // `cargo build` puts the command a folder above the tests.
    demo.arg("--command").arg(std::env::current_exe().unwrap().with_file_name("../ucudnn"));
    demo.args(["--batch", "2", "--limit", "1MiB", "--rounds", "2", "--iterations", "1"]);
    let output = demo.env_remove("LD_PRELOAD").output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for said in ["Rounds in turns, 2 of each,", "Outputs agree", "times as fast (medians)"] {
        assert!(stdout.contains(said), "{said}: {stdout}");
    }
    for step in ["tuning 15 of 15", "round 2 of 2: plain", "round 2 of 2: with libucudnn.so"] {
        assert!(stderr.contains(step), "{step}: {stderr}");
    }
    let found: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(found["rows"].as_array().unwrap().len(), 15);
    for side in ["plain_ms", "ms"] {
        let rounds = found["rounds"][side].as_array().unwrap();
        assert!(rounds.len() == 2 && rounds.iter().all(|time| time.as_f64().unwrap() > 0.0), "{found}");
    }
    let page = std::fs::read_to_string(out.with_file_name("demo.html")).unwrap();
    assert!(page.contains("<td>conv5 BF</td>") && page.contains("with us: "), "{page}");
    let divisions = found["rows"].as_array().unwrap().iter().map(|row| row["division"].as_str().unwrap());
    // The library's plans, and not plain's algorithms.
    assert!(divisions.filter(|division| division.contains('×')).count() == 15, "{found}");
}

#[test]
fn a_program_in_turns_ends_with_its_driver() {
    let program = convnet();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/networks/alexnet.csv");
    let mut command = program.command(&["--turns", "--batch", "1", "--layers", "conv5", network], &[], false);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("turn: ready\n"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard input ended"), "{output:?}");
}
