//! Links `libucudnn.so`: its soname, and that its functions call each other without asking the
//! dynamic linker, which may put another library's function of the same name in their place. And tells which version
//! of the kernels is built in, of all (`UCUDNN_KERNELS`) and of those that convolutions use (`UCUDNN_ENGINES`): what was
//! timed of another says nothing of this one.

use std::fs;
use std::path::{Path, PathBuf};

/// Headers that none but networks' kernels include.
const OF_NETWORKS: [&str; 2] = ["exchange.cuh", "cluster_exchange.cuh"];
/// What is in `src/exec/` of convolutions' kernels.
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
    // How they are cut and launched is not in the kernels.
    for part in CUT_AND_LAUNCHED {
        println!("cargo::rerun-if-changed=src/exec/{part}");
        list(&Path::new("src/exec").join(part), &mut files);
    }
    files.retain(|file| !file.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests")));
    files.sort();
    println!("cargo::rustc-env=UCUDNN_ENGINES={:016x}", version(&files));
}

/// A hash (FNV-1a, of Fowler, Noll and Vo) of what files hold.
fn version(files: &[PathBuf]) -> u64 {
    let text = files.iter().flat_map(|file| {
        let text = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        [file.to_string_lossy().into_owned().into_bytes(), text]
    });
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    text.flatten().fold(0xCBF2_9CE4_8422_2325, add)
}

/// A file, or all of a folder and those in it. The emulator is none of the kernels.
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
