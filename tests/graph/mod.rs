//! The graph (backend) API, by C programs that know only `cudnn.h`: the same programs plain on hostdnn and with
//! `libucudnn.so` preloaded. The top of each, in `tests/c/graph*.c`, says which checks it makes itself.

mod cuda_graphs;
mod faults;
mod hostile;
mod numerics;
mod promises;
mod threads;
mod tuning;

use std::path::PathBuf;

use crate::hostdnn::{Build, Program};
use crate::programs;

/// Compiles `tests/c/{name}.c` with the sources that programs of the graph API share.
pub fn program(name: &str) -> Program {
    let main = format!("{name}.c");
    let sources = [main.as_str(), "graph.c", "kernel.c"];
    Program::build(name, Build { sources: &sources, ..Build::default() })
}

/// A library in front of hostdnn that counts finalized descriptors, and refuses plans if a variable says so.
fn counting(program: &Program) -> PathBuf {
    let library = program.file("libcounting.so");
    let include = format!("-I{}/hostdnn/include", env!("CARGO_MANIFEST_DIR"));
    let source = programs::source("counting_cudnn.c");
    let folder = format!("-L{}", library.parent().unwrap().display());
    programs::compile(
        &library,
        [
            "-shared",
            "-fPIC",
            include.as_str(),
            source.to_str().unwrap(),
            folder.as_str(),
            "-Wl,--no-as-needed",
            "-lcudnn",
            "-ldl",
        ],
    );
    library
}
