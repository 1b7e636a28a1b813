//! The direct call of `ucudnn.h`, by C programs that link `libucudnn.so`: on hostdnn, where GPU kernels are emulated.

mod computes;
mod example;
mod page;
mod refuses;
mod table;

use crate::hostdnn::{Build, Program};

/// Compiles `tests/c/{name}.c` with the sources that programs of the direct call share.
fn program(name: &str) -> Program {
    let main = format!("{name}.c");
    let sources = [main.as_str(), "direct.c", "rnn.c", "kernel.c"];
    Program::build(name, Build { sources: &sources, with_ucudnn: true, ..Build::default() })
}
