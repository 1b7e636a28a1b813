//! Eight threads with a handle each, asking and running at once. A deadlock ends the program after half an hour, and the
//! test with it.

use crate::hostdnn::Program;

#[test]
fn threads_ask_and_run_at_once() {
    let program = Program::new("threads");
    program.plain(&[], &[]);
    for policy in ["powerOfTwo", "all"] {
        for limit in ["", "30000"] {
            let variables = [
                ("UCUDNN_TUNE_SECONDS", "0.05"),
                ("UCUDNN_BATCH_SIZE_POLICY", policy),
                ("UCUDNN_DEFAULT_WORKSPACE_LIMIT", limit),
            ];
            let outcome = program.preloaded(&[], &variables);
            assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("ended\n", ""));
        }
    }
}
