//! Where a real cuDNN may be, in the order in which the places are tried.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use guest::libraries::{loaded_files, package_folders};
use guest::settings::CUDNN_LIBRARY;

const NAME: &str = "libcudnn.so.9";

/// Older majors that a process may have loaded, newest first.
const OLDER: [&str; 3] = ["libcudnn.so.8", "libcudnn.so.7", "libcudnn.so.6"];

/// Folders that hold libraries by custom, for when the loader's own search finds ourselves.
const SYSTEM: [&str; 5] = ["/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64", "/opt/cuda/lib64"];

/// A candidate for the real cuDNN.
pub struct Place {
    /// How we came to it.
    pub origin: &'static str,
    /// A path, or a bare name for the dynamic linker to find.
    pub file: OsString,
    /// To be used only if the process has it loaded.
    pub loaded: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.file.display(), self.origin)
    }
}

/// All places. Each group is listed only when those before it have failed.
pub fn all() -> impl Iterator<Item = Place> {
    let groups = [named, loaded, older, searched, system, packages];
    groups.into_iter().flat_map(|group| group())
}

fn named() -> Vec<Place> {
    let file = std::env::var_os(CUDNN_LIBRARY).filter(|file| !file.is_empty());
    file.into_iter().map(|file| Place { origin: CUDNN_LIBRARY, file, loaded: false }).collect()
}

/// By name, and by the paths of all loaded files that look like one: we may go by that name
/// ourselves and hide another.
fn loaded() -> Vec<Place> {
    let mut files = vec![OsString::from(NAME)];
    files.extend(
        loaded_files()
            .into_iter()
            .filter(|file| Path::new(file).file_name().is_some_and(|name| name == NAME || name == "libcudnn.so")),
    );
    let place = |file| Place { origin: "already loaded", file, loaded: true };
    files.into_iter().map(place).collect()
}

fn older() -> Vec<Place> {
    let place = |name| Place { origin: "older, already loaded", file: OsString::from(name), loaded: true };
    OLDER.map(place).into()
}

fn searched() -> Vec<Place> {
    vec![Place { origin: "the loader's search path", file: NAME.into(), loaded: false }]
}

/// The loader's folders one by one: by name it stops at the first, which may be ourselves.
fn system() -> Vec<Place> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    let listed = listed.map(|folder| place_in(&folder, "LD_LIBRARY_PATH"));
    let debian = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let system = std::iter::once(debian).chain(SYSTEM.map(PathBuf::from));
    let system = system.map(|folder| place_in(&folder, "a system folder"));
    listed.chain(system).collect()
}

fn packages() -> Vec<Place> {
    let mut seen = HashSet::new();
    let mut folders = package_folders();
    folders.retain(|folder| seen.insert(folder.clone()));
    let libraries = folders.iter().map(|folder| folder.join("nvidia/cudnn/lib"));
    libraries.map(|folder| place_in(&folder, "the process's Python packages")).collect()
}

fn place_in(folder: &Path, origin: &'static str) -> Place {
    Place { origin, file: folder.join(NAME).into(), loaded: false }
}
