//! What allocates memory, and that all of it is freed.

use super::program;

#[test]
fn runs_allocate_nothing_and_all_is_freed() {
    let ran = program("dynamic_allocations").plain(&[], &[]);
    assert!(ran.stdout.ends_with("ended\n"), "{}", ran.stdout);
}
