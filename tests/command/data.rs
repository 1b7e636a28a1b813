//! `ucudnn report`, `plan` and `db` on good and bad reports, networks and databases.

use crate::command;

use command::{DIRECTIONS, HEADER, Installed, NETWORK, Row, csv, environment, filled, filled_with_graphs, kernel};
use convolution::problem::graph;
use serde_json::{Value, json};

/// A report's line about the problem of a row.
fn decided(row: &Row, direction: &str, own: Value) -> String {
    let kernel = kernel(row, direction);
    let mut line = json!({ "kernel": kernel.to_string(), "spec": kernel.spec(), "direction": direction });
    line.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    format!("{line}\n")
}

pub fn asked(row: &Row, direction: &str, time: f64) -> String {
    decided(
        row,
        direction,
        json!({
            "event": "asked", "limit": 8192, "division": "2×4[FFT]", "workspace": 4096, "time_ms": time,
            "undivided": "IMPLICIT_GEMM", "undivided_workspace": 0, "undivided_ms": 3.0,
        }),
    )
}

fn divided() -> String {
    let layer = |number: usize, row: &Row, direction, workspace: usize| {
        let own = json!({
            "layer": number, "offset": number * 4096, "division": "2×4[FFT]", "workspace": workspace, "time_ms": 2.0,
        });
        serde_json::from_str::<Value>(&decided(row, direction, own)).unwrap()
    };
    let [first, second, _] = NETWORK;
    let layers = json!([layer(0, &first, "F", 4096), layer(1, &second, "F", 4096), layer(2, &second, "F", 0)]);
    let whole = json!({
        "event": "divided", "total": 10_000, "arena": 8192, "time_ms": 6.0, "equal_shares_ms": 9.0, "proven": true,
        "gap": 0.0, "solve_ms": 1.5, "layers": layers,
    });
    format!("{whole}\n")
}

#[test]
fn a_report_is_a_table_of_the_last_decisions() {
    let ucudnn = Installed::new("report");
    let [first, second, _] = NETWORK;
    let lines = asked(&first, "F", 9.0) + &asked(&second, "BF", 2.0) + &asked(&first, "F", 1.5);
    ucudnn.file("r.jsonl", &lines);
    let text = ucudnn.run(&["report", "r.jsonl"]);
    assert!(text.starts_with("Workspace Reuse: 2 kernels, 8 KiB each\n"), "{text}");
    assert!(text.contains("2×4[FFT]") && text.contains("IMPLICIT_GEMM") && text.contains("4.00 KiB"), "{text}");
    assert!(text.contains("3.50 ms in all, 6.00 ms undivided in the same limits: 1.71× as fast."), "{text}");

    let json = ucudnn.json(&["report", "r.jsonl", "--json"]);
    assert_eq!(json["plans"][0]["layers"].as_array().unwrap().len(), 2);
    assert_eq!(json["plans"][0]["time_ms"], 3.5);
    assert_eq!(json["plans"][0]["layers"][0]["spec"], kernel(&first, "F").spec());

    // By the network's names: each of several equal layers counts.
    ucudnn.file("net.csv", &csv(&NETWORK));
    let text = ucudnn.run(&["report", "r.jsonl", "--network", "net.csv"]);
    assert!(text.contains("3 kernels") && text.contains("conv1") && text.contains("block.3x3"), "{text}");
    assert!(text.contains("×2") && text.contains("5.50 ms in all"), "{text}");
}

/// Plain cuDNN's times stand beside ours where a run has them.
#[test]
fn a_report_says_what_was_gained_against_plain() {
    let ucudnn = Installed::new("report-plain");
    let [first, second, _] = NETWORK;
    let with_plain = |line: String, time: f64| {
        line.trim_end().strip_suffix('}').unwrap().to_owned() + &format!(",\"plain_ms\":{time}}}\n")
    };
    ucudnn.file("r.jsonl", &(with_plain(asked(&first, "F", 2.0), 5.0) + &asked(&second, "BF", 2.0)));
    let text = ucudnn.run(&["report", "r.jsonl"]);
    let row = text.lines().find(|line| line.contains(" F ")).unwrap();
    assert!(text.contains("plain ms   gain") && row.contains("5.00  2.50×"), "{text}");
    let sum = "\nPlain cuDNN takes 5.00 ms, ours 2.00 ms for the 1 of 2 with a time of plain's: 2.50× as fast.\n";
    assert!(text.contains(sum), "{text}");
    let narrow = ucudnn.end(&["report", "r.jsonl"], &[("COLUMNS", "80")]).stdout;
    assert!(narrow.lines().take(5).all(|line| line.chars().count() <= 80) && narrow.contains("2.50×"), "{narrow}");
    ucudnn.file("all.jsonl", &(with_plain(asked(&first, "F", 2.0), 5.0) + &with_plain(asked(&second, "BF", 2.0), 1.0)));
    let text = ucudnn.run(&["report", "all.jsonl"]);
    assert!(text.contains("\nPlain cuDNN takes 6.00 ms, ours 4.00 ms: 1.50× as fast.\n"), "{text}");
    assert_eq!(ucudnn.json(&["report", "all.jsonl", "--json"])["plans"][0]["layers"][0]["plain_ms"], 5.0);
}

