//! `examples/tree_lstm.c` compiles by its own command's options without cuDNN's header, in C and in C++, and learns.

use crate::hostdnn::{Build, Program};
use crate::programs::{self, Folder};

const STRICT: [&str; 6] = ["-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DUCUDNN_WITHOUT_CUDNN_H"];
const SOURCE: &str = "../../examples/tree_lstm.c";

#[test]
fn the_tree_lstm_learns() {
    let strict = [&["-std=c99"], &STRICT[..]].concat();
    let build = Build { sources: &[SOURCE], with_ucudnn: true, ..Build::default() };
    let program = Program::build_by(&programs::c_compiler(), &strict, "tree_lstm", build);
    // The program fails if it classifies too few of the held-out trees.
    let stdout = program.plain(&[], &[]).stdout;
    let losses: Vec<f64> = stdout.lines().map(|line| line.split([' ', ',']).nth(3).unwrap().parse().unwrap()).collect();
    assert!(losses.len() > 1 && losses[losses.len() - 1] < losses[0] / 2.0, "{stdout}");
    // Its numbers are the same in each run.
    assert_eq!(program.plain(&[], &[]).stdout, stdout);
}

/// The command in its first comment is the one that is tested.
#[test]
fn its_command_has_these_options() {
    let text = std::fs::read_to_string(programs::source(SOURCE)).unwrap();
    let command = text.lines().find(|line| line.contains("gcc ")).unwrap();
    for option in ["-std=c99", "-O2", "-DUCUDNN_WITHOUT_CUDNN_H", "-Iinclude", "-lucudnn", "-lm"] {
        assert!(command.contains(option), "{option}: {command}");
    }
}

/// The header's part on vertex nets is C++, too.
#[test]
fn the_header_is_cxx() {
    let folder = Folder::new("dynamic_cxx");
    let source = folder.join("net.cc");
    let text = "#include <ucudnn.h>\n\
        int made(ucudnnVertexNet_t *net) {\n\
            ucudnnVertexOperation_t operations[] = {{UCUDNN_VERTEX_PULL, {0, 0, 0}, {0, 0}, 0.0}};\n\
            ucudnnVertexFunction_t function = {0, 1, operations};\n\
            ucudnnVertexNetDescription_t description = ucudnnVertexNetDescription_t();\n\
            description.functions = &function;\n\
            return ucudnnCreateVertexNet(net, &description);\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let options = [&["-std=c++11"], &STRICT[..], &["-c", include, source.to_str().unwrap()]].concat();
    programs::compile_with(&programs::cxx_compiler(), &folder.join("net.o"), options);
}
