//! The candidate places of a CUDA library, in the order of the search.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use guest::libraries::{Chosen, Place, loaded_files, package_folders};

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
pub struct Candidate {
    /// Where it may be.
    pub place: Place,
    /// The major version in the file name.
    pub major: u32,
}

/// Returns the first value that `load` gives. `Err` lists all places with their errors.
pub fn first<T>(
    candidates: impl Iterator<Item = Candidate>,
    mut load: impl FnMut(&Candidate) -> Result<T, String>,
) -> Result<T, String> {
    let mut tried = String::new();
    for candidate in candidates {
        match load(&candidate) {
            Ok(found) => return Ok(found),
            Err(why) => tried += &format!("\n  {}: {why}", candidate.place),
        }
    }
    Err(tried)
}

/// All candidates for a library such as `libnvrtc`. Each group is enumerated only after those before it have failed. A
/// process with more rights than its user gets the linker's places alone.
pub fn all(library: &'static str) -> impl Iterator<Item = Candidate> {
    let groups: [fn(&str) -> Vec<Candidate>; 5] = [
        |library| by_name(library, "already loaded", Chosen::Loaded),
        |library| by_name(library, "the loader's search path", Chosen::ByLinker),
        |library| in_folders(library, BESIDE, beside(&loaded_files())),
        |library| in_folders(library, "the process's Python packages", packages(&package_folders())),
        |library| in_folders(library, "a system folder", SYSTEM.map(PathBuf::from).into()),
    ];
    let count = if trust::has_more_rights_than_its_user() { 2 } else { groups.len() };
    groups.into_iter().take(count).flat_map(move |group| group(library))
}

fn name(library: &str, major: u32) -> OsString {
    format!("{library}.so.{major}").into()
}

fn by_name(library: &str, origin: &'static str, chosen: Chosen) -> Vec<Candidate> {
    MAJORS.map(|major| Candidate { place: Place { origin, file: name(library, major), chosen }, major }).into()
}

/// The existing files, with the newest major version of all folders first.
pub fn in_folders(library: &str, origin: &'static str, folders: Vec<PathBuf>) -> Vec<Candidate> {
    let mut seen = HashSet::new();
    let files = MAJORS
        .into_iter()
        .flat_map(|major| folders.iter().map(move |folder| (major, folder.join(name(library, major)))));
    let files = files.filter(|(_, file)| file.is_file());
    let place = |file: PathBuf| Place { origin, file: file.into(), chosen: Chosen::ByUs };
    let candidates = files.map(|(major, file)| Candidate { place: place(file), major });
    candidates.filter(|candidate| seen.insert(candidate.clone())).collect()
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
