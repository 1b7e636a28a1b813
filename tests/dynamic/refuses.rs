//! Refusals come with a status and the whole reason, and write nothing.

use super::program;

#[test]
fn misuse_is_refused() {
    let ran = program("dynamic_refusals").plain(&[], &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("ended\n", ""));
}
