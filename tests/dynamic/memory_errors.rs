//! The programs under valgrind, which sees each read and write outside of allocated memory, and each leak.

use std::process::Command;

use super::program;
use crate::hostdnn::Program;
use guest::testing::skip;

/// Runs a program under valgrind.
fn check(program: &Program, arguments: &[&str]) {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skip("there is no valgrind");
    }
    let plain = program.command(arguments, &[], false);
    let mut command = Command::new("valgrind");
    command.args(["--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "-q"]);
    command.arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn random_nets_stay_in_their_memory() {
    check(&program("dynamic_random"), &["4", "40", "1"]);
}

#[test]
fn refusals_stay_in_their_memory() {
    check(&program("dynamic_refusals"), &[]);
}
