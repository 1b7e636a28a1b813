//! Runs a test of our kernels on the CPU, under hostdnn's emulator and adversarial schedules.

use std::process::Command;

use crate::aloud::skip;
use crate::device::Device;

const CHILD: &str = "UCUDNN_TEST_CHILD";

/// Runs the named test in child processes whose cuDNN is hostdnn, one for each schedule. Returns true in a child, where
/// the test should go on, and false in the parent.
pub fn is_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        assert_eq!(Device::current(), Device::Host, "the library is hostdnn");
        return true;
    }
    let binary = std::env::current_exe().unwrap();
    for seed in [None, Some("1"), Some("2")] {
        let mut command = Command::new(&binary);
        command.args(["--exact", test, "--nocapture"]).env_clear();
        command.env(CHILD, "1").env("UCUDNN_CUDNN_LIBRARY", binary.with_file_name("libhostdnn.so"));
        command.envs(seed.map(|seed| ("HOSTDNN_SCHEDULE_SEED", seed)));
        command.envs(std::env::var_os("HOSTDNN_CXX").map(|compiler| ("HOSTDNN_CXX", compiler)));
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "seed {seed:?}: {text}");
        if let Some(line) = text.lines().find(|line| line.contains("SKIPPED")) {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
    false
}

/// The compiled kernels. `None`, with a skip message, on a machine without a compiler for them.
pub fn compiled<T>(kernels: Result<T, String>) -> Option<T> {
    match kernels {
        Err(why) if why.contains("only where there is a C++ compiler") => {
            skip(&why);
            None
        }
        kernels => Some(kernels.unwrap()),
    }
}
