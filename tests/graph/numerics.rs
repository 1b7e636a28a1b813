//! Every execution of every plan is right, whichever configuration runs it and however far tuning is.

use crate::hostdnn::{Program, is_divided, report, seed};

use super::program;

/// Random convolutions of one run.
const CASES: &str = "40";
/// `UCUDNN_WORKSPACE_LIMIT` and its bytes: unset, zero, and some limits with different effects.
const LIMITS: [(&str, usize); 5] =
    [("", usize::MAX), ("0", 0), ("2000", 2000), ("20000", 20000), ("200KiB", 200 << 10)];

/// A line of the program's output: one plan.
struct Plan<'a> {
    /// The case, its shape and whether it can be cut.
    case: &'a str,
    workspace: usize,
    executions: usize,
}

fn plans(stdout: &str) -> Vec<Plan<'_>> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("plan "));
    let plan = |line: &'_ str| {
        let fields: Vec<_> = line.rsplitn(4, '|').collect();
        (fields[2].parse().unwrap(), fields[1].parse().unwrap())
    };
    lines
        .map(|line| {
            let (workspace, executions) = plan(line);
            Plan { case: line.rsplitn(4, '|').last().unwrap(), workspace, executions }
        })
        .collect()
}

/// Counts over some runs.
#[derive(Debug, Default)]
struct Seen {
    plans: usize,
    executions: usize,
    /// Plans that report a smaller workspace than cuDNN does.
    limited: usize,
    settled: usize,
    divided: usize,
}

/// Runs the same random cases plain and with the library under limits, and compares the plans' reported workspaces.
fn run(offset: u64, limits: &[(&str, usize)], variables: &[(&str, &str)]) -> Seen {
    let program = program("graph_random");
    let mut seen = Seen::default();
    for (round, (limit, bytes)) in (0..).zip(limits) {
        let seed = (seed() + offset + round).to_string();
        let arguments = [seed.as_str(), CASES];
        let decisions = program.file(&format!("report-{round}"));
        let ours = [("UCUDNN_WORKSPACE_LIMIT", *limit), ("UCUDNN_REPORT", decisions.to_str().unwrap())];
        let plain = program.plain(&arguments, &[]);
        let outcome = program.preloaded(&arguments, &[variables, &ours[..]].concat());
        assert_eq!(outcome.stderr, "", "{arguments:?}");
        let (plain, ours) = (plans(&plain.stdout), plans(&outcome.stdout));
        assert_eq!(plain.len(), ours.len());
        for (plain, ours) in plain.iter().zip(&ours) {
            assert_eq!(plain.case, ours.case);
            let is_off = variables.contains(&("UCUDNN_POLICY", "off"));
            // hostdnn has an engine without workspace for everything, so that every limit can be kept, even for a
            // mini-batch that cannot be cut.
            let told = if is_off { plain.workspace } else { plain.workspace.min(*bytes) };
            assert_eq!(ours.workspace, told, "{arguments:?} under {limit:?}: {}", ours.case);
            seen.limited += usize::from(ours.workspace < plain.workspace);
            seen.executions += ours.executions;
        }
        seen.plans += ours.len();
        for line in report(&decisions).iter().filter(|line| line["event"] == "ran") {
            assert!(line["workspace"].as_u64().unwrap() <= line["limit"].as_u64().unwrap(), "{line}");
            seen.settled += 1;
            seen.divided += usize::from(is_divided(line));
        }
    }
    println!("{variables:?}: {seen:?}");
    assert!(seen.plans >= 25 && seen.executions > 500, "{seen:?}");
    seen
}

#[test]
fn results_agree_by_power_of_two() {
    let seen = run(0, &LIMITS, &[]);
    assert!(seen.limited > 0 && seen.settled > 0 && seen.divided > 0, "{seen:?}");
}

#[test]
fn results_agree_by_all_sizes() {
    let seen = run(100, &LIMITS, &[("UCUDNN_BATCH_SIZE_POLICY", "all")]);
    assert!(seen.limited > 0 && seen.settled > 0 && seen.divided > 0, "{seen:?}");
}

