//! Every example in a help text runs, on hostdnn and in a folder with small files and programs by the examples' names.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use recurrent::network::inference::Inference;
use serde_json::json;

use super::{Installed, Row, csv};
use crate::database::convnet;
use crate::hostdnn::{Program, has_emulator};
use guest::testing::skip;

/// A network in the place of the real ones.
const SMALL: [Row; 2] = [Row("conv1", 1, [4, 3, 9, 9], 4, 3), Row("conv2", 1, [4, 4, 9, 9], 4, 3)];

/// All help texts on a narrow terminal, with the words of their subcommands.
fn helps(ucudnn: &Installed, words: &[String], all: &mut Vec<(Vec<String>, String)>) {
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let ended = ucudnn.end(&arguments, &[("COLUMNS", "80")]);
    assert_eq!(ended.code, Some(0), "{arguments:?}\n{}", ended.stderr);
    let listed = ended.stdout.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> = names.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    all.push((words.to_vec(), ended.stdout));
    for name in names.into_iter().filter(|name| name != "help") {
        helps(ucudnn, &[words, &[name]].concat(), all);
    }
}

/// The examples in a help text: lines that begin with the command's name, with those that they go on in.
fn examples(help: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in help.lines() {
        let text = line.trim();
        if goes_on {
            *examples.last_mut().unwrap() += &format!("\n{text}");
        } else if text.starts_with("ucudnn ") && line.starts_with("  ") {
            examples.push(text.to_owned());
        } else {
            continue;
        }
        goes_on = text.ends_with('\\');
        assert!(line.chars().count() <= 80, "{line}");
    }
    examples
}

