//! How tests report that they were skipped.

use std::io::Write;

/// Reports on stderr that a test was skipped; the test harness would not show it.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}
