//! Derives each kernel family's sources, headers and version from the files themselves: a source has the headers that its
//! `#include`s reach, and a family's version is a hash of all its sources and headers. So a change to one family leaves the
//! timings of the others valid.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A family: its module's name, the folder of its sources, and host code that decides how they are cut and launched, on
/// which timings depend as much as on the sources.
const FAMILIES: [(&str, &str, &[&str]); 2] =
    [("convolution", "", &["../crates/convolution/src/engines"]), ("recurrent", "rnn", &[])];

fn main() {
    println!("cargo::rerun-if-changed=.");
    let mut code = String::new();
    for (family, folder, host_code) in FAMILIES {
        let (mut sources, mut parts) = (String::new(), BTreeSet::new());
        for source in sources_in(Path::new(folder)) {
            let mut headers = BTreeSet::new();
            includes(&source, &mut headers);
            let headers_text: String = headers.iter().map(|header| entry(header)).collect();
            let (name, constant) = (source.display(), constant(&source));
            writeln!(
                sources,
                "/// `{name}`.\npub const {constant}: KernelSource = KernelSource {{ name: \"{name}\", text: include_str!({:?}), \
                 headers: &[{headers_text}] }};",
                absolute(&source)
            )
            .expect("a string takes all that is written");
            parts.insert(source);
            parts.extend(headers);
        }
        for folder in host_code {
            println!("cargo::rerun-if-changed={folder}");
            parts.extend(rust_files(Path::new(folder)));
        }
        let version = version(&parts);
        writeln!(
            code,
            "/// The family `{family}`.\npub mod {family} {{\nuse super::KernelSource;\n/// Its version.\n\
             pub const VERSION: &str = \"{version:016x}\";\n{sources}}}"
        )
        .expect("a string takes all that is written");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names OUT_DIR"));
    fs::write(out.join("families.rs"), code).expect("OUT_DIR can be written");
}

/// The `.cu` files of a folder, in the order of their names.
fn sources_in(folder: &Path) -> Vec<PathBuf> {
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "cu");
    let mut sources: Vec<_> = entries(folder).filter(is_source).collect();
    sources.sort();
    sources
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let read = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(read).unwrap_or_else(|error| panic!("{}: {error}", read.display()));
    let folder = folder.to_owned();
    entries.map(move |entry| folder.join(entry.expect("a folder's entry").file_name()))
}

/// The headers that a file includes, and those that they include. The emulator's belong to hostdnn.
fn includes(file: &Path, found: &mut BTreeSet<PathBuf>) {
    for line in text(file).lines() {
        let Some(header) = line.trim().strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) else {
            continue;
        };
        if !header.starts_with("emulator/") && found.insert(header.into()) {
            includes(Path::new(header), found);
        }
    }
}

/// The Rust files of a folder and of those in it, without tests.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tests");
    let files = entries(folder).filter(|path| !is_test(path));
    files.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] }).collect()
}

/// The constant that stands for a source: `BACKWARD_FILTER` for `backward_filter.cu`.
fn constant(source: &Path) -> String {
    source.file_stem().expect("a file").to_string_lossy().to_uppercase()
}

fn entry(header: &Path) -> String {
    format!("({:?}, include_str!({:?})),", header.display().to_string(), absolute(header))
}

fn absolute(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A hash (FNV-1a, of Fowler, Noll and Vo) of files' names and texts.
fn version(files: &BTreeSet<PathBuf>) -> u64 {
    let bytes =
        files.iter().flat_map(|file| [file.to_string_lossy().into_owned().into_bytes(), text(file).into_bytes()]);
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.flatten().fold(0xCBF2_9CE4_8422_2325, add)
}