/// A line of a report with more fields.
fn with(line: &str, more: &str) -> String {
    format!("{},{more}}}\n", line.trim_end().strip_suffix('}').unwrap())
}

/// A line about steps, by a process with this number.
fn steps(process: usize) -> String {
    let line = json!({
        "event": "steps", "process": process, "rank": null, "sequence": 0, "calls": 3, "ours": 2, "judged": 2,
        "steps": 64, "step_ms": 30.0, "saved_ms": 17.0,
    });
    format!("{line}\n")
}

#[test]
fn a_report_says_how_long_a_step_takes_with_us_and_plain() {
    let ucudnn = Installed::new("report-steps");
    let kernels = asked(&NETWORK[0], "F", 2.0);
    ucudnn.file("r.jsonl", &(kernels.clone() + &steps(7)));
    let text = ucudnn.run(&["report", "r.jsonl"]);
    assert!(text.starts_with("A step of the program: 47.0 → 30.0 ms\n"), "{text}");
    assert!(
        text.contains("  1.57×\n") && text.contains("an estimate") && text.contains("\nWorkspace Reuse: 1"),
        "{text}"
    );
    let json = ucudnn.json(&["report", "r.jsonl", "--json"]);
    assert_eq!((&json["steps"][0]["plain_ms"], &json["steps"][0]["step_ms"]), (&json!(47.0), &json!(30.0)));
    ucudnn.run(&["report", "r.jsonl", "--html", "r.html"]);
    let page = std::fs::read_to_string(ucudnn.path("r.html")).unwrap();
    assert!(page.contains("<h2>A step of the program: 47.0 → 30.0 ms</h2>"), "{page}");
    // Other commands read the same file.
    assert!(ucudnn.run(&["plot", "layers", "r.jsonl"]).contains("<svg "));

    // Two programs in one file, and steps alone.
    ucudnn.file("two.jsonl", &(steps(7) + &kernels + &steps(8)));
    let text = ucudnn.run(&["report", "two.jsonl"]);
    assert!(text.starts_with("A step of each process\n") && text.contains("\n7 ") && text.contains("\n8 "), "{text}");
    ucudnn.file("alone.jsonl", &steps(7));
    let text = ucudnn.run(&["report", "alone.jsonl"]);
    assert!(text.contains("A step of the program") && text.contains("\nNothing was decided"), "{text}");

    // A line that is cut, and one that is wrong, leave the line before them.
    let cut = &steps(7)[..60];
    ucudnn.file("cut.jsonl", &(kernels.clone() + &steps(7) + &steps(7).replace("30.0", "-1") + cut));
    let ended = ucudnn.end(&["report", "cut.jsonl"], &[]);
    assert!(ended.code == Some(0) && ended.stdout.starts_with("A step of the program: 47.0"), "{}", ended.stdout);
    let said: Vec<_> = ended.stderr.lines().collect();
    assert!(
        said[0].starts_with("ucudnn: cut.jsonl:3: step_ms is -1") && said[1].contains(":4: half a line"),
        "{said:?}"
    );

    // A version that wrote no such lines.
    ucudnn.file("older.jsonl", &kernels);
    assert!(ucudnn.run(&["report", "older.jsonl"]).starts_with("Workspace Reuse"));
    assert_eq!(ucudnn.json(&["report", "older.jsonl", "--json"])["steps"], json!([]));
}

