//! Several threads at once, processes that fork, and processes that end while a background thread works. A deadlock
//! ends the program after half an hour, and the test with it.

use super::program;

const LIMITS: [&str; 3] = ["", "0", "20000"];

#[test]
fn threads_share_kernels_and_plans() {
    let program = program("graph_threads");
    program.plain(&["8", "3"], &[]);
    for limit in LIMITS {
        for policy in ["powerOfTwo", "all"] {
            let variables = [("UCUDNN_WORKSPACE_LIMIT", limit), ("UCUDNN_BATCH_SIZE_POLICY", policy)];
            let outcome = program.preloaded(&["8", "50"], &variables);
            assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("ended\n", ""));
        }
    }
}

#[test]
fn processes_fork_at_any_time() {
    let program = program("graph_threads");
    // Fork does not copy hostdnn's threads either: it computes on the calling thread.
    let alone = ("RAYON_NUM_THREADS", "1");
    program.plain(&["1", "2", "fork", "1"], &[alone]);
    for limit in LIMITS {
        for after in ["1", "3", "30"] {
            let variables = [alone, ("UCUDNN_WORKSPACE_LIMIT", limit)];
            let outcome = program.preloaded(&["1", "40", "fork", after], &variables);
            assert!(outcome.stdout.ends_with("ended\n"), "{}", outcome.stdout);
            assert_eq!(outcome.stderr, "");
        }
    }
}

#[test]
fn processes_end_at_any_time() {
    let program = program("graph_threads");
    for limit in LIMITS {
        for after in ["0", "2", "3", "4", "20"] {
            for threads in ["1", "8"] {
                let arguments = [threads, "100", "leave", after];
                let outcome = program.preloaded(&arguments, &[("UCUDNN_WORKSPACE_LIMIT", limit)]);
                assert_eq!(outcome.stderr, "", "{arguments:?}");
            }
        }
    }
}
