//! C and C++ programs that use `ucudnn.h`, built with every warning an error.

use std::path::Path;

use crate::hostdnn::{Build, Program};
use crate::programs;

const QUICK: (&str, &str) = ("UCUDNN_TUNE_SECONDS", "0.1");
const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"];

#[test]
fn settings_are_kept_by_handle_and_show_their_effect() {
    let c = ["-std=c11", "-x", "c"];
    let cxx = ["-std=c++11", "-x", "c++"];
    for (name, compiler, language) in
        [("settings_c", programs::c_compiler(), &c), ("settings_cxx", programs::cxx_compiler(), &cxx)]
    {
        let build = Build { sources: &["ucudnn_settings.c"], options: language, with_ucudnn: true };
        let program = Program::build_by(&compiler, &STRICT, name, build);
        for preloaded in [false, true] {
            let outcome = program.end(&[], &[QUICK], preloaded).succeeded();
            assert!(outcome.stdout.contains("ended"));
            let [major, minor, patch] =
                [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")]
                    .map(|part| part.parse::<usize>().unwrap());
            assert_eq!(outcome.line("version"), (major * 10_000 + minor * 100 + patch).to_string());
        }
    }
}

/// Caffe 1.0's way: the queries of versions before 8, by `-include ucudnn.h` and `-lucudnn` alone. The program compares
/// each answer with its limit, and each result with double precision.
#[test]
fn pre_v8_queries_keep_their_limits() {
    let sources = ["caffe.c", "kernel.c", "kernel_calls.c"];
    let build = Build { sources: &sources, options: &["-include", "ucudnn.h"], with_ucudnn: true };
    let program = Program::build("caffe", build);
    for policy in ["powerOfTwo", "all"] {
        for limit in ["0", "5000", "100000", "8388608"] {
            let outcome = program.plain(&[limit], &[QUICK, ("UCUDNN_BATCH_SIZE_POLICY", policy)]);
            assert!(outcome.stdout.contains("ended"));
            assert_eq!(outcome.stderr, "");
        }
    }
}

/// The Python package has the operations of vertex functions by name, in the header's order.
#[test]
fn python_has_the_headers_operations() {
    let text = |path| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let header = text("include/ucudnn.h");
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define UCUDNN_VERTEX_")?.split_once(' '));
    let camel_case = |name: &str| {
        let mut words = name.split('_').map(str::to_lowercase);
        let first = words.next().unwrap();
        words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
    };
    let mut operations: Vec<(usize, String)> =
        defined.map(|(name, number)| (number.parse().unwrap(), camel_case(name))).collect();
    operations.sort();
    assert!(operations.len() > 20 && operations.iter().enumerate().all(|(place, (number, _))| place == *number));

    let package = text("python/ucudnn/vertex.py");
    let (_, tuple) = package.split_once("OPERATIONS = (").unwrap();
    let (tuple, _) = tuple.split_once(')').unwrap();
    let names: Vec<_> = tuple.split('"').skip(1).step_by(2).collect();
    assert_eq!(names, operations.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>());
}
