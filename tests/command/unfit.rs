//! Files that are no reports are one error each, and names that match nothing are named.

use super::data::asked;
use super::{Installed, NETWORK, Row, csv, filled};

#[test]
fn a_file_that_is_no_report_is_one_error() {
    let ucudnn = Installed::new("no-report");
    filled(&ucudnn.path("t.sqlite"), &NETWORK);
    ucudnn.file("net.csv", &csv(&NETWORK));
    ucudnn.file("text.jsonl", &"some\nlines\n".repeat(100));
    // Each line is an object, but none is an event.
    ucudnn.run(&["db", "export", "db.jsonl", "--database", "t.sqlite"]);
    for file in ["net.csv", "text.jsonl", "db.jsonl"] {
        for arguments in [&["report", file][..], &["plot", "division", file], &["plot", "layers", file]] {
            let error = ucudnn.fails(1, arguments);
            assert_eq!(error.lines().count(), 1, "{arguments:?}\n{error}");
            assert!(error.starts_with(&format!("ucudnn: {file}: not a report: expected the lines")), "{error}");
            assert!(error.contains("UCUDNN_REPORT") && error.contains(&format!("{file}:1: ")), "{error}");
        }
    }
    let error = ucudnn.fails(1, &["plan", "db.jsonl", "--limit", "none"]);
    assert!(error.starts_with("ucudnn: db.jsonl: not a report") && error.lines().count() == 1, "{error}");
    let plan = ucudnn.run(&["plan", "net.csv", "--database", "t.sqlite", "--limit", "none", "--json"]);
    ucudnn.file("plan.json", &plan);
    let error = ucudnn.fails(1, &["report", "plan.json"]);
    assert!(error.starts_with("ucudnn: plan.json: a plan") && error.lines().count() == 1, "{error}");
}

#[test]
fn layers_and_kernels_that_match_nothing_are_told() {
    let ucudnn = Installed::new("unmatched");
    let [first, second, last] = NETWORK;
    ucudnn.file("net.csv", &csv(&NETWORK));
    ucudnn.file("r.jsonl", &(asked(&first, "F", 1.0) + &asked(&Row("", 1, [8, 3, 20, 20], 8, 3), "F", 1.0)));
    let told = |arguments: &[&str]| {
        let ended = ucudnn.end(arguments, &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    let expected = "ucudnn: net.csv: no kernel is of the layers block.3x3, last-1x1\n\
                    ucudnn: net.csv: no layer is of the kernels F float 8x3x20x20 * 8x3x3x3 pad 1x1 stride 1x1\n";
    for arguments in [&["report", "r.jsonl"][..], &["report", "r.jsonl", "--json"], &["plot", "layers", "r.jsonl"]] {
        assert_eq!(told(&[arguments, &["--network", "net.csv"]].concat()), expected);
    }
    ucudnn.file("all.jsonl", &(asked(&first, "F", 1.0) + &asked(&second, "F", 1.0) + &asked(&last, "BF", 1.0)));
    assert_eq!(told(&["report", "all.jsonl", "--network", "net.csv"]), "");
    assert_eq!(told(&["report", "r.jsonl"]), "");

    let error = ucudnn.fails(1, &["plan", "r.jsonl", "--kernels", "--layers", "conv1"]);
    assert!(error.contains("r.jsonl: no layer is called conv1; there are float 8x3x16x16"), "{error}");
    let error = ucudnn.fails(1, &["plan", "r.jsonl", "--kernels", "--directions", "BD"]);
    assert!(error.contains("r.jsonl: no kernel of it is left by --layers and --directions"), "{error}");
}
