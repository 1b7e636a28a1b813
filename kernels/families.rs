//! A family of kernels: the sources in a folder, with the headers that their `#include`s reach, and a version, which is a
//! hash of all of them. So a change to one family leaves the timings of the others valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::hash;

/// The families: the folder of each one's sources, by which its module is called, and host code that decides how they are
/// cut and launched. Timings depend on this code as much as on the sources.
pub const FAMILIES: [(&str, &[&str]); 4] = [
    ("convolution", &["../crates/convolution/src/engines"]),
    ("dynamic", &["../crates/dynamic/src/emit", "../crates/dynamic/src/batched"]),
    ("norm", &["../crates/norm/src/calls", "../crates/norm/src/kernels.rs", "../crates/norm/src/shape.rs"]),
    (
        "recurrent",
        &[
            "../crates/recurrent/src/configuration",
            "../crates/recurrent/src/input.rs",
            "../crates/recurrent/src/kernels.rs",
        ],
    ),
];

pub struct Family {
    /// Each source with its headers, by their paths from the package's folder.
    pub sources: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    pub version: u64,
}

impl Family {
    /// The family of the `.cu` files in a folder. `text` reads a file.
    pub fn new(folder: &str, host_code: &[&str], text: &dyn Fn(&Path) -> String) -> Self {
        let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "cu");
        let with_headers = |source: PathBuf| {
            let mut headers = BTreeSet::new();
            includes(&source, text, &mut headers);
            (source, headers)
        };
        let sources: BTreeMap<_, _> = entries(Path::new(folder)).filter(is_source).map(with_headers).collect();
        let kernels = sources.iter().flat_map(|(source, headers)| headers.iter().chain([source])).cloned();
        let host_code = host_code.iter().flat_map(|path| rust_files(Path::new(path)));
        let version = version(&kernels.chain(host_code).collect(), text);
        Self { sources, version }
    }
}

pub fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("a folder's entry").path())
}

/// The headers that a file includes, and those that they include. The emulator's belong to hostdnn.
fn includes(file: &Path, text: &dyn Fn(&Path) -> String, found: &mut BTreeSet<PathBuf>) {
    for line in text(file).lines() {
        let Some(header) = line.trim().strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) else {
            continue;
        };
        if !header.starts_with("emulator/") && found.insert(header.into()) {
            includes(Path::new(header), text, found);
        }
    }
}

/// A file, or the Rust files in a folder and the folders in it, without tests.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tests");
    entries(path).filter(|path| !is_test(path)).flat_map(|path| rust_files(&path)).collect()
}

/// A hash of files' names and texts.
fn version(files: &BTreeSet<PathBuf>, text: &dyn Fn(&Path) -> String) -> u64 {
    let add =
        |hash, file: &PathBuf| hash::add(hash::add(hash, file.to_string_lossy().as_bytes()), text(file).as_bytes());
    files.iter().fold(hash::NOTHING, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions of all families, if this file's text were longer.
    fn versions(changed: &str) -> [u64; FAMILIES.len()] {
        let longer = |file: &Path| text(file) + if file == Path::new(changed) { "\n" } else { "" };
        FAMILIES.map(|(folder, host_code)| Family::new(folder, host_code, &longer).version)
    }

    #[test]
    fn a_source_has_the_headers_that_its_includes_reach() {
        let (folder, host_code) = FAMILIES[3];
        let headers = &Family::new(folder, host_code, &text).sources[Path::new("recurrent/grid.cu")];
        let has = |name| headers.contains(Path::new(name));
        assert!(
            has("recurrent/grid_steps.cuh") && has("common/exchange.cuh") && !has("common/tiles.cuh"),
            "{headers:?}"
        );
    }

    /// A change to a file changes the versions of the families that it belongs to, and no other.
    #[test]
    fn only_a_familys_own_files_change_its_version() {
        let unchanged = versions("");
        for (file, [convolution, dynamic, norm, recurrent]) in [
            ("convolution/sample.cu", [true, false, false, false]),
            ("common/tiles.cuh", [true, false, false, false]),
            ("../crates/convolution/src/engines/tiles.rs", [true, false, false, false]),
            ("dynamic/products.cu", [false, true, false, false]),
            ("../crates/dynamic/src/emit/rows.rs", [false, true, false, false]),
            ("norm/planes.cuh", [false, false, true, false]),
            ("../crates/norm/src/shape.rs", [false, false, true, false]),
            ("recurrent/grid.cu", [false, false, false, true]),
            ("recurrent/cells/lstm.cuh", [false, false, false, true]),
            ("common/exchange.cuh", [false, true, false, true]),
            ("../crates/recurrent/src/kernels.rs", [false, false, false, true]),
            ("../crates/recurrent/src/configuration/mod.rs", [false, false, false, true]),
            ("common/device.cuh", [true, true, true, true]),
        ] {
            let changed = versions(file);
            let differs: Vec<_> = unchanged.iter().zip(&changed).map(|(before, after)| before != after).collect();
            assert_eq!(differs, [convolution, dynamic, norm, recurrent], "{file}");
        }
    }
}
