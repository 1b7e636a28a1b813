//! Failures inside the library, or in the cuDNN functions that it calls: every call succeeds and has the right result.

use super::numerics::assert_exact;
use super::{FORCE, decisions, program};
use crate::hostdnn::fault_points;
use crate::hostdnn::has_emulator;

const ARGUMENTS: [&str; 3] = ["11", "4", "4"];

#[test]
fn panics_stay_inside() {
    let program = program("rnn_random");
    let plain = program.plain(&ARGUMENTS, &[]).stdout;
    let places =
        fault_points("crates/recurrent/src", &["crates/recurrent/src/direct", "crates/recurrent/src/training"]);
    assert!(places.len() >= 4, "{places:?}");
    for place in places {
        let fault = format!("panic:{place}");
        for top_k in ["1", "3"] {
            let variables = [FORCE[0], ("UCUDNN_RNN_TOP_K", top_k), ("UCUDNN_FAULT", &fault)];
            let ours = program.preloaded(&ARGUMENTS, &variables);
            assert_exact(&plain, &ours.stdout);
            let strikes = ours.stderr.contains(&format!("a panic at {place}"));
            // A single choice needs no compiling thread, and without a compiler nothing is launched.
            let is_needed = (place != "rnn-load" || top_k != "1") && (place != "rnn-launch" || has_emulator());
            assert_eq!(strikes, is_needed, "{fault}, the best {top_k}:\n{}", ours.stderr);
        }
    }
}

/// Compilation fails, and so do the cuDNN functions that only the library calls.
#[test]
fn what_cannot_be_had_is_done_without() {
    let program = program("rnn_random");
    let plain = program.plain(&ARGUMENTS, &[]).stdout;
    let report = program.file("report.jsonl");
    let functions =
        ["cudnnGetRNNWeightParams", "cudnnGetRNNDescriptor_v8", "cudnnGetRNNDataDescriptor", "cudnnGetStream"];
    let faults =
        functions.iter().flat_map(|name| ["1+", "2", "9"].map(|count| ("HOSTDNN_FAIL", format!("{name}:{count}"))));
    let ours = ["compiler", "compilation", "allocation"].map(|fault| ("UCUDNN_FAULT", fault.to_owned()));
    for (variable, fault) in faults.chain(ours) {
        let _ = std::fs::remove_file(&report);
        let variables = [FORCE[0], FORCE[1], (variable, &fault), ("UCUDNN_REPORT", report.to_str().unwrap())];
        let ours = program.preloaded(&ARGUMENTS, &variables);
        assert_exact(&plain, &ours.stdout);
        if fault.starts_with("compil") {
            let decisions = decisions(&report);
            assert!(!decisions.is_empty() && decisions.iter().all(|line| line["chosen"] == "cuDNN"), "{decisions:?}");
        }
    }
}

/// No call waits for a background compilation, whatever locks it holds: eight threads end while the first compilation
/// of any network hangs, and so does the process. The harness would end calls that waited.
#[test]
fn a_compilation_that_hangs_delays_no_call() {
    let program = program("rnn_threads");
    let report = program.file("report.jsonl");
    let variables = [("UCUDNN_FAULT", "hang"), ("UCUDNN_LOG", "debug"), ("UCUDNN_REPORT", report.to_str().unwrap())];
    let ours = program.preloaded(&[], &variables);
    assert_eq!(ours.stdout, "ended\n");
    // The compilation did hang to the end: nothing was decided.
    assert!(ours.stderr.contains("compiling hangs"), "{}", ours.stderr);
    assert!(!report.exists());
}
