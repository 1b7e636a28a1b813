//! The places where a real cuDNN may be, in the order in which we try them.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::settings::CUDNN_LIBRARY;

const NAME: &str = "libcudnn.so.9";

/// Older major versions that a process may have loaded, newest first.
const OLDER: [&str; 3] = ["libcudnn.so.8", "libcudnn.so.7", "libcudnn.so.6"];

/// Customary library folders, for when the loader's own search finds libucudnn itself.
const SYSTEM: [&str; 5] = ["/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64", "/opt/cuda/lib64"];

/// A candidate for the real cuDNN.
pub struct Place {
    /// How we came to this place.
    pub origin: &'static str,
    /// A path, or a bare name for the dynamic linker to find.
    pub file: OsString,
    /// True if the file counts only when the process has already loaded it.
    pub loaded: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.file.display(), self.origin)
    }
}

/// All places, in order. A group is computed only after every earlier place has failed.
pub fn all() -> impl Iterator<Item = Place> {
    let groups = [named, loaded, older, searched, system, packages];
    groups.into_iter().flat_map(|group| group())
}

fn named() -> Vec<Place> {
    let file = std::env::var_os(CUDNN_LIBRARY).filter(|file| !file.is_empty());
    file.into_iter().map(|file| Place { origin: CUDNN_LIBRARY, file, loaded: false }).collect()
}

/// The plain name, and the path of each loaded file with that name: libucudnn may itself be loaded under that name and
/// hide another library.
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

/// The loader's folders one by one. A search by name stops at the first match, which may be libucudnn itself.
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

/// Folders from which this process's Python, if it runs one, imports packages; the surest come first.
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
    for prefix in prefixes.into_iter().flatten() {
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
        return std::path::absolute(name).ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The files of all libraries in the process.
pub fn loaded_files() -> Vec<OsString> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, files: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid record, whose name is null or a C string, and passes on the vector
        // that the call below hands it.
        unsafe {
            let name = (*info).dlpi_name;
            if !name.is_null() {
                let name = CStr::from_ptr(name).to_bytes().to_vec();
                (*files.cast::<Vec<OsString>>()).push(OsString::from_vec(name));
            }
        }
        0
    }
    let mut files = Vec::<OsString>::new();
    // SAFETY: `note` expects a `Vec<OsString>`, and this call passes one that outlives it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut files).cast()) };
    files
}
