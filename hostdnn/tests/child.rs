//! Tests that need their own process, because libraries, settings and armed faults are one each in a process. libucudnn's
//! tests use this file too.

use std::ffi::OsStr;
use std::io::Write;
use std::process::Command;

/// Names the test that a child runs.
const CHILD: &str = "UCUDNN_TEST_CHILD";

/// Runs the named test in a process of its own, with more variables. Returns true in that process, where the test
/// should go on, and false in the parent.
pub fn is_child(test: &str, variables: &[(&str, &OsStr)]) -> bool {
    if std::env::var_os(CHILD).is_some_and(|child| child == test) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--include-ignored", "--nocapture"]);
    command.env(CHILD, test).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{command:?}: {}\n{text}", output.status);
    for line in text.lines().filter(|line| line.starts_with("SKIPPED")) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    false
}
