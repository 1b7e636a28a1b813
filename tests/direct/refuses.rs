//! Refusals come with a status and a reason, and write nothing.

use super::program;
use crate::hostdnn::has_emulator;
use crate::hostdnn::{Build, Program, fault_points};

const FIRST: (&str, &str) = ("UCUDNN_RNN_TOP_K", "1");

#[test]
fn misuse_is_refused() {
    if has_emulator() {
        let ran = program("direct_hostile").plain(&[], &[FIRST, ("HOSTDNN_DEVICES", "2")]);
        assert_eq!(ran.stderr, "");
    }
}

/// Without cuDNN and a GPU, the call names only the missing GPU: it does not need cuDNN.
#[test]
fn cudnn_is_not_asked_for() {
    let options = &["-Wl,--as-needed"];
    let build = Build { sources: &["direct_alone.c"], options, with_ucudnn: true };
    let program = Program::build("direct_alone", build);
    for name in ["libcudnn.so.9", "libcudnn.so"] {
        std::fs::remove_file(program.file(name)).unwrap();
    }
    let ran = program.plain(&[], &[]);
    let (status, why) = ran.stdout.trim().split_once('|').unwrap();
    assert!(status == "0" || why.contains("CUDA"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
}

/// Internal failures and missing parts are errors, which the program reports.
#[test]
fn failures_are_statuses() {
    let program = program("direct_random");
    let places = fault_points("crates/recurrent/src/direct", &[]);
    assert!(places.len() >= 2, "{places:?}");
    let panics = places.iter().map(|place| (format!("panic:{place}"), "a failure inside ucudnn"));
    let faults = [("compiler", "no compiler"), ("compilation", "does not compile")];
    for (fault, why) in panics.chain(faults.map(|(fault, why)| (fault.to_owned(), why))) {
        if fault.contains("run") && !has_emulator() {
            continue;
        }
        let ended = program.end(&["3", "1", "9"], &[FIRST, ("UCUDNN_FAULT", &fault)], false);
        assert_eq!(ended.code, Some(1), "{fault}: {}", ended.outcome.stderr);
        assert!(ended.outcome.stderr.contains(why), "{fault}: {}", ended.outcome.stderr);
    }
}
