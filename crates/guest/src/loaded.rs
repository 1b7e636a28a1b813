//! Looks at the libraries that the process has loaded.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

/// The looks of one caller. A library may come at any time, but not without a new number of loaded ones.
pub struct Looks {
    /// How many libraries the process had ever loaded at the last look.
    loaded: AtomicU64,
}

impl Looks {
    /// No look was taken yet.
    #[allow(clippy::new_without_default)] // for statics
    pub const fn new() -> Self {
        Self { loaded: AtomicU64::new(0) }
    }

    /// Passes on the libraries' absolute paths, if others were loaded since the last look. Other threads look too, until
    /// `see` has returned.
    pub fn look(&self, see: impl FnOnce(Vec<OsString>)) {
        let loaded = trust::loaded_so_far();
        if self.loaded.load(Ordering::Relaxed) != loaded {
            see(trust::loaded_files());
            self.loaded.store(loaded, Ordering::Relaxed);
        }
    }
}

/// Opens the library with this file name among loaded files. `None` if there is none. Nothing is loaded anew.
pub fn opened(files: &[OsString], name: &str) -> Option<Library> {
    let is_it = |file: &&OsString| Path::new(file).file_name().is_some_and(|its| its.as_bytes() == name.as_bytes());
    let file = files.iter().find(is_it)?;
    // SAFETY: with the last flag nothing is loaded, so no constructor runs.
    unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok()
}
