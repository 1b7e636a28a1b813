//! The libraries that the process has loaded, those that we look for, and the folders from which its Python imports
//! packages.

mod place;

use std::ffi::{CStr, OsStr, OsString, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub use place::{Chosen, Place};
pub use trust::{loaded_files, loaded_names};

/// The load address and the file of the library that contains `address`.
pub fn home(address: *const c_void) -> Option<(*mut c_void, PathBuf)> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address with the mappings of loaded libraries.
    if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr filled the record, and an all-zero record is valid too.
    let info = unsafe { info.assume_init() };
    // SAFETY: dladdr returns a C string that lives as long as the library.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase, OsString::from_vec(file.to_bytes().to_vec()).into()))
}

/// Folders from which this process's Python, if it runs one, imports packages; the surest come first. Relative paths do
/// not count: the program may have changed its folder since they were given.
pub fn package_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    // Packages that have mapped a library.
    for file in loaded_files() {
        let parents = Path::new(&file).ancestors().skip(1);
        folders.extend(parents.filter(|parent| holds_packages(parent)).map(Path::to_owned));
    }
    let paths = std::env::var_os("PYTHONPATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&paths).filter(|folder| folder.is_absolute()));
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let prefixes = [
        variable("PYTHONHOME"),
        // argv[0] precedes the resolved executable: in a virtual environment `bin/python` links to the system's Python.
        started_as().and_then(prefix),
        variable("VIRTUAL_ENV"),
        variable("CONDA_PREFIX"),
        std::env::current_exe().ok().and_then(prefix),
        variable("HOME").map(|home| home.join(".local")),
    ];
    for prefix in prefixes.into_iter().flatten().filter(|prefix| prefix.is_absolute()) {
        for library in ["lib", "lib64", "local/lib"] {
            let versions = std::fs::read_dir(prefix.join(library)).into_iter().flatten().flatten();
            let versions = versions.filter(|entry| entry.file_name().as_bytes().starts_with(b"python3"));
            for version in versions {
                folders.extend(["site-packages", "dist-packages"].map(|name| version.path().join(name)));
            }
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

fn holds_packages(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages")
}

/// The installation prefix: `/usr` for `/usr/bin/python3`.
fn prefix(program: PathBuf) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.to_owned())
}

/// The path that started the process, with its links unresolved.
fn started_as() -> Option<PathBuf> {
    let line = std::fs::read("/proc/self/cmdline").ok()?;
    let name = OsStr::from_bytes(line.split(|&byte| byte == 0).next()?);
    if name.as_bytes().contains(&b'/') {
        if name.as_bytes().starts_with(b"/") {
            return Some(name.into());
        }
        // The program may have changed its folder since. So a relative path counts only if it leads to the program.
        let path = std::path::absolute(name).ok()?;
        let program = std::fs::canonicalize("/proc/self/exe").ok()?;
        return (std::fs::canonicalize(&path).ok()? == program).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
