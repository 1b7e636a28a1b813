//! How tests report that they were skipped.

use std::io::Write;

/// Reports, past the capture of output, that the running test is skipped.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    // Not `eprintln`: the test harness swallows its output if the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}
