//! Parts of tests that need their own process, since libraries and settings are chosen once a process: the child is
//! this program with one of its ignored tests.

use super::backend::Backend;
use crate::programs::{Folder, library, real_cudnn};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library that a process calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Through {
    Real,
    Ours,
}

/// Names the library that a child calls.
const LIBRARY: &str = "UCUDNN_TEST_CHILD_LIBRARY";

/// The text of an H200's properties.
pub fn h200() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/devices/h200.json")).unwrap()
}

/// The library that this process must call.
pub fn told() -> Backend {
    Backend::open(Path::new(&std::env::var_os(LIBRARY).expect("only started by other tests")))
}

/// The ignored test `name`'s standard error with these variables; `None`, and a skipped test, without the real library.
pub fn run(name: &str, through: Through, variables: &[(&str, &str)]) -> Option<String> {
    let real = real_cudnn()?.join("libcudnn.so.9");
    let folder = Folder::new(&format!("{}-{through:?}", name.replace("::", "-")));
    let errors = folder.join("stderr");
    let called: PathBuf = if through == Through::Real { real.clone() } else { library() };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]).env_clear();
    command.env("LD_LIBRARY_PATH", std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default());
    command.env(LIBRARY, called).env("UCUDNN_CUDNN_LIBRARY", real).envs(variables.iter().copied());
    let seed = "UCUDNN_TEST_SEED";
    command.envs(std::env::var_os(seed).map(|value| (seed, value)));
    // To a file: a full pipe would stop the program.
    let status = command.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).unwrap()).status().unwrap();
    let text = String::from_utf8_lossy(&std::fs::read(&errors).unwrap()).into_owned();
    let last: Vec<&str> = text.lines().rev().take(20).collect();
    assert!(status.success(), "{command:?}: {status}\n{last:#?}");
    Some(text)
}
