//! `ucudnn demo` without its files, and the page of a finished demo. `make test-wheel` runs the whole demo from pip alone.

use serde_json::json;

use super::data::asked;
use super::{Installed, NETWORK, csv};

/// The results that the demo's script leaves, in `folder`.
fn finished(ucudnn: &Installed, folder: &str) {
    let network = ucudnn.file(&format!("{folder}/net.csv"), &csv(&NETWORK));
    let row = |kernel: &str, plain: f64, ours: f64| {
        json!({
            "kernel": kernel, "plain_algorithm": "IMPLICIT_GEMM", "plain_workspace": 0, "plain_ms": plain,
            "division": "2×4[FFT]", "workspace": 1 << 20, "ms": ours, "difference": 0,
        })
    };
    let results = json!({
        "title": "net, batch 8, on <hostdnn>", "network": network, "sentences": ["It is twice as fast."],
        "rows": [row("conv1 F", 8.0, 4.0)], "total": row("all", 8.0, 4.0),
    });
    ucudnn.file(&format!("{folder}/demo.json"), &results.to_string());
    let report: String = NETWORK.iter().map(|row| asked(row, "F", 1.0)).collect();
    ucudnn.file(&format!("{folder}/report.jsonl"), &report);
}

#[test]
fn without_its_files_it_names_the_extra() {
    let ucudnn = Installed::new("demo-missing");
    let said = ucudnn.fails(1, &["demo"]);
    assert_eq!(
        said,
        "ucudnn: the demo is not installed: pip install 'ucudnn[demo]', or make demo in a clone of the repository\n"
    );
    assert!(!ucudnn.path("ucudnn-demo").exists());
    assert!(ucudnn.fails(2, &["demo", "--batch", "0"]).contains("--batch"));
    assert!(ucudnn.fails(2, &["demo", "--batch", "2", "--show", "x"]).contains("--show"));
}

#[test]
fn a_finished_demo_has_a_table_and_a_page() {
    let ucudnn = Installed::new("demo-show");
    finished(&ucudnn, "done");
    let said = ucudnn.run(&["demo", "--show", "done"]);
    let page = ucudnn.path("done/demo.html");
    assert!(said.starts_with("net, batch 8, on <hostdnn>\n\nkernel "), "{said}");
    assert!(said.contains("2.00×") && said.contains("equal") && said.contains("It is twice as fast."), "{said}");
    assert!(said.ends_with(&format!("\nPage: {} (open it in a browser)\n", page.display())), "{said}");
    let text = std::fs::read_to_string(page).unwrap();
    for part in [
        "<h2>net, batch 8, on &lt;hostdnn&gt;</h2>",
        "<td>conv1 F</td>",
        "<p>It is twice as fast.</p>",
        "plain: 8.00 ms in all",
        "<h1>What the library chose</h1>",
        "<td>block.3x3</td>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(text.matches("<svg").count(), 4, "times and workspaces of two: {text}");
}

#[test]
fn results_that_cannot_be_read_are_named() {
    let ucudnn = Installed::new("demo-wrong");
    assert!(ucudnn.fails(1, &["demo", "--show", "none"]).starts_with("ucudnn: none/demo.json: "));
    finished(&ucudnn, "half");
    ucudnn.file("half/demo.json", "{\"title\": \"a\"}");
    let why = ucudnn.fails(1, &["demo", "--show", "half"]);
    assert_eq!(why, "ucudnn: half/demo.json: not a demo's results: network is missing\n");
    finished(&ucudnn, "half");
    std::fs::remove_file(ucudnn.path("half/report.jsonl")).unwrap();
    assert!(ucudnn.fails(1, &["demo", "--show", "half"]).starts_with("ucudnn: half/report.jsonl: "));
}
