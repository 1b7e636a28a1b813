//! The Python that a shell would start. Its packages may hold cuDNN and NVRTC.

use std::path::PathBuf;

use crate::run::in_path;

/// The variable by which the library's search knows a Python's folder.
pub const PREFIX: &str = "VIRTUAL_ENV";

/// Lets this process search the packages of the Python in PATH, as the library does in a program that runs this Python.
/// Sets [`PREFIX`] if it is not set.
pub fn search_its_packages() {
    if std::env::var_os(PREFIX).is_some_and(|folder| !folder.is_empty()) {
        return;
    }
    if let Some(prefix) = prefix() {
        // SAFETY: no other thread runs yet, and nothing holds a pointer into the environment.
        unsafe { std::env::set_var(PREFIX, prefix) };
    }
}

/// The folder that Python is installed in: `/usr` for `/usr/bin/python3`.
fn prefix() -> Option<PathBuf> {
    let named = |name: &str| {
        let file = in_path(name.as_ref()).find(|file| file.is_absolute())?;
        Some(file.parent()?.parent()?.to_owned())
    };
    ["python", "python3"].into_iter().find_map(named)
}
