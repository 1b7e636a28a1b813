//! The candidate places of a CUDA library, in the order of the search.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use guest::libraries::{loaded_files, package_folders};

/// The major versions whose cubins current drivers load, newest first.
const MAJORS: [u32; 2] = [13, 12];

/// Libraries that CUDA's packages hold in the same folder or in a neighbouring one.
const NEIGHBOURS: [&str; 5] = ["libcudnn", "libcudart", "libcublas", "libtorch_cuda", "libcaffe2_nvrtc"];

/// The folders of Python's CUDA packages, relative to the folder that holds `nvidia`.
const PACKAGES: [&str; 4] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cublas/lib", "nvidia/cu12/lib"];

/// The customary folders of CUDA.
const SYSTEM: [&str; 3] = ["/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/cuda/lib64"];

/// The origin of places near a loaded library.
pub const BESIDE: &str = "beside what is loaded";

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The way we found the candidate.
    pub origin: &'static str,
    /// A path, or a bare name for the dynamic linker to find.
    pub file: OsString,
    /// The major version in the file name.
    pub major: u32,
    /// The library is to be used only if the process has loaded it.
    pub loaded: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.file.display(), self.origin)
    }
}

impl Place {
    /// Loads the library, or takes the loaded one. `Err` gives the linker's reason.
    ///
    /// # Safety
    /// The library's constructors are safe to run.
    pub unsafe fn open(&self) -> Result<Library, String> {
        let flags = RTLD_LAZY | RTLD_LOCAL | if self.loaded { libc::RTLD_NOLOAD } else { 0 };
        // SAFETY: the caller vouches for the library's constructors.
        unsafe { Library::open(Some(&self.file), flags) }.map_err(|error| match (error, self.loaded) {
            (_, true) => "not loaded in this process".to_owned(),
            (libloading::Error::DlOpen { source }, _) => source.to_string(),
            (error, _) => error.to_string(),
        })
    }
}

/// Returns the first value that `load` gives. `Err` lists all places with their errors.
pub fn first<T>(
    places: impl Iterator<Item = Place>,
    mut load: impl FnMut(&Place) -> Result<T, String>,
) -> Result<T, String> {
    let mut tried = String::new();
    for place in places {
        match load(&place) {
            Ok(found) => return Ok(found),
            Err(why) => tried += &format!("\n  {place}: {why}"),
        }
    }
    Err(tried)
}

/// All places of a library such as `libnvrtc`. Each group is enumerated only after those before it have failed.
pub fn all(library: &'static str) -> impl Iterator<Item = Place> {
    let groups: [fn(&str) -> Vec<Place>; 5] = [
        |library| by_name(library, "already loaded", true),
        |library| by_name(library, "the loader's search path", false),
        |library| in_folders(library, BESIDE, beside(&loaded_files())),
        |library| in_folders(library, "the process's Python packages", packages(&package_folders())),
        |library| in_folders(library, "a system folder", SYSTEM.map(PathBuf::from).into()),
    ];
    groups.into_iter().flat_map(move |group| group(library))
}

fn name(library: &str, major: u32) -> OsString {
    format!("{library}.so.{major}").into()
}

fn by_name(library: &str, origin: &'static str, loaded: bool) -> Vec<Place> {
    MAJORS.map(|major| Place { origin, file: name(library, major), major, loaded }).into()
}

/// The existing files, with the newest major version of all folders first.
pub fn in_folders(library: &str, origin: &'static str, folders: Vec<PathBuf>) -> Vec<Place> {
    let mut seen = HashSet::new();
    let files = MAJORS
        .into_iter()
        .flat_map(|major| folders.iter().map(move |folder| (major, folder.join(name(library, major)))));
    let files = files.filter(|(_, file)| file.is_file());
    let places = files.map(|(major, file)| Place { origin, file: file.into(), major, loaded: false });
    places.filter(|place| seen.insert(place.clone())).collect()
}

/// Folders near the CUDA libraries among these files: their own folders, and the neighbouring folders in packages
/// (`nvidia/cudnn/lib`, `torch/lib`).
pub fn beside(files: &[OsString]) -> Vec<PathBuf> {
    let is_neighbour = |file: &&Path| {
        let name = file.file_name().map_or(&[][..], OsStr::as_bytes);
        NEIGHBOURS.iter().any(|neighbour| name.starts_with(neighbour.as_bytes()))
    };
    let mut folders = Vec::new();
    for folder in files.iter().map(Path::new).filter(is_neighbour).filter_map(Path::parent) {
        folders.push(folder.to_owned());
        let parents = folder.ancestors().skip(2).take(2).map(Path::to_owned);
        folders.extend(packages(&parents.collect::<Vec<_>>()));
    }
    folders
}

fn packages(folders: &[PathBuf]) -> Vec<PathBuf> {
    folders.iter().flat_map(|folder| PACKAGES.map(|package| folder.join(package))).collect()
}
