//! The built library as other programs find it, and C programs that are built against it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of our `cudnn.h`.
pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Reports a skipped test, even where the output of passing tests is hidden.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {reason}", thread.name().unwrap_or("a test"));
}

/// An empty folder for one test.
pub fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// The shared library that cargo built next to this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libhostdnn.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Links `libcudnn.so.9` in `directory` to our library, so that programs find it under cuDNN's name.
pub fn install(directory: &Path) {
    for name in ["libcudnn.so.9", "libcudnn.so"] {
        std::os::unix::fs::symlink(library(), directory.join(name)).unwrap();
    }
}

/// Builds `tests/c/{name}.c` as a program that knows only cuDNN, in a folder of that name.
pub fn compile(name: &str) -> PathBuf {
    compile_in(name, name)
}

/// Builds `tests/c/{name}.c` in the given folder.
pub fn compile_in(name: &str, folder: &str) -> PathBuf {
    let directory = scratch(folder);
    install(&directory);
    let program = directory.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let mut command = Command::new("gcc");
    command.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
    command.arg(include()).arg(&source).arg("-o").arg(&program).arg("-L").arg(&directory).args(["-lcudnn", "-lm"]);
    succeed(&mut command);
    program
}

/// A compiled program, ready to run on our library.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", program.parent().unwrap()).env_remove("HOSTDNN_FAIL");
    command
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}
