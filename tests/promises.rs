//! The answers to queries hold, and limits are kept: a C program asks in all ways, plain and with the library
//! preloaded.

use std::collections::{HashMap, HashSet};

use crate::hostdnn::{Program, is_divided, report};

const QUICK: (&str, &str) = ("UCUDNN_TUNE_SECONDS", "0.1");

/// The numbers of the lines that start with `word`.
fn numbers(stdout: &str, word: &str) -> Vec<Vec<usize>> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    lines.map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect()
}

/// The tests compare two libraries: plain, the program's calls go to hostdnn; preloaded, they go to libucudnn.so, which
/// wraps hostdnn.
#[test]
fn plain_and_preloaded_are_two_libraries() {
    let program = Program::new("versions");
    let (plain, ours) = (program.plain(&[], &[]), program.preloaded(&[], &[]));
    for (outcome, ucudnn, library) in [(&plain, "0", "libcudnn.so.9"), (&ours, "1", "libucudnn.so")] {
        assert_eq!((outcome.line("hostdnn"), outcome.line("ucudnn")), ("1", ucudnn));
        assert!(outcome.line("call").ends_with(library), "{}", outcome.stdout);
    }
    assert_eq!(plain.line("version"), ours.line("version"));
}

/// With nothing configured, each first answer needs no more than cuDNN's own, and a program that walks down the list
/// under its own limit finds every algorithm of the plain list.
#[test]
fn with_nothing_configured_nothing_is_bigger_and_nothing_is_missing() {
    let program = Program::new("promises");
    let plain = program.plain(&["answers"], &[]);
    let ours = program.preloaded(&["answers"], &[QUICK]);
    assert_eq!(ours.stderr, "");
    let firsts = numbers(&plain.stdout, "first").into_iter().zip(numbers(&ours.stdout, "first"));
    for (plain, ours) in firsts {
        assert!(ours[1] <= plain[1], "layer {}: {} bytes, plain {}", plain[0], ours[1], plain[1]);
    }
    let total = |stdout: &str| numbers(stdout, "total")[0][0];
    assert!(total(&ours.stdout) <= total(&plain.stdout));

    let successes = |stdout: &str| -> HashMap<[usize; 2], usize> {
        let results = numbers(stdout, "result").into_iter().filter(|r| r[1] == 0 && r[4] == 0);
        results.map(|r| ([r[0], r[3]], r[5])).collect()
    };
    let ours = successes(&ours.stdout);
    for (layer_and_algorithm, bytes) in successes(&plain.stdout) {
        let found = ours.get(&layer_and_algorithm);
        assert!(found.is_some_and(|&found| found <= bytes), "{layer_and_algorithm:?}: {found:?} of {bytes} bytes");
    }
}

/// Under any limit, the first answer keeps it, every result runs in its reported workspace (the program checks this), a
/// repeated question gets the same answer, and each problem is decided once, with a line in the log and one in the
/// report.
#[test]
fn limits_are_kept_and_answers_last() {
    let program = Program::new("promises");
    let mut divided = 0;
    for (round, limit) in ["0", "3000", "60000", "1MiB"].into_iter().enumerate() {
        let decisions = program.file(&format!("report-{round}"));
        let variables = [
            // So long that a busy machine times some candidate at the first question: else the next one would be tuned.
            ("UCUDNN_TUNE_SECONDS", "2"),
            ("UCUDNN_WORKSPACE_LIMIT", limit),
            ("UCUDNN_BATCH_SIZE_POLICY", "all"),
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
            ("UCUDNN_LOG", "info"),
        ];
        let outcome = program.preloaded(&["answers"], &variables);
        let bytes = if limit == "1MiB" { 1 << 20 } else { limit.parse().unwrap() };
        for first in numbers(&outcome.stdout, "result").iter().filter(|result| result[2] == 0) {
            assert!(first[5] <= bytes, "{first:?} over {limit}");
        }
        for again in numbers(&outcome.stdout, "again") {
            assert_eq!(again[2], 1, "another answer to the same question: {again:?} under {limit}");
        }
        let lines = report(&decisions);
        let asked: Vec<_> = lines.iter().filter(|line| line["event"] == "asked").collect();
        let questions: HashSet<_> =
            asked.iter().map(|line| (line["kernel"].to_string(), line["limit"].to_string())).collect();
        assert_eq!(questions.len(), asked.len(), "a question was decided twice");
        let kernels: HashSet<_> = asked.iter().map(|line| line["kernel"].as_str().unwrap()).collect();
        assert_eq!(kernels.len(), 15, "a line for every kernel");
        for line in &asked {
            let logged = format!("{}: {} in ", line["kernel"].as_str().unwrap(), line["division"].as_str().unwrap());
            assert!(outcome.stderr.contains(&logged), "{logged} is not in the log:\n{}", outcome.stderr);
            assert!(line["workspace"].as_u64().unwrap() <= line["limit"].as_u64().unwrap(), "{line}");
        }
        divided += asked.iter().filter(|line| is_divided(line)).count();
    }
    assert!(divided > 0, "nothing was divided");
}

