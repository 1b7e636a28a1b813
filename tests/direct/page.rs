//! The example in docs/rnn.md compiles without a warning, and computes the right results.

use crate::hostdnn::has_emulator;
use crate::hostdnn::{Build, Program};
use crate::programs::Folder;

#[test]
fn the_example_runs() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rnn.md")).unwrap();
    let after = page.split("```c\n#include <ucudnn.h>").nth(1).expect("an example in docs/rnn.md");
    let example = format!("#include <ucudnn.h>{}", after.split("```").next().unwrap());
    let folder = Folder::new("example");
    let source = folder.join("example.c");
    std::fs::write(&source, example).unwrap();
    let sources = ["direct_example.c", "rnn.c", "kernel.c", source.to_str().unwrap()];
    let build = Build { sources: &sources, with_ucudnn: true, ..Build::default() };
    let program = Program::build("direct_example", build);
    if has_emulator() {
        assert!(program.plain(&[], &[("UCUDNN_RNN_TOP_K", "1")]).stdout.contains("ended"));
    }
}
