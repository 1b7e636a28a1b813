//! Null, garbage and mismatched arguments to every overridden function: the plain library's statuses, and no crash.

use crate::hostdnn::{Program, seed};

/// Runs the same calls plain and with the library. One difference is allowed: a call that cuDNN refuses only for its
/// small workspace may run, by an algorithm that fits.
fn same_statuses(program: &Program, arguments: &[&str]) -> usize {
    let plain = program.plain(arguments, &[]);
    for total in ["", "1MiB"] {
        let variables = [("UCUDNN_TUNE_SECONDS", "0.02"), ("UCUDNN_TOTAL_WORKSPACE_SIZE", total)];
        let ours = program.preloaded(arguments, &variables);
        assert_eq!(plain.stdout.lines().count(), ours.stdout.lines().count());
        for (plain, ours) in plain.stdout.lines().zip(ours.stdout.lines()) {
            let [(call, expected), (_, status)] = [plain, ours].map(|line| line.rsplit_once('|').unwrap());
            let runs = call.starts_with("run") || call.starts_with("fused");
            let small = runs && (call.contains(" 13:") || call.contains(" 14:"));
            assert!(
                plain == ours || (small && expected == "2000" && status == "0"),
                "{arguments:?}: {ours}, plain {plain}"
            );
        }
    }
    plain.stdout.lines().filter(|line| !line.ends_with("|0")).count()
}

#[test]
fn every_argument_in_turn() {
    let refused = same_statuses(&Program::new("hostile"), &["each"]);
    assert!(refused > 500, "{refused}");
}

#[test]
fn ten_thousand_random_calls() {
    let refused = same_statuses(&Program::new("hostile"), &[&seed().to_string(), "10000"]);
    assert!(refused > 3000, "{refused}");
}
