//! The emulator without hostdnn, on any processor. `UCUDNN_TEST_CXX` is a C++ compiler for it (`c++` if unset), and
//! `UCUDNN_TEST_RUNNER` a command that runs its programs, such as a user-mode qemu with its options.

use std::path::Path;
use std::process::Command;

use super::built;

#[test]
fn threads_keep_what_they_hold() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (given, runner) = (variable("UCUDNN_TEST_CXX"), variable("UCUDNN_TEST_RUNNER"));
    let compiler = if given.is_empty() { "c++" } else { &given };
    if Command::new(compiler).arg("--version").output().is_err() && given.is_empty() {
        return built::skip("there is no C++ compiler");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (kernels, program) = (root.join("../kernels"), built::scratch("emulator_alone").join("emulator"));
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti"]);
    command.args(["-Wall", "-Wextra", "-Werror", "-DEMULATED", "-I"]).arg(&kernels).arg("-o").arg(&program);
    command.arg(root.join("tests/c/emulator.cpp"));
    command.args(["fiber.cpp", "products.cpp", "schedule.cpp"].map(|source| kernels.join("emulator").join(source)));
    built::succeed(&mut command);
    let mut words = runner.split_whitespace().map(Into::into).chain([program.into_os_string()]);
    let output = built::succeed(Command::new(words.next().unwrap()).args(words));
    assert_eq!(output.stdout, b"ok\n");
}
