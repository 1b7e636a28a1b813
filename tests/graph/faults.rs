//! Whatever fails inside us or inside cuDNN: no execution that says it succeeded is wrong, no canary is touched, nothing
//! aborts.

use super::program;
use crate::hostdnn::fault_points;

/// Enough to see tuning begin and end.
const EXECUTIONS: &str = "60";
const LIMITS: [&str; 3] = ["", "0", "3000"];
const EXECUTION_FAILED: &str = "5000";
const INTERNAL_ERROR: &str = "4000";

/// The lines that tell of a failed call.
fn failures(stdout: &str) -> Vec<&str> {
    assert!(stdout.lines().any(|line| line == "ended"), "{stdout}");
    stdout.lines().filter(|line| *line != "ended").collect()
}

/// The words of a line: what failed, the kernel and the status.
fn parse(failure: &str) -> (&str, usize, &str) {
    let words: Vec<_> = failure.split(' ').collect();
    (words[0], words[1].parse().unwrap(), words[2])
}

/// Whether a kernel of the program adds to what its result held, or overwrites what it reads.
fn adds(kernel: usize) -> bool {
    kernel / 4 % 2 == 1 && (kernel % 4 != 3 || kernel / 8 == 0)
}

/// A panic of ours is not the program's: every call succeeds, but for those that say so: whose result was already added to
/// when it struck, or which a limit leaves nothing to run with but what it strikes each time. And it does strike.
#[test]
fn panics_stay_inside() {
    let program = program("graph_faults");
    let places = fault_points("crates/convolution/src/graph", &[]);
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

/// An execution that fails in cuDNN: the first, and one or all somewhere in the middle of what we make of it. Where it is
/// one alone, it is the program's at most once.
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

/// An engine that fails at one micro-batch size alone is not planned with, and what the program runs itself still runs.
#[test]
fn a_size_that_fails_is_avoided() {
    let program = program("graph_faults");
    for batch in ["1", "2", "4", "5", "8"] {
        for limit in LIMITS {
            let fault = format!("cudnnBackendExecute@batch={batch}:1+");
            let variables = [("UCUDNN_WORKSPACE_LIMIT", limit), ("UCUDNN_BATCH_SIZE_POLICY", "all")];
            let outcome = program.preloaded(&[EXECUTIONS, &fault, "between"], &variables);
            for failure in failures(&outcome.stdout) {
                // Half a sum that was added to is lost, and said to be.
                let (what, kernel, status) = parse(failure);
                assert!(what == "run" && adds(kernel) && status == EXECUTION_FAILED, "{fault}: {failure}");
            }
        }
    }
}

/// What we need around plans fails, when plans are finalized or later. The program's own calls fail as they would without
/// us; plans that it got run or, where what is ready cannot be made, say that they do not.
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
                    // Without a limit the program's own plans fit, and run.
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
