//! Batch normalization in the command: timed ahead of time, reported, listed.

use super::{Ended, Installed};
use crate::hostdnn::has_emulator;
use norm::pass::Pass;
use serde_json::{Value, json};

/// Tunes on hostdnn, into a database in the folder.
fn tune(ucudnn: &Installed, arguments: &[&str]) -> Ended {
    let search = ucudnn.path("cudnn").to_str().unwrap().to_owned();
    let all = [&["tune", "--database", "t.sqlite"], arguments].concat();
    ucudnn.end(&all, &[("LD_LIBRARY_PATH", &search), ("UCUDNN_NORM", "off")])
}

fn norms(ucudnn: &Installed, database: &str) -> Vec<Value> {
    let listed = ucudnn.json(&["db", "list", "--kernels", "--json", "--database", database]);
    assert_eq!(listed["environments"].as_array().unwrap().len(), 1);
    assert_eq!(listed["environments"][0]["networks"], json!([]));
    listed["environments"][0]["norms"].as_array().unwrap().clone()
}

#[test]
fn all_passes_are_timed_ahead_and_once() {
    if !has_emulator() {
        return;
    }
    let ucudnn = Installed::new("tune-norm");
    let first = tune(&ucudnn, &["--norm", "2x8x3x3", "--norm", "2x8x9 half"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let known = norms(&ucudnn, "t.sqlite");
    let specs: Vec<_> = known.iter().map(|norm| norm["spec"].as_str().unwrap()).collect();
    let passes = Pass::OF_CUDNN.len();
    let all = ["float", "half"].into_iter().flat_map(|element| Pass::OF_CUDNN.map(|pass| (pass.row().name, element)));
    for (pass, element) in all {
        let spec = format!("{pass} spatial {element} images=2 channels=8 plane=9");
        assert!(specs.contains(&spec.as_str()) && first.stdout.contains(&spec), "{}", first.stdout);
    }
    assert!(
        specs.len() == 2 * passes && first.stdout.contains(&format!("{} batch normalizations timed", 2 * passes)),
        "{}",
        first.stdout
    );
    for norm in &known {
        let times = norm["times"].as_array().unwrap();
        assert!(times.len() == 2 && times.iter().any(|time| time["what"] == "cuDNN"), "{norm}");
        assert!(times.iter().all(|time| time["time_ms"].as_f64().is_some_and(|time| time > 0.0)), "{norm}");
    }
    let listed = ucudnn.run(&["db", "list", "--kernels", "--database", "t.sqlite"]);
    assert!(listed.contains("Normalizations of") && !listed.contains("Recurrent networks of"), "{listed}");
    // The command times only normalizations without a known time, whether a report or an option names them.
    let lines = known.iter().map(|known| format!("{}\n", json!({ "event": "norm", "spec": known["spec"] })));
    ucudnn.file("run.jsonl", &(json!({ "event": "began" }).to_string() + "\n" + &lines.collect::<String>()));
    let again = tune(&ucudnn, &["--norm", "run.jsonl", "--norm", "2x4x2 bfloat16"]);
    assert_eq!(again.stdout.matches("known from before").count(), 2 * passes, "{}\n{}", again.stdout, again.stderr);
    // Images of 16 bytes are whole vectors, so our kernels take them.
    assert!(
        again.code == Some(0) && again.stdout.contains(&format!("{passes} batch normalizations timed")),
        "{}",
        again.stderr
    );
    // An export takes them to another machine.
    ucudnn.run(&["db", "export", "--database", "t.sqlite", "all.jsonl"]);
    ucudnn.run(&["db", "import", "--database", "other.sqlite", "all.jsonl"]);
    assert_eq!(norms(&ucudnn, "other.sqlite").len(), 3 * passes);
}

#[test]
fn what_cannot_be_timed_is_named() {
    let ucudnn = Installed::new("tune-norm-unfit");
    ucudnn.file("none.jsonl", "{\"event\":\"began\"}\n");
    for (text, why) in [
        ("2x8x3x3 int8", "the type is \"int8\""),
        ("none.jsonl", "no batch normalization is in it"),
        ("missing.jsonl", "missing.jsonl"),
    ] {
        let ended = tune(&ucudnn, &["--norm", text]);
        assert!(ended.code == Some(2) && ended.stderr.contains(why), "{text}: {}", ended.stderr);
    }
    if has_emulator() {
        let ended = tune(&ucudnn, &["--norm", "2x3x3x3 half"]);
        assert!(ended.code == Some(1) && ended.stderr.contains("whole vectors of 16 bytes"), "{}", ended.stderr);
        let ended = tune(&ucudnn, &["--norm", "64x64x64x64", "--bytes", "1MiB"]);
        assert!(ended.code == Some(1) && ended.stderr.contains("take more than 1048576 bytes"), "{}", ended.stderr);
    }
}

#[test]
fn a_report_shows_what_was_chosen() {
    let ucudnn = Installed::new("report-norm");
    let line = |chosen: &str, time: f64| {
        json!({
            "event": "norm", "norm": "batch normalization", "spec": "forward half", "device": 0, "chosen": chosen,
            "why": "timed in place",
            "times": [{ "what": "cuDNN", "time_ms": 0.5 }, { "what": "clusters of 2", "time_ms": time }],
        })
    };
    let lines = [line("cuDNN", 0.9), line("clusters of 2", 0.25)].map(|line| line.to_string());
    ucudnn.file("run.jsonl", &lines.join("\n"));
    let text = ucudnn.run(&["report", "run.jsonl"]);
    assert!(text.contains("1 of 1 run on kernels of ours") && text.contains("2.00×"), "{text}");
    let json = ucudnn.json(&["report", "--json", "run.jsonl"]);
    assert_eq!((json["norms"].as_array().unwrap().len(), &json["unknown"]), (1, &0.into()));
    assert_eq!(json["norms"][0]["chosen"], "clusters of 2");
}

#[test]
fn a_report_names_operation_graphs_that_cudnn_runs() {
    let ucudnn = Installed::new("report-graph");
    let graph = "batch normalization in training of half 32x64x56x56";
    let line = json!({ "event": "graph", "graph": graph, "chosen": "cuDNN", "why": "an operation graph" }).to_string();
    ucudnn.file("run.jsonl", &format!("{line}\n{line}\n"));
    let text = ucudnn.run(&["report", "run.jsonl"]);
    assert_eq!(text.matches(&format!("{graph}: cuDNN: an operation graph")).count(), 1, "{text}");
    let json = ucudnn.json(&["report", "--json", "run.jsonl"]);
    assert_eq!(json["graphs"], json!([{ "graph": graph, "why": "an operation graph" }]));
    assert_eq!(json["unknown"], 0);
}
