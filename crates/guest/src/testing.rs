//! How tests say that they are left out.

use std::io::Write;

/// Says that a test was left out, which the test harness would keep to itself.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}