#[test]
fn a_report_shows_workspaces_beside_plain_s() {
    let ucudnn = Installed::new("report-workspaces");
    let [first, second, _] = NETWORK;
    let known = |line: String, bytes: usize| with(&line, &format!("\"plain_workspace\":{bytes}"));
    let [first, second] = [asked(&first, "F", 2.0), asked(&second, "BF", 2.0)];
    ucudnn.file("r.jsonl", &(known(first.clone(), 3 << 20) + &known(second.clone(), 1 << 20)));
    let text = ucudnn.run(&["report", "r.jsonl"]);
    let row = text.lines().find(|line| line.contains(" F ")).unwrap();
    assert!(text.contains("workspace   plain's") && row.contains("4.00 KiB  3.00 MiB"), "{text}");
    assert!(
        text.contains("\nWorkspace: 8.00 KiB if every layer keeps its own, 4.00 KiB if all share one.\n"),
        "{text}"
    );
    let plain = "\nPlain cuDNN's: 4.00 MiB if every layer keeps its own, 3.00 MiB if all share one.\n";
    assert!(text.contains(plain), "{text}");
    let json = ucudnn.json(&["report", "r.jsonl", "--json"]);
    assert_eq!(json["plans"][0]["layers"][0]["plain_workspace"], 3 << 20);
    let page = |file: &str| {
        ucudnn.run(&["report", file, "--html", "r.html"]);
        std::fs::read_to_string(ucudnn.path("r.html")).unwrap()
    };
    let whole = page("r.jsonl");
    assert_eq!(whole.matches("<svg ").count(), 2, "times and workspaces");
    for part in
        ["Workspace per layer", "plain: 4.00 MiB if every layer keeps its own, 3.00 MiB if all share one", ">MiB<"]
    {
        assert!(whole.contains(part), "no {part} in {whole}");
    }

    // Of one kernel it is not known: there is no sum, and no bar. An older version knew none.
    ucudnn.file("part.jsonl", &(known(first.clone(), 3 << 20) + &second));
    let text = ucudnn.run(&["report", "part.jsonl"]);
    assert!(text.contains("4.00 KiB  3.00 MiB") && !text.contains("Plain cuDNN's"), "{text}");
    assert!(page("part.jsonl").contains("with us: 8.00 KiB") && !page("part.jsonl").contains("plain: "));
    ucudnn.file("older.jsonl", &(first.clone() + &second));
    assert!(!ucudnn.run(&["report", "older.jsonl"]).contains("plain"));
    // Nothing takes any: there is no picture.
    let none = |line: &str| line.replace("\"workspace\":4096", "\"workspace\":0");
    ucudnn.file("none.jsonl", &(none(&first) + &none(&second)));
    assert!(!page("none.jsonl").contains("Workspace per layer"));
    // A size that is none counts as unknown.
    ucudnn.file("wrong.jsonl", &with(&first, "\"plain_workspace\":-1"));
    assert!(!ucudnn.run(&["report", "wrong.jsonl"]).contains("plain"));
}

