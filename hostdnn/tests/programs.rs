//! C programs that know only `cudnn.h`, built and run against the finished library.

use crate::built;
use std::path::Path;
use std::process::Command;

#[test]
fn a_small_network_trains() {
    let program = built::compile("network");
    built::succeed(&mut built::command(&program));
}

#[test]
fn functions_have_cudnns_types() {
    let program = built::compile("signatures");
    built::succeed(&mut built::command(&program));
}

/// The same sources compile against cuDNN's own header.
/// `UCUDNN_TEST_CUDNN_INCLUDE` names the folders of `cudnn.h` and of CUDA's headers, separated by a colon.
#[test]
fn the_same_programs_compile_with_the_vendors_header() {
    let Some(folders) = std::env::var_os("UCUDNN_TEST_CUDNN_INCLUDE") else {
        built::skip("UCUDNN_TEST_CUDNN_INCLUDE is not set: no vendor's header to compile with");
        return;
    };
    for name in ["network", "signatures"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
        let mut command = Command::new("gcc");
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        for folder in std::env::split_paths(&folders) {
            assert!(folder.is_dir(), "{} is no folder", folder.display());
            command.arg("-isystem").arg(folder);
        }
        built::succeed(command.arg(source));
    }
}

#[test]
fn faults_can_be_asked_for() {
    let program = built::compile_in("network", "faults");
    for (faults, status) in [
        ("cudnnConvolutionForward:7", "CUDNN_STATUS_EXECUTION_FAILED"),
        ("cudnnCreateTensorDescriptor:2=4003", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
        ("cudnnConvolutionBackwardFilter:1=panic", "CUDNN_STATUS_INTERNAL_ERROR"),
        ("cudnnConvolutionForward@batch=32=3000", "CUDNN_STATUS_NOT_SUPPORTED"),
    ] {
        let output = built::command(&program).env("HOSTDNN_FAIL", faults).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{faults}: {stderr}");
        let function = faults.split([':', '@', '=']).next().unwrap();
        let line = stderr.lines().find(|line| line.starts_with(function)).unwrap_or_else(|| panic!("{stderr}"));
        assert!(line.contains(status), "{line}");
    }
    let output = built::command(&program).env("HOSTDNN_FAIL", "nonsense,cudnnConvolutionForward@batch=31").output();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("\"nonsense\""), "{stderr}");
}

/// Names that the library exports.
fn exports() -> Vec<String> {
    let output = built::succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(built::library()));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().last().unwrap().to_owned()).collect()
}

#[test]
fn nothing_but_the_abi_is_exported() {
    let exports = exports();
    let strays: Vec<_> = exports.iter().filter(|n| !n.starts_with("cudnn") && !n.starts_with("hostdnn")).collect();
    assert!(strays.is_empty(), "{strays:?}");
    let header = std::fs::read_to_string(built::include().join("cudnn.h")).unwrap();
    for name in &exports {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    assert!(exports.len() > 70, "{exports:?}");
}

#[test]
fn the_library_is_named_as_cudnn_and_needs_the_c_library_alone() {
    let output = built::succeed(Command::new("readelf").args(["-d", "-W"]).arg(built::library()));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("soname: [libcudnn.so.9]"), "{text}");
    let allowed = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
    for line in text.lines().filter(|line| line.contains("(NEEDED)")) {
        assert!(allowed.iter().any(|name| line.contains(name)), "{line}");
    }
}
