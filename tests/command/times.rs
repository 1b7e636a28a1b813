//! A plan compares either times alone or times in place, and names the sizes and kernels without times.

use planner::{Configuration, MicroConfiguration};
use serde_json::{Value, json};
use tuning::database::Database;

use super::{DIRECTIONS, Installed, NETWORK, Row, csv, environment, kernel};
use convolution::problem::Algorithm;

fn algorithm(row: &Row, direction: &str, id: i32) -> Algorithm {
    Algorithm { direction: kernel(row, direction).direction, id, math_type: 0, deterministic: true, engine: None }
}

/// The command beside a network of one layer, and a database without times.
fn installed(name: &str) -> (Installed, Row, Database) {
    let ucudnn = Installed::new(name);
    let row = NETWORK[0];
    ucudnn.file("net.csv", &csv(&[row]));
    let database = Database::open(&ucudnn.path("t.sqlite"), None).unwrap();
    (ucudnn, row, database)
}

/// Micro-batches of these sizes, each with its workspace and its time alone.
fn store(database: &Database, row: &Row, direction: &str, sizes: &[(usize, usize, f64)]) {
    let micro = |&(batch, workspace, time): &(usize, usize, f64)| MicroConfiguration {
        batch,
        algorithm: algorithm(row, direction, 1),
        time,
        workspace,
    };
    let outcomes: Vec<_> = sizes.iter().map(|known| micro(known).into()).collect();
    database.store_measured(&environment(), &kernel(row, direction), &outcomes);
}

/// A configuration of equal micro-batches, which took `time` in place.
fn tried(database: &Database, row: &Row, direction: &str, (count, batch): (usize, usize), time: f64) {
    let kernel = kernel(row, direction);
    let known = database.measured(&environment(), &kernel);
    let part = known.iter().find(|outcome| outcome.batch == batch).unwrap().micro_configuration().unwrap();
    let parts = vec![(count, part)];
    database.store_trial(&environment(), &kernel, &Configuration::new(parts), Some(time));
}

fn plan(ucudnn: &Installed, more: &[&str]) -> Value {
    ucudnn.json(&[&["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--json"], more].concat())
}

/// Two kernels' divisions and times, and their undivided times.
fn times(plan: &Value) -> Vec<(String, f64, Option<f64>)> {
    let layers = plan["plans"][0]["layers"].as_array().unwrap();
    let row = |layer: &Value| {
        let text = layer["division"].as_str().unwrap().to_owned();
        (text, layer["time_ms"].as_f64().unwrap(), layer["undivided_ms"].as_f64())
    };
    layers.iter().map(row).collect()
}

