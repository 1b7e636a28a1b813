//! The Python that a program starts, or that a shell would start. Its packages may hold cuDNN and NVRTC.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::run::in_path;

/// The variable by which the library's search knows a Python's folder.
pub const PREFIX: &str = "VIRTUAL_ENV";

/// Lets this process search a Python's packages, as the library does in a program that runs this Python: the Python of
/// `program`, if that is one or a script of one, else the Python in PATH. Sets [`PREFIX`].
pub fn search_its_packages(program: Option<&Path>) {
    let is_set = std::env::var_os(PREFIX).is_some_and(|folder| !folder.is_empty());
    let prefix = program.and_then(of_program).or_else(|| if is_set { None } else { of_path() });
    if let Some(prefix) = prefix {
        // SAFETY: no other thread runs yet, and nothing holds a pointer into the environment.
        unsafe { std::env::set_var(PREFIX, prefix) };
    }
}

/// The folder that a program's Python is installed in.
fn of_program(program: &Path) -> Option<PathBuf> {
    let program = std::path::absolute(program).ok()?;
    let is_python = |file: &Path| file.file_name().is_some_and(|name| name.as_bytes().starts_with(b"python"));
    if is_python(&program) {
        return prefix(&program);
    }
    prefix(&interpreter(&program).filter(|file| is_python(file))?)
}

/// The interpreter that a script names in its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    /// The longest first line that Linux reads.
    const MOST: u64 = 256;
    let mut begin = Vec::new();
    std::fs::File::open(script).ok()?.take(MOST).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(word))).filter(|path| path.is_absolute())
}

/// The folder that the Python in PATH is installed in.
fn of_path() -> Option<PathBuf> {
    let named = |name: &str| prefix(&in_path(name.as_ref()).find(|file| file.is_absolute())?);
    ["python", "python3"].into_iter().find_map(named)
}

/// The folder that a Python is installed in: `/usr` for `/usr/bin/python3`.
fn prefix(python: &Path) -> Option<PathBuf> {
    Some(python.parent()?.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_python_that_it_is_or_names() {
        let folder = std::env::temp_dir().join(format!("ucudnn-python-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = |text: &str| {
            let file = folder.join("script");
            std::fs::write(&file, text).unwrap();
            of_program(&file)
        };
        assert_eq!(of_program(Path::new("/opt/venv/bin/python3.12")), Some("/opt/venv".into()));
        assert_eq!(script("#!/opt/venv/bin/python -sE\nimport torch\n"), Some("/opt/venv".into()));
        for other in ["#!/bin/sh\n", "#!python\n", "#!", "", "\x7fELF"] {
            assert_eq!(script(other), None, "{other:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
