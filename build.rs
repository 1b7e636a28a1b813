//! Links `libucudnn.so`: its soname, and that its functions call each other without asking the
//! dynamic linker, which may put another library's function of the same name in their place. And tells which version
//! of the kernels is built in, of all (`UCUDNN_KERNELS`) and of those that convolutions use (`UCUDNN_ENGINES`): what was
//! timed of another says nothing of this one.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=kernels");
    let of_networks = Path::new("kernels/rnn");
    let mut files = Vec::new();
    list(Path::new("kernels"), &mut files);
    files.sort();
    println!("cargo::rustc-env=UCUDNN_KERNELS={:016x}", version(&files));
    files.retain(|file| !file.starts_with(of_networks));
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

/// All of a folder and those in it. The emulator is none of the kernels.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
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