/// The page needs no other file, and runs nothing.
#[test]
fn a_report_is_a_page_for_a_browser() {
    let ucudnn = Installed::new("report-page");
    ucudnn.file("net.csv", &csv(&NETWORK));
    ucudnn.file("r.jsonl", &(asked(&NETWORK[0], "F", 2.0) + &divided()));
    let said = ucudnn.run(&["report", "r.jsonl", "--network", "net.csv", "--html", "r.html"]);
    assert_eq!(said, "Written to r.html: open it in a browser\n");
    let page = std::fs::read_to_string(ucudnn.path("r.html")).unwrap();
    for part in
        ["<!DOCTYPE html>", "<h1>ucudnn report of r.jsonl</h1>", "Workspace Division: 3 kernels", "<td>conv1</td>"]
    {
        assert!(page.contains(part), "no {part} in {page}");
    }
    assert_eq!(page.matches("<svg ").count(), 3, "times, workspaces and the division");
    for tag in ["html", "body", "table", "tr", "td", "figure", "svg", "p", "h2"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    // Of addresses, only SVG's name.
    assert!(!page.contains("<script") && page.matches("://").count() == 3, "{page}");
    assert!(
        ucudnn.fails(1, &["report", "r.jsonl", "--html", "none/r.html"]).contains("--html none/r.html: No such file")
    );
    assert!(ucudnn.fails(2, &["report", "r.jsonl", "--html", "r.html", "--json"]).contains("--json"));
}

#[test]
fn a_report_of_a_division_shows_the_arena() {
    let ucudnn = Installed::new("report-division");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let timed = |workspace: usize, time: f64| {
        decided(
            &NETWORK[0],
            "F",
            json!({
                "event": "timed", "batch": 8, "algorithm": "GEMM", "workspace": workspace, "time_ms": time, "device": 0,
            }),
        )
    };
    // The report compares only with algorithms that fit into the segment: not with the one of 4097 bytes.
    ucudnn.file(
        "r.jsonl",
        &(timed(4096, 5.0) + &timed(4097, 1.0) + &divided() + "{\"event\":\"of a version to come\"}\n"),
    );
    let text = ucudnn.run(&["report", "r.jsonl", "--network", "net.csv"]);
    let heading =
        "Workspace Division: 3 kernels, 9.77 KiB together, an arena of 8.00 KiB; proven optimal, solved in 1.50 ms";
    assert!(text.starts_with(heading), "{text}");
    assert!(text.contains("In equal shares of the total (Workspace Reuse) it would be 9.00 ms, 1.50× that."), "{text}");
    let conv1 = text.lines().find(|line| line.starts_with("conv1")).unwrap();
    assert!(conv1.contains("GEMM") && conv1.contains("5.00") && conv1.ends_with("2.50×"), "{conv1}");
    assert!(text.contains("Measured: 2 micro-configurations."), "{text}");
    let json = ucudnn.json(&["report", "r.jsonl", "--json"]);
    assert_eq!((&json["arena"], &json["plans"][0]["policy"]), (&json!(8192), &json!("wd")));
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_left_out() {
    let ucudnn = Installed::new("broken-report");
    let good = asked(&NETWORK[0], "F", 1.0);
    let half = &good[..good.len() / 2];
    let lines = format!("{good}not json\n{{\"event\":\"asked\",\"kernel\":\"F x\"}}\n{half}");
    ucudnn.file("r.jsonl", &lines);
    let ended = ucudnn.end(&["report", "r.jsonl"], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("1 kernel,"), "{}", ended.stdout);
    let said: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(said.len(), 3, "{}", ended.stderr);
    assert!(said[0].starts_with("ucudnn: r.jsonl:2: column 2: not a JSON object"), "{}", said[0]);
    assert!(said[1].starts_with("ucudnn: r.jsonl:3: direction is missing"), "{}", said[1]);
    assert!(said[2].starts_with("ucudnn: r.jsonl:4: half a line"), "{}", said[2]);

    // Only the first of many such lines are named.
    ucudnn.file("many.jsonl", &(good.clone() + &"no\n".repeat(1000)));
    let ended = ucudnn.end(&["report", "many.jsonl"], &[]);
    assert!(ended.code == Some(0) && ended.stderr.lines().count() == 9, "{}", ended.stderr);
    assert!(ended.stderr.ends_with("many.jsonl: 992 more lines are left out\n"), "{}", ended.stderr);

    ucudnn.file("half.jsonl", half);
    assert!(ucudnn.fails(1, &["report", "half.jsonl"]).contains("half.jsonl: not a report"));
    ucudnn.file("empty.jsonl", "");
    assert!(ucudnn.fails(1, &["report", "empty.jsonl"]).contains("empty.jsonl: empty"));
    assert!(ucudnn.fails(1, &["report", "none.jsonl"]).contains("none.jsonl: No such file"));
    std::fs::write(ucudnn.path("binary"), [0xff, 0xfe]).unwrap();
    assert!(ucudnn.fails(1, &["report", "binary"]).contains("binary: not a report"));
    // A line that ends within a character, where the disk was full, and whole ones around it.
    let mut lines = good.clone().into_bytes();
    lines.extend(b"{\"event\": \"exploring\", \"kernel\": \"8\xc3\n");
    lines.extend(good.bytes());
    std::fs::write(ucudnn.path("cut.jsonl"), lines).unwrap();
    let ended = ucudnn.end(&["report", "cut.jsonl"], &[]);
    assert!(ended.code == Some(0) && ended.stderr.contains("cut.jsonl:2: column "), "{}", ended.stderr);
}

#[test]
fn a_network_is_planned_from_the_database_alone() {
    let ucudnn = Installed::new("plan");
    ucudnn.file("net.csv", &csv(&NETWORK));
    filled(&ucudnn.path("t.sqlite"), &NETWORK);
    let arguments = ["plan", "net.csv", "--database", "t.sqlite", "--limit", "0,16KiB,none", "--total", "48KiB"];
    let text = ucudnn.run(&arguments);
    assert!(text.starts_with(&format!("Measured on {}", environment())), "{text}");
    for part in
        ["12 kernels, 0 B each", "12 kernels, no limit", "48 KiB together", "proven optimal", "WD, 48 KiB in all"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let json = ucudnn.json(&[&arguments[..], &["--json"]].concat());
    let plans = json["plans"].as_array().unwrap();
    let time = |plan: usize| plans[plan]["time_ms"].as_f64().unwrap();
    assert_eq!(plans.len(), 4);
    assert!(time(0) > time(1) && time(1) > time(2), "{json}");
    assert!(plans[3]["workspace"].as_u64().unwrap() <= 48 << 10 && time(3) < time(0), "{json}");
    assert!(time(3) <= plans[3]["equal_shares_ms"].as_f64().unwrap());
    // Undivided in 16 KiB: conv1's fast algorithm takes 24 KiB for 8 images, and 12 for 4.
    let conv1 = &plans[1]["layers"][0];
    assert_eq!((&conv1["division"], &conv1["undivided"]), (&json!("2×4[FFT]"), &json!("IMPLICIT_GEMM")));
    assert_eq!(conv1["spec"], kernel(&NETWORK[0], "F").spec());
    // Each layer begins where the one before it ends.
    let layers = plans[3]["layers"].as_array().unwrap();
    let bytes = |layer: &Value| layer["workspace"].as_u64().unwrap() * layer["count"].as_u64().unwrap();
    let mut offset = 0;
    for layer in layers {
        assert_eq!(layer["offset"], offset);
        offset += bytes(layer);
    }

    let undivided =
        ucudnn.json(&["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--sizes=undivided", "--json"]);
    let divisions: Vec<_> =
        undivided["plans"][0]["layers"].as_array().unwrap().iter().map(|l| &l["division"]).collect();
    assert!(
        divisions.iter().all(|division| **division == "1×8[FFT]" || **division == "1×8[WINOGRAD]"),
        "{divisions:?}"
    );
    let exact = ucudnn.json(&["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--deterministic", "--json"]);
    assert_eq!(exact["plans"][0]["layers"][1]["division"], "1×8[ALGO_1]");

    // A run's problems, and some of a network's.
    ucudnn.file("r.jsonl", &(asked(&NETWORK[0], "F", 1.0) + &divided()));
    let report = ucudnn.json(&["plan", "r.jsonl", "--database=t.sqlite", "--limit=none", "--json"]);
    let counts: Vec<_> = report["plans"][0]["layers"].as_array().unwrap().iter().map(|layer| &layer["count"]).collect();
    assert_eq!(counts, [&json!(1), &json!(2)]);
    let some = ["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--layers=last-1x1", "--directions=F,BF"];
    assert!(ucudnn.run(&some).contains("2 kernels"));
    let first = ucudnn.run(&["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--skip-first-bd"]);
    assert!(first.contains("11 kernels"), "{first}");
}

#[test]
fn what_a_plan_lacks_is_named_with_the_command_that_measures_it() {
    let ucudnn = Installed::new("lacking");
    ucudnn.file("net.csv", &csv(&NETWORK));
    filled(&ucudnn.path("t.sqlite"), &NETWORK[..2]);
    let error = ucudnn.fails(1, &["plan", "net.csv", "--database", "t.sqlite", "--limit", "none"]);
    assert!(error.contains("3 of 9 kernels have not been measured on A device"), "{error}");
    assert!(error.contains("last-1x1 BF float 8x8x16x16 * 4x8x1x1"), "{error}");
    assert!(error.ends_with("ucudnn tune net.csv --layers last-1x1 --database t.sqlite\n"), "{error}");
    let error = ucudnn
        .fails(1, &["plan", "net.csv", "--database", "t.sqlite", "--limit", "none", "--batch", "16", "--type", "half"]);
    assert!(error.contains("9 of 9") && error.contains("--batch 16 --type half"), "{error}");

    // An empty database, one that does not exist, and a file that is no database.
    ucudnn.run(&["db", "import", "/dev/null", "--database", "empty.sqlite"]);
    let error = ucudnn.fails(1, &["plan", "net.csv", "--database", "empty.sqlite", "--limit", "none"]);
    assert!(error.contains("empty.sqlite: it holds no results") && error.contains("ucudnn tune net.csv"), "{error}");
    let error = ucudnn.fails(1, &["plan", "net.csv", "--limit", "none"]);
    assert!(error.contains("home/.cache/ucudnn/tuning.sqlite: no such file"), "{error}");
    ucudnn.file("none.sqlite", &"no database ".repeat(100));
    assert!(
        ucudnn.fails(1, &["plan", "net.csv", "--database", "none.sqlite", "--limit", "none"]).contains("none.sqlite")
    );

    let error = ucudnn.fails(2, &["plan", "net.csv", "--database", "t.sqlite"]);
    assert!(error.contains("--limit") && error.contains("--total"), "{error}");
    let error = ucudnn.fails(2, &["plan", "net.csv", "--database", "t.sqlite", "--limit", "lots"]);
    assert!(error.contains("lots") && error.contains("none"), "{error}");
    let error = ucudnn.fails(2, &["plan", "net.csv", "--database", "t.sqlite", "--limit", "1", "--environment", "9"]);
    assert!(error.contains("--environment 9") && error.contains("ucudnn db list"), "{error}");
    ucudnn.file("r.jsonl", &asked(&NETWORK[0], "F", 1.0));
    let error = ucudnn.fails(2, &["plan", "r.jsonl", "--database", "t.sqlite", "--limit", "1", "--batch", "3"]);
    assert!(error.contains("r.jsonl") && error.contains("--batch"), "{error}");
}

#[test]
fn a_bad_network_is_refused_with_its_file_line_and_column() {
    let ucudnn = Installed::new("bad-csv");
    let good = csv(&NETWORK);
    let refused = |text: &str| {
        ucudnn.file("net.csv", text);
        ucudnn.fails(1, &["plan", "net.csv", "--limit", "none"])
    };
    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from));
        refused(&good.replacen(from, to, 1))
    };
    for (error, expected) in [
        (
            replaced("block.3x3,2,8", "block.3x3,0,8"),
            "net.csv:3: count (column 3): expected a positive integer, not \"0\"",
        ),
        (
            replaced("block.3x3,2,8,8", "block.3x3,2,8,x"),
            "net.csv:3: c (column 5): expected a positive integer, not \"x\"",
        ),
        (replaced("conv1,1,8,3", "conv1,1,8,99999999999"), "net.csv:2: c (column 5): expected a positive integer"),
        (
            replaced(",2,2,1,1", ",-2,2,1,1"),
            "net.csv:2: pad_h (column 11): expected an integer of 0 or more, not \"-2\"",
        ),
        (replaced("1,1,1,1,1\n", "1,1,1,1\n"), "net.csv:2: a row has 17 fields, not 16: network,layer,count"),
        (
            replaced("1,1,1,1,1\n", "1,1,1,1,2\n"),
            "net.csv:2: groups (column 17): expected a divisor of c = 3 and k = 8",
        ),
        (
            replaced("net,block", "other,block"),
            "net.csv:3: network: one file holds one network: expected net, not other",
        ),
        (replaced("conv1", "conv 1"), "net.csv:2: layer (column 2): expected a name of up to 56 letters"),
        (
            replaced(",dilation_h", ",dilation"),
            "net.csv:1: column 15: the header names it dilation_h, not \"dilation\"",
        ),
        (replaced("8,5,5,2,2", "8,50,50,2,2"), "net.csv:2: the filter reaches over 50"),
        (replaced("16,16,8,5", "99999,99999,8,5"), "net.csv:2: a tensor of this layer has more elements"),
        (refused(&format!("{HEADER}\n\n")), "net.csv: it names no layers"),
        (refused(""), "net.csv: it names no layers; a file starts with the line network,layer"),
    ] {
        assert!(error.contains(expected), "{error} is not {expected}");
    }
    ucudnn.file("net.csv", &good);
    let error = ucudnn.fails(1, &["plan", "net.csv", "--limit", "none", "--layers", "conv1,conv9"]);
    assert!(error.contains("no layer is called conv9; there are conv1, block.3x3, last-1x1"), "{error}");
    let error = ucudnn.fails(1, &["plan", "none.csv", "--limit", "none"]);
    assert!(error.contains("none.csv: No such file"), "{error}");
    let error = ucudnn.fails(2, &["plan", "net.csv", "--limit", "none", "--type", "int8"]);
    assert!(error.contains("int8") && error.contains("bfloat16"), "{error}");
    let error = ucudnn.fails(2, &["plan", "net.csv", "--limit", "none", "--directions", "FW"]);
    assert!(error.contains("F, BD or BF"), "{error}");
}

