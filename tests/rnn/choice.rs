//! The choice between cuDNN's and our GPU kernels for a network, and its reports.

use super::{FORCE, decisions, program};
use crate::hostdnn::has_emulator;

/// With nothing set, the program's own executions time both. On the CPU, our GPU kernels are emulated and slower.
#[test]
fn the_faster_is_chosen() {
    let program = program("rnn_until");
    let report = program.file("report.jsonl");
    // With no compiled kernels, our first candidate is timed while the second is compiled.
    let kernels = program.file("kernels");
    let variables = [
        ("UCUDNN_RNN_TOP_K", "2"),
        ("UCUDNN_REPORT", report.to_str().unwrap()),
        ("UCUDNN_LOG", "info"),
        ("HOSTDNN_KERNEL_CACHE", kernels.to_str().unwrap()),
    ];
    let ran = program.preloaded(&[report.to_str().unwrap()], &variables);
    let decisions = decisions(&report);
    let [decision] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!(decision["chosen"], "cuDNN");
    if !has_emulator() {
        assert!(decision["why"].as_str().unwrap().contains("compiler"), "{decision}");
        return;
    }
    assert_eq!(decision["why"], "timed in place");
    assert!(ran.stderr.contains("cuDNN runs it until others are compiled"), "{}", ran.stderr);
    let times = decision["times"].as_array().unwrap();
    assert_eq!(times[0]["what"], "cuDNN");
    assert!(times.len() == 3 && times.iter().all(|time| time["step_ms"].as_f64().unwrap() > 0.0), "{decision}");
    let time = |i: usize| times[i]["step_ms"].as_f64().unwrap();
    assert!(time(0) < 1.1 * time(1).min(time(2)), "{decision}");
}

/// Our kernels panic where they are timed: the trial ends all the same.
#[test]
fn what_panics_loses() {
    if !has_emulator() {
        return;
    }
    let program = program("rnn_until");
    let report = program.file("report.jsonl");
    let report = report.to_str().unwrap();
    let variables = [("UCUDNN_FAULT", "panic:rnn-launch"), ("UCUDNN_REPORT", report), ("UCUDNN_DATABASE", "off")];
    let ran = program.preloaded(&[report], &variables);
    assert!(ran.stderr.contains("a panic inside ucudnn"), "{}", ran.stderr);
    let decisions = decisions(report.as_ref());
    let [decision] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!((&decision["chosen"], &decision["why"]), (&"cuDNN".into(), &"timed in place".into()), "{decision}");
}

/// The fastest of several configurations is chosen; cuDNN is not among them.
#[test]
fn the_best_of_ours_is_found() {
    if !has_emulator() {
        return;
    }
    let program = program("rnn_until");
    let report = program.file("report.jsonl");
    let variables = [FORCE[0], ("UCUDNN_RNN_TOP_K", "3"), ("UCUDNN_REPORT", report.to_str().unwrap())];
    program.preloaded(&[report.to_str().unwrap()], &variables);
    let decisions = decisions(&report);
    let [decision] = &decisions[..] else { panic!("{decisions:?}") };
    let times = decision["times"].as_array().unwrap();
    let least = times.iter().min_by(|a, b| a["step_ms"].as_f64().unwrap().total_cmp(&b["step_ms"].as_f64().unwrap()));
    assert_eq!((times.len(), &decision["chosen"]), (3, &least.unwrap()["what"]), "{decision}");
    assert!(times.iter().all(|time| time["what"] != "cuDNN"), "{decision}");
}

/// Nothing is timed, since results must be the same bits each time.
#[test]
fn deterministic_programs_keep_cudnn() {
    let program = program("rnn_random");
    let report = program.file("report.jsonl");
    let arguments = ["11", "3", "20"];
    let variables = [("UCUDNN_NUMERICS", "deterministic"), ("UCUDNN_REPORT", report.to_str().unwrap())];
    let ours = program.preloaded(&arguments, &variables);
    assert_eq!(ours.stdout, program.plain(&arguments, &[]).stdout);
    assert_eq!(decisions(&report).len(), 0);
}

#[test]
fn threads() {
    let program = program("rnn_threads");
    assert_eq!(program.plain(&[], &[]).stdout, "ended\n");
    for top_k in ["1", "2"] {
        assert_eq!(program.preloaded(&[], &[FORCE[0], ("UCUDNN_RNN_TOP_K", top_k)]).stdout, "ended\n");
    }
    assert_eq!(program.preloaded(&[], &[]).stdout, "ended\n");
}
