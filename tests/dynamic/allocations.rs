//! Runs allocate no memory, and all memory is freed.

use super::program;

#[test]
fn runs_allocate_nothing_and_all_is_freed() {
    let ran = program("dynamic_allocations").plain(&[], &[]);
    assert!(ran.stdout.ends_with("ended\n"), "{}", ran.stdout);
}
