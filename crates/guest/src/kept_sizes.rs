//! Programs that keep sizes of workspaces from one process to the next.
//!
//! XLA (JAX) and TensorFlow store compiled programs, and with them the workspace of each convolution. A later process
//! allocates by the stored size, whatever its plans report. If that size is 0, the process may pass a pointer into memory of
//! another tensor.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::loaded::Looks;

/// In the names of their files, and the folders that hold these.
const FILES: [&str; 2] = ["xla", "tensorflow"];
const FOLDERS: [&str; 3] = ["jaxlib", "jax_plugins", "tensorflow"];

/// Set once such a library was found.
static ARE_POSSIBLE: AtomicBool = AtomicBool::new(false);
static LOOKS: Looks = Looks::new();

/// Returns whether the process has loaded such a library so far.
pub fn are_possible() -> bool {
    if !ARE_POSSIBLE.load(Ordering::Relaxed) {
        LOOKS.look(|files| {
            if files.iter().any(|file| keeps_sizes(file)) {
                ARE_POSSIBLE.store(true, Ordering::Relaxed);
            }
        });
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
