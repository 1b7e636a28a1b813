//! The parts of `--dlopen`: a folder in which cuDNN's name means our library, and the cuDNN that the name meant before.

mod elf;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use guest::libraries;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

pub const CUDNN: &str = "libcudnn.so.9";

/// Makes a folder of this user's in which `libcudnn.so.9` stands for `library`. The folder stays for the next run: the
/// command becomes the program, so nothing is left to remove it.
///
/// The file is a separate library that has cuDNN's name and needs `library`. A link to `library` would only do for a
/// program that always opens cuDNN by that name. But JAX first opens the cuDNN in its Python packages by path; the name
/// then means that cuDNN to the loader, unless a library of that name was loaded earlier.
pub fn folder(library: &Path) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let folder = cache()?.join(format!("dlopen-{:016x}", hasher.finish()));
    let failed = |path: &Path, error| format!("{}: {error}; --dlopen needs a folder there", path.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| failed(&folder, error))?;
    own(&folder)?;
    let file = folder.join(CUDNN);
    let wanted = elf::alias(CUDNN, library.as_os_str());
    // Earlier versions left a link there.
    let is_link = file.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if !is_link && std::fs::read(&file).is_ok_and(|found| found == wanted) {
        return Ok(folder);
    }
    // Another process may write the file too, or use it: the rename replaces it atomically.
    let new = folder.join(format!("{CUDNN}.{}", std::process::id()));
    std::fs::write(&new, wanted).map_err(|error| failed(&new, error))?;
    std::fs::rename(&new, &file).map_err(|error| failed(&file, error))?;
    Ok(folder)
}

/// The user's cache folder for ucudnn, or a per-user folder among temporary files.
fn cache() -> Result<PathBuf, String> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(cache) = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache"))) {
        return Ok(cache.join("ucudnn"));
    }
    // SAFETY: geteuid always succeeds.
    let user = unsafe { libc::geteuid() };
    Ok(std::env::temp_dir().join(format!("ucudnn-{user}")))
}

/// Refuses a folder that another user can change: programs load the library in it.
fn own(folder: &Path) -> Result<(), String> {
    // Some systems let a user's private group write to the folder above by default.
    for (folder, others) in [(folder, 0o022), (folder.parent().unwrap_or(folder), 0o002)] {
        let metadata = folder.symlink_metadata().map_err(|error| format!("{}: {error}", folder.display()))?;
        // SAFETY: geteuid always succeeds.
        let user = unsafe { libc::geteuid() };
        if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & others != 0 {
            let why = "not a folder of this user's alone, so nothing is loaded from there";
            return Err(format!("{}: {why}; set XDG_CACHE_HOME to another place", folder.display()));
        }
    }
    Ok(())
}

/// The file that cuDNN's name means to the loader, before the folder hides it. `None` if there is none, or if it is
/// libucudnn already.
pub fn real_cudnn() -> Option<PathBuf> {
    // SAFETY: this runs the constructors of the loader's cuDNN; the program would run them too.
    let library = unsafe { Library::open(Some(CUDNN), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
    // SAFETY: only the symbol's address is used.
    let function = unsafe { library.get::<*const libc::c_void>(b"cudnnGetVersion\0") }.ok()?;
    // SAFETY: only the symbol's presence is used.
    let ours = unsafe { library.get::<*const libc::c_void>(b"ucudnnGetVersion\0") }.is_ok();
    let (_, file) = libraries::home(*function)?;
    if ours { None } else { std::path::absolute(file).ok() }
}