#[test]
fn results_agree_undivided() {
    let seen = run(200, &LIMITS[..3], &[("UCUDNN_BATCH_SIZE_POLICY", "undivided")]);
    assert!(seen.limited > 0 && seen.settled > 0, "{seen:?}");
    assert_eq!(seen.divided, 0);
}

#[test]
fn results_agree_in_any_numerics() {
    let seen = run(300, &LIMITS[1..4], &[("UCUDNN_NUMERICS", "any")]);
    assert!(seen.limited > 0 && seen.settled > 0, "{seen:?}");
}

/// Nothing is explored, so that a program's results repeat.
#[test]
fn results_agree_in_deterministic_numerics() {
    let seen = run(400, &LIMITS[..3], &[("UCUDNN_NUMERICS", "deterministic")]);
    assert!(seen.limited > 0, "{seen:?}");
    assert_eq!(seen.settled, 0);
}

#[test]
fn switched_off_it_is_not_there() {
    let seen = run(500, &LIMITS[..2], &[("UCUDNN_POLICY", "off")]);
    assert_eq!((seen.limited, seen.settled), (0, 0), "{seen:?}");
}

/// Every engine needs some workspace: the fallback runs in micro-batches, and is right from the first execution on.
#[test]
fn results_agree_where_everything_needs_workspace() {
    let program = program("graph_random");
    let front = super::counting(&program);
    let front = front.to_str().unwrap();
    let mut divided = 0;
    for (round, limit) in (0..).zip(["0", "5000", "40000"]) {
        let seed = (seed() + 600 + round).to_string();
        let arguments = [seed.as_str(), CASES];
        let least = ("LEAST_WORKSPACE", "1000");
        let plain = program.plain(&arguments, &[("LD_PRELOAD", front), least]);
        let decisions = program.file(&format!("report-{round}"));
        let variables = [
            ("UCUDNN_CUDNN_LIBRARY", front),
            least,
            ("UCUDNN_WORKSPACE_LIMIT", limit),
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
            ("UCUDNN_LOG", "warn,ucudnn_convolution::plans::graph::state=debug"),
        ];
        let outcome = program.preloaded(&arguments, &variables);
        let (plain, ours) = (plans(&plain.stdout), plans(&outcome.stdout));
        assert_eq!(plain.len(), ours.len());
        assert!(!plain.is_empty());
        for (plain, ours) in plain.iter().zip(&ours) {
            assert!(ours.case == plain.case && ours.workspace <= plain.workspace, "{arguments:?}: {}", ours.case);
        }
        let ready = outcome.stderr.lines().filter_map(|line| line.split_once("ready within")?.1.split_once("bytes: "));
        divided += ready.filter(|(_, division)| division.contains('+') || !division.starts_with("1×")).count();
    }
    assert!(divided > 0, "nothing was ready in micro-batches");
}

/// BackwardFilter in half and in bfloat16, added to the filter's previous contents: as accurate in 64 parts as in one.
#[test]
fn half_sums_of_64_parts_are_as_accurate_as_one() {
    let program = program("graph_half_sums");
    for data_type in ["half", "bfloat16"] {
        assert_accurate(&program, data_type);
    }
}

fn assert_accurate(program: &Program, data_type: &str) {
    let error = |stdout: &crate::programs::Outcome| stdout.line("error").parse::<f64>().unwrap();
    let plain = error(&program.plain(&[data_type, "8"], &[]));
    // Larger parts fail, once the program has run undivided for a while: only 64 parts of one image remain.
    let larger = ["2", "4", "8", "16", "32"].map(|batch| format!("cudnnBackendExecute@batch={batch}:1+")).join(",");
    let faults = format!("{larger},cudnnBackendExecute@batch=64:4+");
    let decisions = program.file(&format!("report-{data_type}"));
    let variables = [("HOSTDNN_FAIL", faults.as_str()), ("UCUDNN_REPORT", decisions.to_str().unwrap())];
    let outcome = program.preloaded(&[data_type, "400"], &variables);
    let ours = error(&outcome);
    let mut lines = report(&decisions);
    lines.retain(|line| line["event"] == "ran");
    let part = &lines[0]["parts"][0];
    assert_eq!((&part["count"], &part["batch"]), (&64.into(), &1.into()), "{lines:?}");
    assert!(ours <= 1.6 * plain, "{data_type}: {ours:e}, in one part {plain:e}");
}
