//! Calls through the trampolines, one hazard of the calling conventions a test. The real library is
//! `tests/c/fake_cudnn.c`, whose signatures are hard to carry.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::programs::{Folder, compile, compile_with, cxx_compiler, library, run, source};
use guest::testing::skip;

/// Compiles `tests/c/conventions.c`, linked with a library.
fn conventions(folder: &Folder, linked: &Path) -> PathBuf {
    let program = folder.join("conventions");
    let sources = [source("conventions.c"), source("registers.S"), linked.into()];
    let options = [OsStr::new("-rdynamic"), OsStr::new("-Wl,--no-as-needed")];
    compile(&program, options.into_iter().chain(sources.iter().map(|path| path.as_os_str())));
    program
}

/// Runs the case in two programs. One is linked with a fake cuDNN, so that the process has it from the start, and runs
/// with libucudnn.so preloaded; the other is linked with libucudnn.so, which loads the real library in the first call.
fn passes(case: &str) {
    let folder = Folder::new(&format!("conventions-{case}"));
    let fake = fake(&folder, &[]);
    assert_eq!(preloaded(&conventions(&folder, &fake), &[case], &fake), "passed\n");
    assert_eq!(linked(&conventions(&folder, &library()), &[case], &fake), "passed\n");
}

/// Runs the case with a real library whose constructor calls back within the first call.
fn passes_with_constructor(test: &str, case: &str) {
    let folder = Folder::new(test);
    let fake = fake(&folder, &["-DCONSTRUCTOR"]);
    assert_eq!(linked(&conventions(&folder, &library()), &[case], &fake), "passed\n");
}

fn fake(folder: &Folder, options: &[&str]) -> PathBuf {
    let fake = folder.join("libcudnn.so.9");
    let sources = [source("fake_cudnn.c"), source("registers.S")];
    let flags = ["-shared", "-fPIC", "-DCALLEE", "-Wl,-soname,libcudnn.so.9"];
    let options = flags.iter().chain(options).map(OsStr::new);
    compile(&fake, sources.iter().map(|source| source.as_os_str()).chain(options));
    fake
}

fn preloaded(program: &Path, arguments: &[&str], fake: &Path) -> String {
    let library = library();
    let folder = fake.parent().unwrap().as_os_str();
    let variables = [("LD_PRELOAD", library.as_os_str()), ("LD_LIBRARY_PATH", folder)];
    run(program, arguments, &variables).stdout
}

fn linked(program: &Path, arguments: &[&str], fake: &Path) -> String {
    let library = library();
    let folder = library.parent().unwrap().as_os_str();
    let variables = [("LD_LIBRARY_PATH", folder), ("UCUDNN_CUDNN_LIBRARY", fake.as_os_str())];
    run(program, arguments, &variables).stdout
}

#[test]
fn integers_beyond_the_registers() {
    passes("integers");
}

#[test]
fn floats_beyond_the_registers() {
    passes("vectors");
}

#[test]
fn variable_arguments() {
    passes("variadic");
}

#[test]
fn structs_by_value_and_by_hidden_pointer() {
    passes("structs");
}

#[test]
fn long_double_and_wide_integers() {
    passes("wide");
}

#[test]
fn every_register_and_the_stack() {
    passes("registers");
}

#[test]
fn first_call_from_sixteen_threads() {
    passes("threads");
}

#[test]
fn the_callee_returns_straight_to_the_caller() {
    passes("backtrace");
}

#[test]
fn unwinding_from_the_callee_cleans_up_the_caller() {
    passes("unwinding");
}

#[test]
fn a_constructor_calls_back_within_the_first_call() {
    passes_with_constructor("constructor", "constructor");
}

#[test]
fn first_call_from_sixteen_threads_while_a_constructor_calls_back() {
    passes_with_constructor("threads", "threads");
}

#[test]
fn exceptions_pass_through() {
    let folder = Folder::new("exceptions");
    let source = source("throw.cpp");
    let probe = std::process::Command::new(cxx_compiler()).arg("--version").output();
    if probe.is_err() {
        return skip("no C++ compiler");
    }
    let (fake, program) = (folder.join("libcudnn.so.9"), folder.join("throw"));
    let options = ["-shared", "-fPIC", "-DLIBRARY", "-Wl,-soname,libcudnn.so.9"];
    let arguments = options.iter().map(OsString::from).chain([source.clone().into()]);
    compile_with(&cxx_compiler(), &fake, arguments);
    compile_with(&cxx_compiler(), &program, [&source, &fake]);
    assert_eq!(preloaded(&program, &[], &fake), "passed\n");
    let program = folder.join("throw-linked");
    compile_with(&cxx_compiler(), &program, [&source, &library()]);
    assert_eq!(linked(&program, &[], &fake), "passed\n");
}

/// Steps through the trampoline by x86-64's trap flag.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_instruction_can_be_unwound() {
    if std::env::var_os("UCUDNN_TEST_RUNNER").is_some() {
        return skip("no trap flag under an emulator");
    }
    let folder = Folder::new("stepping");
    let fake = fake(&folder, &[]);
    let program = folder.join("stepping");
    // Bound at the start, so that no step goes through the dynamic linker.
    let arguments = [source("stepping.c").into(), fake.clone().into(), OsString::from("-Wl,-z,now")];
    compile(&program, arguments);
    let output = preloaded(&program, &[], &fake);
    assert!(output.ends_with("passed\n"), "{output}");
}
