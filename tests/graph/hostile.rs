//! Null, garbage and mismatched arguments to every graph-API function: the plain library's statuses, and no crash.

use super::program;
use crate::hostdnn::seed;
use crate::programs;

/// Runs the same calls plain and with the library, and returns the number of refused calls. Under a limit, plans may
/// report a smaller workspace; and an execution with an inconsistent variant pack may be refused for another reason, or
/// need no workspace and run.
fn same_statuses(arguments: &[&str]) -> usize {
    let program = program("graph_hostile");
    let plain = program.plain(arguments, &[]).stdout;
    for limit in ["", "0"] {
        // The library logs its refusals; here only errors are wanted.
        let quiet = ("UCUDNN_LOG", "error");
        let programs::Outcome { stdout: ours, stderr } =
            program.preloaded(arguments, &[("UCUDNN_WORKSPACE_LIMIT", limit), quiet]);
        let [expected, count] = [&plain, &ours].map(|text| text.lines().count());
        assert_eq!(count, expected, "{arguments:?} under {limit:?} ended early:\n{stderr}");
        for (plain, ours) in plain.lines().zip(ours.lines()) {
            let [(call, expected), (_, status)] = [plain, ours].map(|line| line.rsplit_once('|').unwrap());
            let is_workspace = call.contains(" 402 as 3,") && expected == status;
            let is_refused = expected != "0" && status != "0";
            let is_executed = call.contains("xecute") && (is_refused || status == "0");
            let is_executed = is_executed || call.contains("CudaGraph") && is_refused;
            assert!(
                plain == ours || (limit == "0" && (is_workspace || is_executed)),
                "{arguments:?} under {limit:?}: {ours}, plain {plain}\n{stderr}"
            );
        }
    }
    plain.lines().filter(|line| !line.ends_with("|0")).count()
}

#[test]
fn every_argument_in_turn() {
    let refused = same_statuses(&["each"]);
    assert!(refused > 1000, "{refused}");
}

#[test]
fn twenty_thousand_random_calls() {
    let refused = same_statuses(&[&seed().to_string(), "20000"]);
    assert!(refused > 3000, "{refused}");
}
