//! Looks at the libraries that the process has loaded.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};

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
