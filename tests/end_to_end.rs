//! Random convolutions by a C program, plain and with the library preloaded: every result agrees with double precision,
//! and with the plain run's bits where the same algorithm ran.

use std::collections::HashMap;

use crate::hostdnn::{Program, is_divided, report, seed};
use serde_json::Value;

const CASES: &str = "75";
/// UCUDNN_WORKSPACE_LIMIT: unset, zero, and three limits with different effects.
const LIMITS: [Option<&str>; 5] = [None, Some("0"), Some("4096"), Some("65536"), Some("1048576")];

/// A line of the program's output.
struct Case<'a> {
    shape: &'a str,
    asking: &'a str,
    recorded_algorithm: usize,
    executions: usize,
    equal: usize,
    /// The largest error, and its tolerance: four standard deviations of rounding errors.
    errors: [f64; 2],
}

fn cases(stdout: &str) -> Vec<Case<'_>> {
    let case = |line| {
        let fields: Vec<&str> = str::split(line, '|').collect();
        let number = |index: usize| fields[index].parse().unwrap();
        Case {
            shape: fields[1],
            asking: fields[2],
            recorded_algorithm: number(4),
            executions: number(5),
            equal: number(6),
            errors: [7, 8].map(|index: usize| fields[index].parse().unwrap()),
        }
    };
    stdout.lines().filter(|line| line.starts_with("case ")).map(case).collect()
}

/// A report line's problem, as the program writes its shapes.
fn shape(line: &Value) -> String {
    let list = |name: &str| {
        let values: Vec<_> = line[name].as_array().unwrap().iter().map(Value::to_string).collect();
        format!("{name} {}", values.join(","))
    };
    let kernel = line["kernel"].as_str().unwrap();
    let data_type = kernel.split(' ').nth(1).unwrap();
    let lists = ["x", "w", "y", "pad", "stride", "dilation"].map(list).join(" ");
    format!("{} {data_type} {lists} groups {}", line["direction"].as_str().unwrap(), line["groups"])
}

/// The name of an algorithm that computes image by image and in the same order whatever the batch; `None` for all
/// others.
fn by_image(shape: &str, algorithm: usize) -> Option<&'static str> {
    match shape.split(' ').next()? {
        "F" => ["IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM"].get(algorithm).copied(),
        "BD" => ["ALGO_0", "ALGO_1"].get(algorithm).copied(),
        _ => None,
    }
}

/// Takes the cases that compute image by image and whose plans use only the recorded run's algorithm: each execution
/// must equal the recorded one bit for bit. Returns the number of these cases, and how many were divided.
fn check_bits(cases: &[Case], lines: &[Value]) -> (usize, usize) {
    let mut decisions: HashMap<String, Vec<&Value>> = HashMap::new();
    for line in lines {
        decisions.entry(shape(line)).or_default().push(line);
    }
    let (mut exact, mut divided) = (0, 0);
    for case in cases {
        let Some(own) = by_image(case.shape, case.recorded_algorithm) else { continue };
        let decided = decisions.get(case.shape).map_or(&[][..], Vec::as_slice);
        let same = decided.iter().all(|line| line["parts"].as_array().unwrap().iter().all(|p| p["algorithm"] == own));
        let planned = match case.asking {
            "get" | "get-within" | "find" | "find-ex" => !decided.is_empty() && same,
            "only" => true,
            _ => false, // configurations that were only tried are not in the report
        };
        if planned {
            assert_eq!(case.equal, case.executions, "executions equal to the plain run's bits: {}", case.shape);
            exact += 1;
            divided += usize::from(decided.iter().any(|line| is_divided(line)));
        }
    }
    (exact, divided)
}

/// The errors of each type together are no more than rounding explains.
fn check_errors(cases: &[Case]) {
    const MANY: usize = 5;
    for data_type in ["half", "bfloat16", "float", "double"] {
        // Without a product nothing is rounded.
        let of_type = |case: &&Case| case.shape.split(' ').nth(1) == Some(data_type) && case.errors[1] > 0.0;
        let squares = cases.iter().filter(of_type).map(|case| (case.errors[0] / case.errors[1]).powi(2));
        let (count, sum) = (squares.clone().count(), squares.sum::<f64>());
        let deviations = 4.0 * (sum / count.max(1) as f64).sqrt();
        assert!(count < MANY || deviations <= 1.0, "{data_type}: {deviations} standard deviations");
    }
}

/// Runs cases under a batch-size policy and all limits; returns the number of divided decisions.
fn run(policy: &str, offset: u64) -> usize {
    let program = Program::new("random_convolutions");
    let (mut all, mut exact, mut exactly_divided) = (0, 0, 0);
    for (round, limit) in (0..).zip(LIMITS) {
        let seed = (seed() + offset + round).to_string();
        let (record, decisions) = (program.file("record"), program.file(&format!("report-{round}")));
        let mut arguments = vec![seed.as_str(), CASES, "record", record.to_str().unwrap()];
        program.plain(&arguments, &[]);

        arguments[2] = "compare";
        let mut variables = vec![
            ("UCUDNN_BATCH_SIZE_POLICY", policy),
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
            ("UCUDNN_TUNE_SECONDS", "0.03"),
        ];
        if let Some(limit) = limit {
            arguments.push(limit);
            variables.push(("UCUDNN_WORKSPACE_LIMIT", limit));
        }
        let outcome = program.preloaded(&arguments, &variables);
        assert_eq!(outcome.stderr, "", "{arguments:?}");
        let mut lines = report(&decisions);
        lines.retain(|line| line["event"] == "asked" || line["event"] == "ran");
        all += lines.iter().filter(|line| is_divided(line)).count();
        let cases = cases(&outcome.stdout);
        check_errors(&cases);
        let (equal, divided) = check_bits(&cases, &lines);
        (exact, exactly_divided) = (exact + equal, exactly_divided + divided);
    }
    println!("{policy}: {all} decisions divided; {exact} cases equal bit for bit, {exactly_divided} of them divided");
    assert!(exact > 0, "no case used the plain run's algorithm");
    all
}

#[test]
fn results_agree_by_power_of_two() {
    assert!(run("powerOfTwo", 0) > 0, "nothing was divided");
}

#[test]
fn results_agree_by_all_sizes() {
    assert!(run("all", 100) > 0, "nothing was divided");
}

#[test]
fn results_agree_undivided() {
    assert_eq!(run("undivided", 200), 0);
}

/// `UCUDNN_CHECK=1` finds no error either, and reports each plan that it compared.
#[test]
fn checked_plans_are_within_tolerance() {
    let program = Program::new("random_convolutions");
    let (record, decisions) = (program.file("record"), program.file("report"));
    let seed = (seed() + 300).to_string();
    let mut arguments = [seed.as_str(), CASES, "record", record.to_str().unwrap()];
    program.plain(&arguments, &[]);
    arguments[2] = "compare";
    let variables = [
        ("UCUDNN_CHECK", "1"),
        ("UCUDNN_BATCH_SIZE_POLICY", "all"),
        ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ("UCUDNN_TUNE_SECONDS", "0.03"),
    ];
    let outcome = program.preloaded(&arguments, &variables);
    assert_eq!(outcome.stderr, "", "{arguments:?}");
    let lines = report(&decisions);
    let checked: Vec<_> = lines.iter().filter(|line| line["event"] == "checked").collect();
    assert!(checked.len() > 75, "{} comparisons", checked.len());
    for line in checked {
        let (error, tolerance) = (line["error"].as_f64(), line["tolerance"].as_f64().unwrap());
        assert!(error.is_some_and(|error| error <= tolerance), "{line}");
    }
}