/// A folder with everything that the examples name.
fn scratch() -> Installed {
    let ucudnn = Installed::new("examples");
    for name in ["alexnet", "resnet18", "resnet50"] {
        ucudnn.file(&format!("examples/networks/{name}.csv"), &csv(&SMALL));
    }
    for name in ["net.csv", "alexnet.csv"] {
        ucudnn.file(name, &csv(&SMALL));
    }
    ucudnn.file("trees.json", "{\"graphs\": [[[],[],[0,1]], [[]]]}");
    ucudnn.file("examples/devices/h200.json", include_str!("../../examples/devices/h200.json"));
    // The stand-ins for programs take any arguments.
    let stand_in = |name: &str, compiled: &Program, file: &str, arguments: &str| {
        let program = ucudnn.path(&format!("tools/{file}-of-{}", name.replace('/', "-")));
        std::fs::hard_link(compiled.file(file), &program).unwrap();
        let script = ucudnn.file(name, &format!("#!/bin/sh\nexec '{}' {arguments}\n", program.display()));
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in ["program", "train"] {
        stand_in(name, &convnet(), "convnet", "--limit 64MiB --iterations 2 net.csv");
    }
    stand_in("tools/python", &super::doctor::program(), "doctor", "linked");
    install_demo(&ucudnn);
    ucudnn
}

/// Puts in place what `ucudnn demo` runs, as the wheel of the extra does, with the small network.
fn install_demo(ucudnn: &Installed) {
    let own = |file: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let place = |file: &str| ucudnn.path(&format!("lib/ucudnn/demo/{file}"));
    let harness = std::fs::read_dir(own("examples/harness")).unwrap().map(|entry| entry.unwrap().file_name());
    let harness =
        harness.map(|name| format!("examples/harness/{}", name.display())).filter(|file| file.ends_with(".py"));
    for file in ["demo", "progress", "turns"].map(|name| format!("scripts/{name}.py")).into_iter().chain(harness) {
        std::fs::copy(own(&file), place(&file)).unwrap();
    }
    std::fs::write(place("examples/networks/alexnet.csv"), csv(&SMALL)).unwrap();
    let _ = std::fs::remove_file(place("build/convnet"));
    std::fs::hard_link(convnet().file("convnet"), place("build/convnet")).unwrap();
    let _ = std::fs::remove_file(place("build/hostdnn/libcudnn.so.9"));
    symlink(ucudnn.path("cudnn/libcudnn.so.9"), place("build/hostdnn/libcudnn.so.9")).unwrap();
}

/// Sizes that take minutes on a processor, and smaller ones.
const SMALLER: [(&str, &str); 4] = [
    ("hidden=256 layers=2 batch=1,10 steps=100", "hidden=8 layers=2 batch=1,2 steps=2"),
    ("hidden=256 batch=64 steps=100", "hidden=8 batch=2 steps=2"),
    ("--top-k 20", "--top-k 1"),
    ("128x64x56x56 half", "2x8x2x2 half"),
];

fn run(ucudnn: &Installed, line: &str) {
    if ["--rnn", "--norm", "--dynamic"].iter().any(|option| line.contains(option)) && !has_emulator() {
        return;
    }
    if line.starts_with("ucudnn demo") && !Path::new("/usr/bin/python3").exists() {
        return skip("there is no /usr/bin/python3");
    }
    let line = SMALLER.iter().fold(line.to_owned(), |line, (large, small)| line.replace(large, small));
    let at = |name: &str| ucudnn.path(name).parent().unwrap().display().to_string();
    let path = format!("{}:{}:/usr/bin:/bin", at("bin/x"), at("tools/x"));
    let mut shell = Command::new("sh");
    shell.args(["-ec", &line]).current_dir(at("x")).env_clear().env("PATH", path).env("HOME", at("home/x"));
    shell.env("LD_LIBRARY_PATH", at("cudnn/x")).env("UCUDNN_RNN_TOP_K", "1");
    let output = shell.output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{line}\n{}\n{stdout}\n{stderr}", output.status);
}

#[test]
fn every_example_runs() {
    let ucudnn = scratch();
    let mut all = Vec::new();
    helps(&ucudnn, &[], &mut all);
    let leaves: Vec<_> = all.iter().map(|(words, _)| words.join(" ")).collect();
    for leaf in ["run", "doctor", "tune", "plan", "db prune", "plot desirable", "completions", "man"] {
        assert!(leaves.iter().any(|found| found == leaf), "{leaf} is not in {leaves:?}");
    }
    let mut lines: Vec<String> = all.iter().flat_map(|(_, help)| examples(help)).collect();
    assert!(lines.len() > 25, "{lines:#?}");
    // Examples use the files that other examples make: runs come first, then measurements.
    let order = |line: &String| {
        ["run", "doctor", "tune"].iter().position(|name| line.split(' ').nth(1) == Some(name)).unwrap_or(usize::MAX)
    };
    lines.sort_by_key(order);
    let (runs, others) = lines.split_at(lines.partition_point(|line| order(line) == 0));
    runs.iter().for_each(|line| run(&ucudnn, line));
    // Two more reports, recurrent networks and a dynamic net, whose origins no example shows.
    run(&ucudnn, "ucudnn run --workspace-limit 64MiB --report wr.jsonl ./program");
    run(&ucudnn, "ucudnn run --total-workspace-size 512MiB --report wd.jsonl ./program");
    let network = Inference::from_spec(
        "LSTM input=8 hidden=8 layers=1 directions=1 bias=double type=float math=default algorithm=standard \
         layout=sequence-major padded=yes batch=1 steps=2 full=yes",
    );
    let network = network.unwrap().spec();
    let lines = [
        json!({ "event": "rnn", "spec": network }),
        json!({ "event": "rnn-training", "spec": network }),
        json!({ "event": "norm", "spec": "forward spatial half images=2 channels=8 plane=4" }),
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    let report = ucudnn.path("run.jsonl");
    let before = std::fs::read_to_string(&report).unwrap();
    std::fs::write(&report, format!("{before}{lines}{}\n", super::tune::vertex_net("float"))).unwrap();
    run(&ucudnn, "ucudnn tune alexnet.csv && ucudnn tune examples/networks/resnet50.csv");
    others.iter().for_each(|line| run(&ucudnn, line));
    for picture in ["layers.svg", "division.svg", "totals.svg", "conv2.svg"] {
        assert!(std::fs::read_to_string(ucudnn.path(picture)).unwrap().contains("<svg"), "{picture}");
    }
}