#[test]
fn a_database_is_listed_exported_imported_and_pruned() {
    let ucudnn = Installed::new("db");
    filled(&ucudnn.path("t.sqlite"), &NETWORK);
    let text = ucudnn.run(&["db", "list", "--kernels", "--database", "t.sqlite"]);
    assert!(text.contains(&environment().to_string()) && text.contains("just now"), "{text}");
    for row in &NETWORK {
        for direction in DIRECTIONS {
            let line = kernel(row, direction).with_batch(1).to_string();
            let found = text.lines().find(|found| found.starts_with(&format!("{line} ")));
            assert!(found.unwrap_or_else(|| panic!("{line} is not in {text}")).ends_with("8  1 2 4 8"), "{found:?}");
        }
    }
    let json = ucudnn.json(&["db", "list", "--json", "--kernels", "--database", "t.sqlite"]);
    assert_eq!(json["environments"][0]["kernels"], 9);
    assert_eq!(json["environments"][0]["contents"].as_array().unwrap().len(), 9);

    let exported = ucudnn.run(&["db", "export", "--database", "t.sqlite"]);
    assert_eq!(exported.lines().count(), 72);
    assert!(
        ucudnn
            .run(&["db", "export", "all.jsonl", "--database", "t.sqlite"])
            .contains("Written to all.jsonl: 72 results")
    );
    assert_eq!(std::fs::read_to_string(ucudnn.path("all.jsonl")).unwrap(), exported);
    let import = ["db", "import", "all.jsonl", "--database", "new/folder/u.sqlite"];
    assert!(ucudnn.run(&import).contains("all.jsonl: 72 new results, 0 known before"));
    assert!(ucudnn.run(&import).contains("0 new results, 72 known before"));
    assert_eq!(ucudnn.run(&["db", "export", "--database", "new/folder/u.sqlite"]).lines().count(), 72);

    // Names bad lines, and imports the others.
    let first = exported.lines().next().unwrap();
    ucudnn.file("part.jsonl", &format!("{first}\n{{}}\n"));
    let ended = ucudnn.end(&["db", "import", "part.jsonl", "--database", "v.sqlite"], &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("1 new result, "), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("part.jsonl:2: ") && ended.stderr.contains("not understood: 1 line"),
        "{}",
        ended.stderr
    );
    assert!(
        ucudnn.fails(1, &["db", "import", "none.jsonl", "--database", "v.sqlite"]).contains("none.jsonl: No such file")
    );

    assert!(ucudnn.run(&["db", "prune", "--older-than", "1d", "--database", "t.sqlite"]).ends_with(": 0 results\n"));
    assert!(
        ucudnn.fails(1, &["db", "prune", "--environment", "77", "--database", "t.sqlite"]).contains("--environment 77")
    );
    let id = json["environments"][0]["id"].to_string();
    assert!(
        ucudnn
            .run(&["db", "prune", "--environment", &id, "--database", "t.sqlite"])
            .ends_with("t.sqlite: 72 results\n")
    );
    assert!(ucudnn.run(&["db", "list", "--database", "t.sqlite"]).contains("t.sqlite: it holds no results yet"));
    assert!(ucudnn.fails(2, &["db", "prune", "--database", "t.sqlite"]).contains("--older-than"));
    assert!(ucudnn.fails(2, &["db", "prune", "--older-than", "soon", "--database", "t.sqlite"]).contains("90d"));
}

