//! Threads, forks and processes.

use std::process::Stdio;

use super::program;

#[test]
fn threads_share_a_net_and_a_batch() {
    let program = program("dynamic_threads");
    for (threads, host_threads) in [("2", "1"), ("4", "2")] {
        program.plain(&["threads", threads, host_threads], &[]);
    }
}

#[test]
fn a_forked_child_runs() {
    let program = program("dynamic_threads");
    for host_threads in ["1", "2"] {
        program.plain(&["fork", "1", host_threads], &[]);
    }
}

#[test]
fn eight_processes_run_at_once() {
    let program = program("dynamic_threads");
    let start = |_| program.command(&["threads", "2", "2"], &[], false).stdout(Stdio::null()).spawn().unwrap();
    let children: Vec<_> = (0..8).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}
