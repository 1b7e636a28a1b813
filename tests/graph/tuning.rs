//! What running programs found of graphs is reported, kept, and known to the next that starts.

use std::collections::HashMap;

use serde_json::Value;

use super::program;
use crate::hostdnn::{report, seed};

fn events<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Kernels, and what was found for them.
fn found(lines: &[Value]) -> HashMap<String, String> {
    let pair = |line: &Value| (text(line, "spec").to_owned(), text(line, "division").to_owned());
    events(lines, "ran").into_iter().map(pair).collect()
}

/// A second process starts with what the first has found, and measures nothing anew.
#[test]
fn what_was_explored_is_known_at_the_next_start() {
    // One plan of each of 8 kernels.
    let program = program("graph_promises");
    let database = program.file("database");
    let run = |name: &str| {
        let decisions = program.file(name);
        let variables = [
            ("UCUDNN_DATABASE", database.to_str().unwrap()),
            ("UCUDNN_WORKSPACE_LIMIT", "20000"),
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ];
        assert_eq!(program.preloaded(&["elsewhere", "400"], &variables).stderr, "");
        report(&decisions)
    };
    let (first, second) = (run("first"), run("second"));
    let (known, again) = (found(&first), found(&second));
    assert!(known.len() >= 5 && events(&first, "timed").len() > 20, "{known:?}");
    for (kernel, division) in &known {
        assert_eq!(again.get(kernel), Some(division), "{kernel}");
    }
    // Kernels that had not settled when the first process ended go on.
    for line in events(&second, "timed") {
        assert!(!known.contains_key(text(line, "spec")), "measured anew: {line}");
    }
}

/// Lines of graphs say the same things as those of other kernels.
#[test]
fn reports_tell_of_graphs() {
    let program = program("graph_random");
    let decisions = program.file("report");
    let variables = [("UCUDNN_WORKSPACE_LIMIT", "20000"), ("UCUDNN_REPORT", decisions.to_str().unwrap())];
    program.preloaded(&["6", "12"], &variables);
    let lines = report(&decisions);
    let (timed, ran) = (events(&lines, "timed"), events(&lines, "ran"));
    assert!(timed.len() > 20 && ran.len() >= 3, "{} timed, {} ran", timed.len(), ran.len());
    for line in timed.iter().chain(&ran) {
        assert!(text(line, "spec").starts_with("graph "), "{line}");
        assert!(!text(line, "kernel").is_empty(), "{line}");
    }
    for line in timed {
        assert!(line["time_ms"].as_f64().unwrap() > 0.0 && line["batch"].as_u64().unwrap() > 0, "{line}");
        assert!(text(line, "algorithm").contains("ENGINE_"), "{line}");
    }
    for line in ran {
        let parts = line["parts"].as_array().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let images: u64 = parts.iter().map(|part| number(&part["count"]) * number(&part["batch"])).sum();
        // F float 16x4x8x8 * ...
        let batch = text(line, "kernel").split([' ', 'x']).nth(2).unwrap();
        assert_eq!(images, batch.parse::<u64>().unwrap(), "{line}");
        assert!(number(&line["workspace"]) <= number(&line["limit"]) && line["time_ms"].as_f64().unwrap() > 0.0);
    }
}

/// Kernels whose channels come first are also tried on copies that have them last, in every direction and type, and what
/// is settled on is right.
#[test]
fn copies_with_channels_last_are_tried() {
    let program = program("graph_random");
    let decisions = program.file("report");
    let variables = [("UCUDNN_REPORT", decisions.to_str().unwrap()), ("UCUDNN_CHECK", "1")];
    program.preloaded(&[&seed().to_string(), "120", "packed"], &variables);
    let lines = report(&decisions);
    let timed = events(&lines, "timed");
    let on_copies: Vec<_> = timed.iter().filter(|line| text(line, "algorithm").starts_with("NHWC_")).collect();
    for kind in [" F ", " BD ", " BF ", " half ", " float "] {
        let tried = on_copies.iter().filter(|line| format!(" {}", text(line, "kernel")).contains(kind)).count();
        assert!(tried > 0, "{kind}: {} of {} on copies", on_copies.len(), timed.len());
    }
    are_right(&lines);
}

/// What ran in place of the program's own engines is held against these.
fn are_right(lines: &[Value]) {
    for line in events(lines, "checked") {
        let (error, tolerance) = (line["error"].as_f64().unwrap(), line["tolerance"].as_f64().unwrap());
        assert!(error <= tolerance, "{line}");
    }
}

/// Gradients of filters are also tried by our own engine, where the program's choice allows what it does to numbers, in one
/// part and in several, and what is settled on is right.
#[test]
fn our_engine_is_tried() {
    let program = program("graph_random");
    let run = |numerics: &str| {
        let decisions = program.file(numerics);
        let variables =
            [("UCUDNN_REPORT", decisions.to_str().unwrap()), ("UCUDNN_CHECK", "1"), ("UCUDNN_NUMERICS", numerics)];
        program.preloaded(&[&seed().to_string(), "60", "ours"], &variables);
        let lines = report(&decisions);
        are_right(&lines);
        let timed = events(&lines, "timed");
        let ours = timed.iter().filter(|line| text(line, "algorithm").starts_with("UCUDNN_ENGINE_0["));
        let in_parts = |line: &Value| !text(line, "algorithm").contains("[k0=1]");
        let ours: Vec<_> = ours.map(|line| (text(line, "kernel").to_owned(), in_parts(line))).collect();
        assert!(ours.iter().all(|(kernel, _)| kernel.starts_with("BF ")), "{ours:?}");
        for kind in [" float ", " half ", " bfloat16 "] {
            assert!(numerics != "any" || ours.iter().any(|(kernel, _)| kernel.contains(kind)), "{kind}: {ours:?}");
        }
        ours
    };
    let ours = run("any");
    let in_parts = ours.iter().filter(|(_, in_parts)| *in_parts).count();
    println!("{} gradients, {in_parts} in parts", ours.len());
    assert!(ours.len() >= 20 && in_parts >= 5, "{ours:?}");
    // No engine of hostdnn's uses tensor cores.
    assert_eq!(run("match"), []);
}
