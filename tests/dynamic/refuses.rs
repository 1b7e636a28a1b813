//! Refusals come with a status and the whole reason, and write nothing.

use super::program;
use crate::hostdnn::{Build, Program};

#[test]
fn misuse_is_refused() {
    let ran = program("dynamic_refusals").plain(&[], &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("ended\n", ""));
}

#[test]
fn where_there_is_no_memory_a_status_says_so() {
    let sources = ["dynamic_no_memory.c", "dynamic.c", "dynamic_expected.c", "kernel.c", "no_memory.c"];
    let program =
        Program::build("dynamic_no_memory", Build { sources: &sources, with_ucudnn: true, ..Build::default() });
    assert_eq!(program.plain(&[], &[]).stdout, "ended\n");
}
