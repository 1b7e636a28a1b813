//! Failures inside the library or inside cuDNN: no execution that reports success is wrong, no canary is touched, and
//! nothing aborts.

use super::program;
use crate::hostdnn::fault_points;

/// Enough for tuning to begin and end.
const EXECUTIONS: &str = "60";
const LIMITS: [&str; 3] = ["", "0", "3000"];
const EXECUTION_FAILED: &str = "5000";
const INTERNAL_ERROR: &str = "4000";

/// The lines about failed calls.
fn failures(stdout: &str) -> Vec<&str> {
    assert!(stdout.lines().any(|line| line == "ended"), "{stdout}");
    stdout.lines().filter(|line| *line != "ended").collect()
}

/// The words of a line: the failed step, the problem and the status.
fn parse(failure: &str) -> (&str, usize, &str) {
    let words: Vec<_> = failure.split(' ').collect();
    (words[0], words[1].parse().unwrap(), words[2])
}

/// Returns whether a problem of the program adds to its result's previous contents, or overwrites its own input.
fn adds(kernel: usize) -> bool {
    kernel / 4 % 2 == 1 && (kernel % 4 != 3 || kernel / 8 == 0)
}

/// A panic inside the library does strike, but calls succeed, except executions that report failure: their result was
/// already modified, or a limit leaves only configurations in which the panic always strikes.
#[test]
fn panics_stay_inside() {
    let program = program("graph_faults");
    let folders = ["crates/convolution/src/graph", "crates/convolution/src/plans/graph"];
    let places: Vec<_> = folders.into_iter().flat_map(|folder| fault_points(folder, &[])).collect();
    assert!(places.len() >= 5, "{places:?}");
    for place in places {
        let fault = format!("panic:{place}");
        let mut strikes = 0;
        for limit in LIMITS {
            let variables = [("UCUDNN_FAULT", fault.as_str()), ("UCUDNN_WORKSPACE_LIMIT", limit)];
            let outcome = program.preloaded(&[EXECUTIONS], &variables);
            strikes += usize::from(outcome.stderr.contains(&format!("a panic at {place}")));
            for failure in failures(&outcome.stdout) {
                let (what, kernel, status) = parse(failure);
                let honest = what == "run"
                    && match place.as_str() {
                        "run-midway" if adds(kernel) && status == EXECUTION_FAILED => true,
                        "run" | "run-midway" => !limit.is_empty() && status == INTERNAL_ERROR,
                        _ => false,
                    };
                assert!(honest, "{fault} under {limit:?}: {failure}");
            }
        }
        assert!(strikes > 0, "{fault} does not strike");
    }
}

/// An execution fails in cuDNN: the first one, or one or all in the middle of a divided execution. A single failure
/// reaches the program at most once.
#[test]
fn an_execution_that_fails_is_right_or_says_so() {
    let program = program("graph_faults");
    for count in ["1", "200", "201", "500", "1500", "200+"] {
        for limit in LIMITS {
            let fault = format!("cudnnBackendExecute:{count}");
            let variables = [("UCUDNN_WORKSPACE_LIMIT", limit)];
            let outcome = program.preloaded(&[EXECUTIONS, &fault, "between"], &variables);
            let failures = failures(&outcome.stdout);
            assert!(failures.len() <= 1 || count.ends_with('+'), "{fault} under {limit:?}: {failures:?}");
            assert!(failures.iter().all(|failure| parse(failure).2 == EXECUTION_FAILED), "{failures:?}");
        }
    }
}

/// No plan uses an engine at a micro-batch size at which it fails, and the program's own plans still run.
#[test]
fn a_size_that_fails_is_avoided() {
    let program = program("graph_faults");
    for batch in ["1", "2", "4", "5", "8"] {
        for limit in LIMITS {
            let fault = format!("cudnnBackendExecute@batch={batch}:1+");
            let variables = [("UCUDNN_WORKSPACE_LIMIT", limit), ("UCUDNN_BATCH_SIZE_POLICY", "all")];
            let outcome = program.preloaded(&[EXECUTIONS, &fault, "between"], &variables);
            for failure in failures(&outcome.stdout) {
                // A sum that was partly added to its result is lost, and the execution reports that.
                let (what, kernel, status) = parse(failure);
                assert!(what == "run" && adds(kernel) && status == EXECUTION_FAILED, "{fault}: {failure}");
            }
        }
    }
}

/// Other calls around plans fail, when plans are finalized or later. The program's own calls fail as without the
/// library; plans that it got run, or report failure if their fallback cannot be made.
#[test]
fn what_we_need_besides_may_fail() {
    let program = program("graph_faults");
    for function in ["CreateDescriptor", "SetAttribute", "GetAttribute", "Finalize", "DestroyDescriptor"] {
        for (count, when) in
            [("1+", "between"), ("300+", "between"), ("9", "before"), ("100", "before"), ("100+", "before")]
        {
            for limit in LIMITS {
                let fault = format!("cudnnBackend{function}:{count}");
                let outcome = program.preloaded(&[EXECUTIONS, &fault, when], &[("UCUDNN_WORKSPACE_LIMIT", limit)]);
                for failure in failures(&outcome.stdout) {
                    let (what, _, status) = parse(failure);
                    let own = what == "plan" && when == "before";
                    // Without a limit, the program's own plans fit and run.
                    let ready = what == "run" && !limit.is_empty();
                    assert!((own || ready) && status == EXECUTION_FAILED, "{fault} {when} under {limit:?}: {failure}");
                }
            }
        }
    }
    for function in ["cudnnGetStream", "cudnnOpTensor", "cudnnCreateTensorDescriptor", "cudnnCreateOpTensorDescriptor"]
    {
        for limit in LIMITS {
            let fault = format!("{function}:1+");
            let outcome = program.preloaded(&[EXECUTIONS, &fault, "before"], &[("UCUDNN_WORKSPACE_LIMIT", limit)]);
            assert_eq!(failures(&outcome.stdout), [""; 0], "{fault} under {limit:?}");
        }
    }
}

#[test]
fn memory_that_cannot_be_had_is_done_without() {
    let program = program("graph_faults");
    for limit in LIMITS {
        let variables = [("UCUDNN_FAULT", "allocation"), ("UCUDNN_WORKSPACE_LIMIT", limit)];
        assert_eq!(failures(&program.preloaded(&[EXECUTIONS], &variables).stdout), [""; 0]);
    }
}
