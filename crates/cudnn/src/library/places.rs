//! The places where a real cuDNN may be, in the order in which we try them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use guest::libraries::{Chosen, Place, loaded_names, package_folders};
use guest::settings::CUDNN_LIBRARY;

const NAME: &str = "libcudnn.so.9";

/// Older major versions that a process may have loaded, newest first.
const OLDER: [&str; 3] = ["libcudnn.so.8", "libcudnn.so.7", "libcudnn.so.6"];

/// Customary library folders, for when the loader's own search finds libucudnn itself.
const SYSTEM: [&str; 5] = ["/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64", "/opt/cuda/lib64"];

/// All places, in order. A group is computed only after every earlier place has failed. A process with more rights than
/// its user gets the linker's places alone.
pub fn all() -> impl Iterator<Item = Place> {
    let groups: &[fn() -> Vec<Place>] = if trust::has_more_rights_than_its_user() {
        &[loaded, older, searched]
    } else {
        &[named, loaded, older, searched, system, packages]
    };
    groups.iter().flat_map(|group| group())
}

fn named() -> Vec<Place> {
    let file = std::env::var_os(CUDNN_LIBRARY).filter(|file| !file.is_empty());
    let place = |file: OsString| {
        // The linker looks for a bare name.
        let is_path = file.as_encoded_bytes().contains(&b'/');
        Place { origin: CUDNN_LIBRARY, chosen: if is_path { Chosen::ByUser } else { Chosen::ByLinker }, file }
    };
    file.into_iter().map(place).collect()
}

/// The plain name, and each name of a loaded library that ends in it: libucudnn may itself be loaded under that name and
/// hide another library. Such a place only opens what is loaded, so a relative name does too.
fn loaded() -> Vec<Place> {
    let mut files = vec![OsString::from(NAME)];
    files.extend(
        loaded_names()
            .into_iter()
            .filter(|file| Path::new(file).file_name().is_some_and(|name| name == NAME || name == "libcudnn.so")),
    );
    let place = |file| Place { origin: "already loaded", file, chosen: Chosen::Loaded };
    files.into_iter().map(place).collect()
}

fn older() -> Vec<Place> {
    let origin = "older, already loaded";
    OLDER.map(|name| Place { origin, file: OsString::from(name), chosen: Chosen::Loaded }).into()
}

fn searched() -> Vec<Place> {
    vec![Place { origin: "the loader's search path", file: NAME.into(), chosen: Chosen::ByLinker }]
}

/// The loader's folders one by one. A search by name stops at the first match, which may be libucudnn itself.
fn system() -> Vec<Place> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    let listed = listed.map(|folder| place_in(&folder, "LD_LIBRARY_PATH", Chosen::ByLinker));
    let debian = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let system = std::iter::once(debian).chain(SYSTEM.map(PathBuf::from));
    let system = system.map(|folder| place_in(&folder, "a system folder", Chosen::ByUs));
    listed.chain(system).collect()
}

fn packages() -> Vec<Place> {
    let mut seen = HashSet::new();
    let mut folders = package_folders();
    folders.retain(|folder| seen.insert(folder.clone()));
    let libraries = folders.iter().map(|folder| folder.join("nvidia/cudnn/lib"));
    libraries.map(|folder| place_in(&folder, "the process's Python packages", Chosen::ByUs)).collect()
}

fn place_in(folder: &Path, origin: &'static str, chosen: Chosen) -> Place {
    Place { origin, file: folder.join(NAME).into(), chosen }
}
