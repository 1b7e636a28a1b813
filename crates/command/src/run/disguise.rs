//! What `--dlopen` takes: a folder where cuDNN's name is ours, and the cuDNN that the name meant before.

mod elf;

use std::ffi::{CStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

pub const CUDNN: &str = "libcudnn.so.9";

/// A folder of the user's own where `libcudnn.so.9` is another name for `library`. It stays for the next run: the
/// command becomes the program, and nobody is left to remove it.
///
/// The file is a library of its own, which goes by cuDNN's name and needs ours. A link to ours would do for a program
/// that opens cuDNN by that name alone; but JAX first opens the one among its Python packages by its path, and from then
/// on the name means that one to the loader, unless a library that goes by the name has been loaded before.
pub fn folder(library: &Path) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let folder = cache()?.join(format!("dlopen-{:016x}", hasher.finish()));
    let failed = |path: &Path, error| format!("{}: {error}; --dlopen needs a folder there", path.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| failed(&folder, error))?;
    own(&folder)?;
    let file = folder.join(CUDNN);
    let wanted = elf::alias(CUDNN, library.as_os_str());
    // A link is what earlier versions left there.
    let is_link = file.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if !is_link && std::fs::read(&file).is_ok_and(|found| found == wanted) {
        return Ok(folder);
    }
    // Another process may be at it, or use it: the file is put in place at once.
    let new = folder.join(format!("{CUDNN}.{}", std::process::id()));
    std::fs::write(&new, wanted).map_err(|error| failed(&new, error))?;
    std::fs::rename(&new, &file).map_err(|error| failed(&file, error))?;
    Ok(folder)
}

/// The user's cache folder, or one that nobody else can write to.
fn cache() -> Result<PathBuf, String> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(cache) = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache"))) {
        return Ok(cache.join("ucudnn"));
    }
    // SAFETY: always succeeds.
    let user = unsafe { libc::geteuid() };
    Ok(std::env::temp_dir().join(format!("ucudnn-{user}")))
}

/// A program will load what the folder holds: it must not be another user's.
fn own(folder: &Path) -> Result<(), String> {
    // A group of the user alone may write to the folder above, as some systems have it by default.
    for (folder, others) in [(folder, 0o022), (folder.parent().unwrap_or(folder), 0o002)] {
        let metadata = folder.symlink_metadata().map_err(|error| format!("{}: {error}", folder.display()))?;
        // SAFETY: always succeeds.
        let user = unsafe { libc::geteuid() };
        if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & others != 0 {
            let why = "not a folder of this user's alone, so nothing is loaded from there";
            return Err(format!("{}: {why}; set XDG_CACHE_HOME to another place", folder.display()));
        }
    }
    Ok(())
}

/// The file that the loader gives for cuDNN's name now, before the folder hides it; none if there is none, or if it is
/// ours already.
pub fn real_cudnn() -> Option<PathBuf> {
    // SAFETY: constructors of what the loader takes for cuDNN; the program would run them too.
    let library = unsafe { Library::open(Some(CUDNN), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
    // SAFETY: only the address is used.
    let function = unsafe { library.get::<*const libc::c_void>(b"cudnnGetVersion\0") }.ok()?;
    // SAFETY: as above.
    let ours = unsafe { library.get::<*const libc::c_void>(b"ucudnnGetVersion\0") }.is_ok();
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address with the mappings of loaded libraries.
    let found = unsafe { libc::dladdr(*function, info.as_mut_ptr()) } != 0;
    if ours || !found {
        return None;
    }
    // SAFETY: filled by dladdr; the name is a C string that lives as long as the library, which is open.
    let file = unsafe { CStr::from_ptr(info.assume_init().dli_fname) };
    std::path::absolute(OsString::from_vec(file.to_bytes().to_vec())).ok()
}