/// Alone, halves are faster than the whole; in place they are slower.
#[test]
fn times_alone_and_in_place_are_never_compared() {
    let (ucudnn, row, database) = installed("times");
    for direction in DIRECTIONS {
        store(&database, &row, direction, &[(8, 0, 10.0), (4, 0, 4.0), (2, 0, 3.0), (1, 0, 2.0)]);
    }
    let halves = |time, whole| ("2×4[".to_owned(), time, whole);
    let of = |plan: &Value| -> Vec<_> {
        times(plan)
            .into_iter()
            .map(|(text, time, whole)| (text[..text.find('[').unwrap() + 1].to_owned(), time, whole))
            .collect()
    };
    let alone = plan(&ucudnn, &[]);
    assert_eq!((&alone["times"], of(&alone)), (&json!("alone"), vec![halves(8.0, Some(10.0)); 3]));

    // One kernel has times in place. The whole's time in place must not be compared with the halves' times alone.
    tried(&database, &row, "F", (1, 8), 7.0);
    let mixed = plan(&ucudnn, &[]);
    assert_eq!((&mixed["times"], of(&mixed)), (&json!("alone"), vec![halves(8.0, Some(10.0)); 3]));
    tried(&database, &row, "F", (2, 4), 9.0);
    let mixed = plan(&ucudnn, &[]);
    assert_eq!((&mixed["times"], of(&mixed)), (&json!("alone"), vec![halves(8.0, Some(10.0)); 3]));
    let error = ucudnn.fails(1, &["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--times=in-place"]);
    assert!(error.contains("--times in-place: 2 of 3 kernels have no such times:\n  conv1 BD BD float"), "{error}");

    // Once all kernels have times in place, these decide.
    for direction in ["BD", "BF"] {
        tried(&database, &row, direction, (1, 8), 7.0);
        tried(&database, &row, direction, (2, 4), 9.0);
    }
    let whole = ("1×8[".to_owned(), 7.0, Some(7.0));
    let in_place = plan(&ucudnn, &[]);
    assert_eq!((&in_place["times"], of(&in_place)), (&json!("in-place"), vec![whole; 3]));
    assert_eq!(of(&plan(&ucudnn, &["--times", "alone"])), vec![halves(8.0, Some(10.0)); 3]);
    let text = ucudnn.run(&["plan", "net.csv", "--database=t.sqlite", "--limit=none"]);
    assert!(text.contains("\nTimes are of whole mini-batches in place.\n"), "{text}");
    let text = ucudnn.run(&["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--times=alone"]);
    assert!(text.contains("\nTimes are of micro-batches that ran alone, added up.\n"), "{text}");
    let picture = ["plot", "desirable", "net.csv", "--directions=F", "--database=t.sqlite"];
    assert!(ucudnn.run(&picture).contains("times are of whole mini-batches in place"));
}

#[test]
fn a_limit_beyond_those_that_were_tried_uses_times_alone() {
    let (ucudnn, row, database) = installed("times-limits");
    for direction in DIRECTIONS {
        store(&database, &row, direction, &[(8, 0, 10.0), (4, 4096, 2.0)]);
        // A search within no workspace ran this one.
        tried(&database, &row, direction, (1, 8), 12.0);
    }
    let kind = |limit: &str| {
        let arguments = ["plan", "net.csv", "--database=t.sqlite", "--json", "--limit", limit];
        ucudnn.json(&arguments)["times"].clone()
    };
    assert_eq!([kind("0"), kind("4KiB"), kind("0,4KiB")], ["in-place", "alone", "alone"].map(Value::from));
}

#[test]
fn sizes_that_were_not_measured_and_missing_columns_are_named() {
    let (ucudnn, row, database) = installed("times-missing");
    store(&database, &row, "F", &[(8, 4096, 1.0), (4, 0, 2.0), (2, 0, 3.0), (1, 0, 2.0)]);
    for direction in ["BD", "BF"] {
        store(&database, &row, direction, &[(4, 0, 1.0), (1, 0, 2.0)]);
    }
    let arguments = ["plan", "net.csv", "--database=t.sqlite", "--limit=1KiB"];
    let text = ucudnn.run(&arguments);
    assert!(
        text.contains("Micro-batch sizes without times, which no plan uses:\n  2 8 of conv1 BD, conv1 BF\n"),
        "{text}"
    );
    assert!(
        text.contains("No undivided time: the whole mini-batch has no time for conv1 BD, conv1 BF.\n")
            && text.contains("No undivided time: no undivided way fits for conv1 F.\n"),
        "{text}"
    );
    let json = ucudnn.json(&[&arguments[..], &["--json"]].concat());
    let unmeasured = json!([
        { "kernel": "conv1 BD", "sizes": [2, 8] }, { "kernel": "conv1 BF", "sizes": [2, 8] },
    ]);
    assert_eq!(json["unmeasured"], unmeasured);
    assert_eq!(json["plans"][0]["undivided_ms"], Value::Null);
    // If no time is missing, nothing is printed about times.
    let text = ucudnn.run(&["plan", "net.csv", "--database=t.sqlite", "--limit=none", "--directions=F"]);
    assert!(!text.contains("without times") && !text.contains("No undivided time"), "{text}");
}
