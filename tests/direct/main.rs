//! The direct call of `ucudnn.h`, by C programs that link `libucudnn.so`: on hostdnn, where GPU kernels are emulated.

#[path = "../hostdnn/mod.rs"]
mod hostdnn;

mod computes;
mod readme;
mod refuses;
mod table;

use self::hostdnn::{Build, Program, programs};

/// Compiles `tests/c/{name}.c` with the sources that programs of the direct call share.
fn program(name: &str) -> Program {
    let main = format!("{name}.c");
    let sources = [main.as_str(), "direct.c", "rnn.c", "kernel.c"];
    Program::build(name, Build { sources: &sources, with_ucudnn: true, ..Build::default() })
}

/// Whether GPU kernels can be compiled for the CPU here; reports a skipped test if not.
fn has_emulator() -> bool {
    let compiler = std::process::Command::new("c++").arg("--version").output();
    let found = compiler.is_ok_and(|output| output.status.success());
    if !found {
        programs::skip("there is no C++ compiler, so that our kernels do not run on the CPU");
    }
    found
}
