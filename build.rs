//! Links `libucudnn.so`. Sets its soname, and lets its functions call each other directly: the dynamic linker might put
//! another library's function of the same name in their place. Also builds in two version hashes: `UCUDNN_KERNELS` of
//! all GPU kernels, and `UCUDNN_ENGINES` of those that convolutions use. Times of one version say nothing about
//! another.

use std::fs;
use std::path::{Path, PathBuf};

/// Headers that only the GPU kernels of recurrent networks include.
const OF_NETWORKS: [&str; 2] = ["exchange.cuh", "cluster_exchange.cuh"];
/// The parts of `src/exec/` that belong to the GPU kernels of convolutions.
const CUT_AND_LAUNCHED: [&str; 5] = ["backward_filter", "implicit_gemm", "samples.rs", "tiles.rs", "transposes.rs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=kernels");
    let mut files = Vec::new();
    list(Path::new("kernels"), &mut files);
    files.sort();
    println!("cargo::rustc-env=UCUDNN_KERNELS={:016x}", version(&files));
    let is_of_networks =
        |file: &PathBuf| file.starts_with("kernels/rnn") || OF_NETWORKS.iter().any(|name| file.ends_with(name));
    files.retain(|file| !is_of_networks(file));
    // The host code also cuts and launches the kernels, so it counts too.
    for part in CUT_AND_LAUNCHED {
        println!("cargo::rerun-if-changed=src/exec/{part}");
        list(&Path::new("src/exec").join(part), &mut files);
    }
    files.retain(|file| !file.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests")));
    files.sort();
    println!("cargo::rustc-env=UCUDNN_ENGINES={:016x}", version(&files));
}

/// A hash (FNV-1a, of Fowler, Noll and Vo) of the files' paths and contents.
fn version(files: &[PathBuf]) -> u64 {
    let text = files.iter().flat_map(|file| {
        let text = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        [file.to_string_lossy().into_owned().into_bytes(), text]
    });
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    text.flatten().fold(0xCBF2_9CE4_8422_2325, add)
}

/// Lists a file, or all files of a folder and its subfolders except the emulator, which is no part of the kernels.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    if folder.is_file() {
        return files.push(folder.to_owned());
    }
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder's entry").path();
        if !path.is_dir() {
            files.push(path);
        } else if !path.ends_with("emulator") {
            list(&path, files);
        }
    }
}
