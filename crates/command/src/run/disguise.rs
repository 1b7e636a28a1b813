//! The parts of `--dlopen`: a folder in which cuDNN's name means our library, and the cuDNN that the name meant before.

mod elf;

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use guest::libraries;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use trust::Shown as _;

pub const CUDNN: &str = "libcudnn.so.9";

/// Makes a folder in which `libcudnn.so.9` stands for `library`, and returns its real path. The folder stays for the next
/// run: the command becomes the program, so nothing is left to remove it.
///
/// The file is a separate library that has cuDNN's name and needs `library`. A link to `library` would only do for a
/// program that always opens cuDNN by that name. But JAX first opens the cuDNN in its Python packages by path; the name
/// then means that cuDNN to the loader, unless a library of that name was loaded earlier.
///
/// The program and all that it starts load the file by its path. So the folder and all above it must be safe, as
/// [`trust`] means it: then nobody else can exchange a part of the path later. `Err` says what is not safe.
pub fn folder(library: &Path) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let folder = cache().join(format!("dlopen-{:016x}", hasher.finish()));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| format!("{}: {error}; --dlopen needs a folder there", folder.shown()))?;
    let folder = trust::folder(&folder).map_err(|why| refusal(&folder, &why))?;
    let (file, wanted) = (folder.join(CUDNN), elf::alias(CUDNN, library.as_os_str()));
    // Earlier versions left a link there, or a file that others could write to.
    if !holds(&file, &wanted).unwrap_or(false) {
        replace(&file, &wanted).map_err(|error| format!("{}: {error}; --dlopen needs this file", file.shown()))?;
        if !holds(&file, &wanted).map_err(|error| refusal(&file, &error))? {
            return Err(refusal(&file, &"another process has written something else to it"));
        }
    }
    Ok(folder)
}

fn refusal(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!(
        "--dlopen does not preload from {}, and the program is not started: {why}. Only this user and root may own this \
         path and every folder of it, and write to them; set XDG_CACHE_HOME to another place",
        path.shown()
    )
}

/// Returns whether the file has these bytes. The file is opened once, and then checked: only this user and root may
/// write to it.
fn holds(file: &Path, wanted: &[u8]) -> io::Result<bool> {
    let mut found = Vec::with_capacity(wanted.len() + 1);
    trust::open(file)?.take(wanted.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == wanted)
}

/// Puts a file of this user's alone in the place of `file`. Another process may do so too, or use the file: the rename
/// replaces it atomically.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = file.with_file_name(format!("{CUDNN}.{}", std::process::id()));
    // A killed process of this number may have left one.
    let _ = fs::remove_file(&new);
    let opened = File::options().write(true).create_new(true).mode(0o600).open(&new);
    let replaced = opened.and_then(|mut opened| opened.write_all(bytes)).and_then(|()| fs::rename(&new, file));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// The user's cache folder for ucudnn, or a per-user folder among temporary files.
fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(cache) = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache"))) {
        return cache.join("ucudnn");
    }
    // SAFETY: geteuid always succeeds.
    let user = unsafe { libc::geteuid() };
    std::env::temp_dir().join(format!("ucudnn-{user}"))
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
