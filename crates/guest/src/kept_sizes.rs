//! Programs that keep sizes of workspaces from one process to the next.
//!
//! XLA, on which JAX runs, and TensorFlow store what they have compiled and timed, with the workspace of each convolution. A
//! later process allocates by that, whatever its plans report. Where a plan needs none, they may even pass a pointer into
//! memory that is another's.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In the names of their files, and the folders that hold these.
const FILES: [&str; 2] = ["xla", "tensorflow"];
const FOLDERS: [&str; 3] = ["jaxlib", "jax_plugins", "tensorflow"];

/// Set once such a library was found.
static ARE_POSSIBLE: AtomicBool = AtomicBool::new(false);
/// How many libraries the process had ever loaded when they were looked at last.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

/// Returns whether the process has loaded such a library so far.
pub fn are_possible() -> bool {
    let loaded = trust::loaded_so_far();
    if !ARE_POSSIBLE.load(Ordering::Relaxed) && LOOKED_AT.load(Ordering::Relaxed) != loaded {
        if trust::loaded_files().iter().any(|file| keeps_sizes(file)) {
            ARE_POSSIBLE.store(true, Ordering::Relaxed);
        }
        LOOKED_AT.store(loaded, Ordering::Relaxed);
    }
    ARE_POSSIBLE.load(Ordering::Relaxed)
}

fn keeps_sizes(file: &OsStr) -> bool {
    let file = Path::new(file);
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_in = |folder: &&str| file.iter().any(|part| part == *folder);
    FILES.iter().any(|part| name.contains(part)) || FOLDERS.iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_files() {
        let keeps = |file: &str| keeps_sizes(OsStr::new(file));
        assert!(keeps("/v/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so"));
        assert!(keeps("/v/lib/python3.12/site-packages/jaxlib/_jax.so"));
        assert!(keeps("/usr/lib/libtensorflow_framework.so.2") && keeps("/v/site-packages/_XLAC.so"));
        assert!(!keeps("/v/tensorflow-and-others/site-packages/torch/lib/libtorch_cuda.so"));
        assert!(!keeps("/usr/lib/libcudnn.so.9"));
    }
}
