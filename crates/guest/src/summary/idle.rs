//! Why a process never called cuDNN, by the files that it has mapped.

use std::path::Path;

use trust::Mappings;

/// Says why no call of cuDNN came, and the one thing to do.
pub fn why() -> String {
    let files = Mappings::read().map(|mappings| mappings.files().map(Path::to_owned).collect::<Vec<_>>());
    of(&files.unwrap_or_default()).into()
}

fn of<P: AsRef<Path>>(files: &[P]) -> &'static str {
    // `ucudnn run --dlopen` preloads a library of cuDNN's name from a folder of this name.
    let is_stand_in = |file: &str| file.contains("/dlopen-");
    let has = |word: &str| {
        files.iter().map(|file| file.as_ref().to_string_lossy()).any(|file| file.contains(word) && !is_stand_in(&file))
    };
    let cudnn = has("/libcudnn") || has("/libhostdnn");
    let (gpu, torch) = (has("/dev/nvidia") || has("/dev/dxg"), has("/libtorch"));
    match (cudnn, gpu, torch) {
        (false, _, true) => "this PyTorch has no cuDNN; install one for CUDA",
        (false, ..) => {
            "the program loaded no cuDNN (`ucudnn doctor -- PROGRAM` tells more); those that it started have their own lines"
        }
        (true, false, true) => "cuDNN was never called: PyTorch used no GPU; move model and data with .to(\"cuda\")",
        (true, true, true) => {
            "cuDNN was never called: without convolutions, RNNs and batch norm (attention and linear layers run on \
             cuBLAS) there is nothing to gain here"
        }
        (true, _, false) => "cuDNN was loaded and never called here; if the program opens it by name, add --dlopen",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_in_the_mapped_files() {
        let (torch, cudnn, gpu) =
            ("/v/torch/lib/libtorch_cuda.so", "/v/nvidia/cudnn/lib/libcudnn.so.9", "/dev/nvidia0");
        assert!(of(&["/bin/sh"]).contains("loaded no cuDNN"));
        assert!(of(&["/h/.cache/ucudnn/dlopen-0123/libcudnn.so.9"]).contains("loaded no cuDNN"));
        assert!(of(&["/v/libtorch_cpu.so"]).contains("has no cuDNN"));
        assert!(of(&[torch, cudnn]).contains("used no GPU"));
        assert!(of(&[torch, cudnn, gpu]).contains("nothing to gain"));
        assert!(of(&[cudnn, gpu]).contains("--dlopen") && of(&["/build/libhostdnn.so"]).contains("--dlopen"));
    }
}
