//! Vertex nets of `ucudnn.h`, by C programs that link `libucudnn.so`.

mod allocations;
mod computes;
mod example;
mod hostile;
mod memory_errors;
mod processes;
mod refuses;

use crate::hostdnn::{Build, Program};

/// Compiles `tests/c/{name}.c` with the sources that programs of vertex nets share.
fn program(name: &str) -> Program {
    let main = format!("{name}.c");
    let sources = [main.as_str(), "dynamic.c", "dynamic_expected.c", "kernel.c"];
    Program::build(name, Build { sources: &sources, with_ucudnn: true, ..Build::default() })
}
