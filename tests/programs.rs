//! Compiles C programs and runs them against the finished `libucudnn.so`. They know nothing of Rust, and each is its
//! own process, since the library settles itself once a process.
//!
//! For another architecture: `UCUDNN_TEST_LIBRARY` names its library, `UCUDNN_TEST_CC` and
//! `UCUDNN_TEST_CXX` its compilers, `UCUDNN_TEST_RUNNER` a user-mode qemu with its options.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use guest::testing::skip;

/// The library under test. Cargo builds it beside the tests' executables.
pub fn library() -> PathBuf {
    if let Some(library) = std::env::var_os("UCUDNN_TEST_LIBRARY") {
        return library.into();
    }
    let library = std::env::current_exe().unwrap().with_file_name("libucudnn.so");
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

/// A source under `tests/c`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// The real cuDNN's folder, if `UCUDNN_TEST_REAL_CUDNN` names one.
pub fn real_cudnn() -> Option<PathBuf> {
    let folder = std::env::var_os("UCUDNN_TEST_REAL_CUDNN").map(PathBuf::from);
    if folder.is_none() {
        skip("UCUDNN_TEST_REAL_CUDNN does not name a folder with the real libcudnn.so.9");
    }
    folder
}

/// A folder for one test, removed when the test has passed.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(name: &str) -> Self {
        Self::lasting(&format!("{name}-{}", std::process::id()))
    }

    /// A folder for a static, which is never dropped: the next run overwrites it.
    pub fn lasting(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    /// The path of `name` in the folder. Makes the folders on the way.
    pub fn join(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

pub fn c_compiler() -> OsString {
    std::env::var_os("UCUDNN_TEST_CC").unwrap_or("cc".into())
}

pub fn cxx_compiler() -> OsString {
    std::env::var_os("UCUDNN_TEST_CXX").unwrap_or("c++".into())
}

/// Compiles and links `output` with the C compiler.
pub fn compile<A: AsRef<OsStr>>(output: &Path, arguments: impl IntoIterator<Item = A>) {
    compile_with(&c_compiler(), output, arguments);
}

pub fn compile_with<A: AsRef<OsStr>>(compiler: &OsStr, output: &Path, arguments: impl IntoIterator<Item = A>) {
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-Wall", "-Wextra", "-fexceptions", "-pthread", "-o"]).arg(output);
    let result = command.args(arguments).output().expect("no compiler");
    let message = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{command:?}:\n{message}");
}

/// A program's output.
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The rest of the output line that starts with `word`.
    pub fn line(&self, word: &str) -> &str {
        let lines = self.stdout.lines();
        lines
            .filter_map(|line| line.strip_prefix(word))
            .map(str::trim)
            .next()
            .unwrap_or_else(|| panic!("no line {word} in:\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }
}

/// Runs a program that must succeed, with only these variables.
pub fn run(program: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let runner = std::env::var("UCUDNN_TEST_RUNNER").unwrap_or_default();
    let mut runner = runner.split_whitespace();
    let mut command = match runner.next() {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.args(runner).env_clear();
            for (name, value) in variables {
                // For the program, not for the emulator's own dynamic linker.
                let mut pair = OsString::from(name);
                pair.push("=");
                pair.push(value);
                command.arg("-E").arg(pair);
            }
            command.arg(program);
            command
        }
        None => {
            let mut command = Command::new(program);
            command.env_clear().envs(variables.iter().copied());
            command
        }
    };
    let result = command.args(arguments).output().unwrap();
    let outcome = Outcome {
        stdout: String::from_utf8_lossy(&result.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&result.stderr).into_owned(),
    };
    let Outcome { stdout, stderr } = &outcome;
    assert!(result.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", result.status);
    outcome
}
