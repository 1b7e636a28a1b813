//! Tests that need no GPU run wherever NVRTC is. Where `UCUDNN_TEST_REAL_CUDNN` names the folder of the real cuDNN, the
//! loader's search path also leads to NVRTC. Tests skipped without NVRTC or a GPU say so.

use std::borrow::Cow;

mod cubins;
mod emulated;
mod gpu;
mod nvrtc;
mod places;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Source;
use guest::testing::skip;

/// x[i] = 2 · x[i] + BIAS.
const TWICE: Source = Source {
    name: Cow::Borrowed("twice.cu"),
    text: Cow::Borrowed(
        r#"
        #include "bias.h"
        float twice(float x) { return 2 * x + BIAS; }
        extern "C" __global__ void twice_all(float *x, int n) {
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = twice(x[i]);
        }"#,
    ),
    headers: Cow::Borrowed(&[(Cow::Borrowed("bias.h"), Cow::Borrowed("#ifndef BIAS\n#define BIAS 1\n#endif"))]),
    options: Vec::new(),
};

/// A folder that is removed with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ucudnn-jit-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// hostdnn's library, which cargo built beside these tests.
fn hostdnn() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libhostdnn.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// The folder of the real cuDNN.
fn real_cudnn() -> Option<PathBuf> {
    let folder = std::env::var_os("UCUDNN_TEST_REAL_CUDNN").map(PathBuf::from);
    if folder.is_none() {
        skip("UCUDNN_TEST_REAL_CUDNN does not name the real cuDNN, beside which NVRTC is");
    }
    folder
}

/// The environment variable that marks a child process, and names its one test.
const CHILD: &str = "UCUDNN_TEST_CHILD";

/// Runs one test again, in a child process with only these variables; there the test takes its other branch.
fn child(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", test]).env_clear().env(CHILD, test);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{test} in a process of its own:\n{text}");
    output
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}
