//! BackwardFilter in half and in bfloat16: as accurate in 64 parts as in one.

use crate::hostdnn::{Program, report};
use crate::programs::Outcome;

#[test]
fn sums_of_64_parts_are_as_accurate_as_one() {
    let program = Program::new("half_sums");
    for data_type in ["half", "bfloat16"] {
        assert_accurate(&program, data_type);
    }
}

fn assert_accurate(program: &Program, data_type: &str) {
    let error = |outcome: Outcome| outcome.line("error").parse::<f64>().unwrap();
    let plain = error(program.plain(&[data_type], &[]));

    // Larger parts fail, so that only 64 parts of one image remain to plan with.
    let larger = ["2", "4", "8", "16", "32", "64"];
    let faults = larger.map(|batch| format!("cudnnConvolutionBackwardFilter@batch={batch}:1+")).join(",");
    let decisions = program.file(&format!("report-{data_type}"));
    let variables = [
        ("HOSTDNN_FAIL", faults.as_str()),
        ("UCUDNN_WORKSPACE_LIMIT", "64MiB"),
        ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ("UCUDNN_TUNE_SECONDS", "1"),
    ];
    let ours = error(program.preloaded(&[data_type], &variables));
    let mut lines = report(&decisions);
    lines.retain(|line| line["event"] == "asked");
    assert_eq!((&lines[0]["parts"][0]["count"], &lines[0]["parts"][0]["batch"]), (&64.into(), &1.into()), "{lines:?}");
    assert!(ours <= 1.5 * plain, "{data_type}: {ours:e}, in one part {plain:e}");
}