/// Graph-API operation graphs are listed, planned and reported as legacy convolutions are.
#[test]
fn graphs_are_dealt_with_as_convolutions_are() {
    let ucudnn = Installed::new("graphs");
    ucudnn.file("net.csv", &csv(&NETWORK));
    filled_with_graphs(&ucudnn.path("t.sqlite"), &NETWORK);
    let [first, ..] = NETWORK;
    let conv1 = graph::Problem::of_convolution(&kernel(&first, "F"));

    let listed = ucudnn.run(&["db", "list", "--kernels", "--database", "t.sqlite"]);
    assert!(listed.contains("\nF float 1x3x16x16 * 8x3x5x5 pad 2x2 stride 1x1  "), "{listed}");
    let exported = ucudnn.run(&["db", "export", "--database", "t.sqlite"]);
    assert!(exported.contains("ENGINE_4[k2=4]:n4:b"), "{exported}");
    ucudnn.file("all.jsonl", &exported);
    let import = ucudnn.run(&["db", "import", "all.jsonl", "--database", "u.sqlite"]);
    assert!(import.contains("all.jsonl: 72 new results, 0 known before"), "{import}");

    // The database has the network's convolutions as graphs, but none of the legacy API.
    let plan = |more: &[&str]| {
        let arguments = ["plan", "net.csv", "--database", "u.sqlite", "--limit", "16KiB", "--json"];
        ucudnn.json(&[&arguments[..], more].concat())["plans"][0].clone()
    };
    let of_graphs = plan(&["--api", "graph"]);
    assert_eq!(of_graphs["layers"].as_array().unwrap().len(), 9);
    let layer = &of_graphs["layers"][0];
    assert_eq!((&layer["layer"], &layer["spec"]), (&json!("conv1"), &json!(conv1.spec())));
    assert_eq!(layer["division"], "2×4[ENGINE_4[k2=4]]");
    assert_eq!(layer["undivided"], "ENGINE_0[k2=4]");
    let deterministic = plan(&["--api", "graph", "--deterministic"]);
    assert_eq!(deterministic["layers"][0]["division"], "1×8[ENGINE_0[k2=4]]");
    let unknown = ucudnn.fails(1, &["plan", "net.csv", "--database", "u.sqlite", "--limit", "16KiB"]);
    assert!(unknown.contains("9 of 9 kernels have not been measured"), "{unknown}");
    let more = ["--limit", "none", "--batch", "64", "--sizes", "undivided", "--api", "graph"];
    let line = ucudnn.fails(1, &[&["plan", "net.csv", "--database", "u.sqlite"], &more[..]].concat());
    assert!(line.contains("ucudnn tune net.csv --batch 64 --api graph --sizes undivided"), "{line}");
    let math = ucudnn.fails(1, &["plan", "net.csv", "--kernels", "--api", "graph", "--math", "fma"]);
    assert!(math.contains("--math is of the legacy API"), "{math}");

    // A run's report gives the same plan from its problems, with the network's names.
    let ran = json!({
        "event": "ran", "kernel": conv1.to_string(), "spec": conv1.spec(), "direction": "F", "limit": 16384,
        "division": "2×4[ENGINE_4[k2=4]]", "workspace": 12288, "time_ms": 2.0, "undivided": "ENGINE_0[k2=4]",
        "undivided_workspace": 0, "undivided_ms": 6.0,
    });
    let timed = json!({
        "event": "timed", "kernel": conv1.to_string(), "spec": conv1.spec(), "direction": "F", "batch": 8,
        "algorithm": "ENGINE_0[k2=4]", "workspace": 0, "time_ms": 6.0, "device": 0,
    });
    let exploring = json!({ "event": "exploring", "kernel": conv1.to_string(), "spec": conv1.spec(), "limit": 16384 });
    ucudnn.file("half.jsonl", &format!("{exploring}\n{timed}\n"));
    let text = ucudnn.run(&["report", "half.jsonl"]);
    assert!(
        text.starts_with("Nothing was decided yet") && text.contains("\nNot explored to the end: 1 kernel."),
        "{text}"
    );
    assert_eq!(ucudnn.json(&["report", "half.jsonl", "--json"])["exploring"], 1);
    ucudnn.file("r.jsonl", &format!("{exploring}\n{timed}\n{ran}\n"));
    let text = ucudnn.run(&["report", "r.jsonl", "--network", "net.csv"]);
    assert!(!text.contains("explored") && !text.contains("does not know"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("conv1 ") && line.ends_with("3.00×")), "{text}");
    let of_report = ucudnn.json(&["plan", "r.jsonl", "--database", "u.sqlite", "--limit", "16KiB", "--json"]);
    for field in ["spec", "division", "workspace", "time_ms", "undivided", "undivided_ms"] {
        assert_eq!(of_report["plans"][0]["layers"][0][field], layer[field], "{field}");
    }
    let picture = ucudnn.run(&["plot", "desirable", "r.jsonl", "--database", "u.sqlite"]);
    assert!(picture.contains("ENGINE_4[k2=4]") && picture.contains("<svg"), "{picture}");
}

#[test]
fn help_is_for_newcomers() {
    let ucudnn = Installed::new("help");
    let help = ucudnn.run(&["--help"]);
    for command in ["run", "tune", "plan", "report", "plot", "db", "doctor", "completions", "man"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in {help}");
        let own = ucudnn.run(&[command, "--help"]);
        assert!(own.contains("Example"), "no example in {own}");
    }
    assert!(ucudnn.run(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    assert!(ucudnn.fails(2, &["reprot"]).contains("report"));
    assert_eq!(ucudnn.end(&[], &[]).code, Some(2));
}