/// Equal problems in two layers, each asked under its own limit: each answer holds, whichever came first.
#[test]
fn layers_with_equal_kernels_keep_their_own_answers() {
    let program = Program::new("promises");
    for limits in [["100000", "5000"], ["3000", "1000000"], ["0", "30000"]] {
        for policy in ["powerOfTwo", "all"] {
            let arguments = ["layers", limits[0], limits[1]];
            let outcome = program.preloaded(&arguments, &[QUICK, ("UCUDNN_BATCH_SIZE_POLICY", policy)]);
            assert_eq!(outcome.stderr, "");
        }
    }
}

/// A call that runs in a workspace without the library also runs with it, promise or not. If cuDNN refuses a workspace
/// as too small, the call runs or gets cuDNN's own status.
#[test]
fn less_workspace_than_promised_is_no_failure() {
    let program = Program::new("promises");
    let plain = numbers(&program.plain(&["short"], &[]).stdout, "run");
    for policy in ["powerOfTwo", "all"] {
        let variables = [QUICK, ("UCUDNN_BATCH_SIZE_POLICY", policy), ("UCUDNN_DEFAULT_WORKSPACE_LIMIT", "100000")];
        let ours = numbers(&program.preloaded(&["short"], &variables).stdout, "run");
        assert_eq!(plain.len(), ours.len());
        for (plain, ours) in plain.iter().zip(&ours) {
            assert!(ours[3] == 0 || ours[3] == plain[3], "{ours:?}, plain {plain:?}");
        }
    }
}

/// `UCUDNN_POLICY=off`: the same answers, the same bits, and nothing decided.
#[test]
fn switched_off_it_is_not_there() {
    let program = Program::new("random_convolutions");
    let (record, decisions) = (program.file("record"), program.file("report"));
    let mut arguments = ["9", "75", "record", record.to_str().unwrap()];
    let plain = program.plain(&arguments, &[]);
    arguments[2] = "compare";
    let variables = [("UCUDNN_POLICY", "off"), ("UCUDNN_REPORT", decisions.to_str().unwrap())];
    let ours = program.preloaded(&arguments, &variables);
    assert_eq!(ours.stderr, "");
    assert!(!decisions.exists(), "something was decided");
    let mut same = 0;
    for (plain, ours) in plain.stdout.lines().zip(ours.stdout.lines()) {
        let [plain, ours]: [Vec<_>; 2] = [plain, ours].map(|line| line.split('|').collect());
        if plain.len() < 4 {
            assert_eq!(plain, ours);
            continue;
        }
        // The clock decides Find's first result; a late case runs two algorithms; BF's ALGO_0 and ALGO_3 do not repeat.
        let timed = plain[2].starts_with("find");
        assert!(timed || plain[3] == ours[3], "{ours:?}, plain {plain:?}");
        let repeats = !(plain[1].starts_with("BF") && ["0", "3"].contains(&plain[3]));
        if plain[3] == ours[3] && plain[2] != "late" && repeats {
            assert_eq!(ours[5], ours[6], "executions that are equal to the plain run's bits: {ours:?}");
            same += 1;
        }
    }
    assert!(same > 20, "{same}");
}
