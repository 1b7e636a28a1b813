//! Where one of CUDA's libraries may be, in the order in which the places are tried.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use guest::libraries::{loaded_files, package_folders};

/// Those whose cubins drivers of today load, newest first.
const MAJORS: [u32; 2] = [13, 12];

/// Libraries that CUDA's packages hold beside the others, or a folder away.
const NEIGHBOURS: [&str; 5] = ["libcudnn", "libcudart", "libcublas", "libtorch_cuda", "libcaffe2_nvrtc"];

/// Where they lie in Python's packages, seen from the folder that holds `nvidia`.
const PACKAGES: [&str; 4] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cublas/lib", "nvidia/cu12/lib"];

/// Folders that hold CUDA by custom.
const SYSTEM: [&str; 3] = ["/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/cuda/lib64"];

/// The origin of what lies near a loaded library.
pub const BESIDE: &str = "beside what is loaded";

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// How we came to it.
    pub origin: &'static str,
    /// A path, or a bare name for the dynamic linker to find.
    pub file: OsString,
    /// The major version that its name promises.
    pub major: u32,
    /// To be used only if the process has it loaded.
    pub loaded: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.file.display(), self.origin)
    }
}

impl Place {
    /// Loads the library, or takes the one that is loaded. `Err` says why not.
    ///
    /// # Safety
    /// What its constructors do.
    pub unsafe fn open(&self) -> Result<Library, String> {
        let flags = RTLD_LAZY | RTLD_LOCAL | if self.loaded { libc::RTLD_NOLOAD } else { 0 };
        // SAFETY: as ours.
        unsafe { Library::open(Some(&self.file), flags) }.map_err(|error| match (error, self.loaded) {
            (_, true) => "not loaded in this process".to_owned(),
            (libloading::Error::DlOpen { source }, _) => source.to_string(),
            (error, _) => error.to_string(),
        })
    }
}

/// What comes of the first place of which anything does. `Err` lists all of them, each with why.
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

/// All places of a library such as `libnvrtc`. Each group is listed only when those before it have failed.
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

/// The files that are there, the newest major of all folders first.
pub fn in_folders(library: &str, origin: &'static str, folders: Vec<PathBuf>) -> Vec<Place> {
    let mut seen = HashSet::new();
    let files = MAJORS
        .into_iter()
        .flat_map(|major| folders.iter().map(move |folder| (major, folder.join(name(library, major)))));
    let files = files.filter(|(_, file)| file.is_file());
    let places = files.map(|(major, file)| Place { origin, file: file.into(), major, loaded: false });
    places.filter(|place| seen.insert(place.clone())).collect()
}

/// Folders near the CUDA libraries among these files: their own, and in packages (`nvidia/cudnn/lib`,
/// `torch/lib`) their neighbours'.
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
