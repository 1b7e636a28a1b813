//! The search for NVRTC.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::nvrtc::{Nvrtc, builtins};
use guest::libraries::{Chosen, Place};

use super::super::places::{Candidate, beside, in_folders};
use super::Folder;

fn folders_near(file: &Path) -> Vec<PathBuf> {
    beside(&[OsString::from("/usr/lib/libc.so.6"), file.into()])
}

/// The layouts of cuDNN's and CUDA's packages of both majors, of PyTorch's, and one folder for all.
#[test]
fn found_from_each_package() {
    let layouts = [
        ("nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cu13/lib/libnvrtc.so.13"),
        ("nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
        ("nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
        ("torch/lib/libtorch_cuda.so", "nvidia/cu13/lib/libnvrtc.so.13"),
        ("torch/lib/libtorch_cuda.so", "torch/lib/libnvrtc.so.12"),
        ("lib/libcudnn_graph.so.9.19.0", "lib/libnvrtc.so.13"),
    ];
    for (loaded, nvrtc) in layouts {
        let root = Folder::new();
        let nvrtc = root.0.join(nvrtc);
        fs::create_dir_all(nvrtc.parent().unwrap()).unwrap();
        fs::write(&nvrtc, "").unwrap();
        let found = in_folders("libnvrtc", "", folders_near(&root.0.join(loaded)));
        let files: Vec<_> = found.into_iter().map(|it| PathBuf::from(it.place.file)).collect();
        assert_eq!(files, [nvrtc], "from {loaded}");
    }
    assert!(beside(&["/opt/lib/libm.so.6".into()]).is_empty());
}

#[test]
fn the_newest_major_first() {
    let (one, two) = (Folder::new(), Folder::new());
    for (folder, name) in [(&one, "libnvrtc.so.12"), (&two, "libnvrtc.so.13"), (&two, "libnvrtc.so.11.2")] {
        fs::write(folder.0.join(name), "").unwrap();
    }
    let found = in_folders("libnvrtc", "", vec![one.0.clone(), two.0.clone(), one.0.clone()]);
    let majors: Vec<_> = found.iter().map(|candidate| candidate.major).collect();
    assert_eq!(majors, [13, 12]);
}

#[test]
fn what_was_tried_is_told() {
    let folder = Folder::new();
    fs::write(folder.0.join("libnvrtc.so.12"), "no library").unwrap();
    fs::write(folder.0.join("libnvrtc.so.13"), "no library").unwrap();
    let mut candidates = in_folders("libnvrtc", "a test", vec![folder.0.clone()]);
    // A library other than NVRTC.
    let place = Place { origin: "the C library", file: "libc.so.6".into(), chosen: Chosen::Loaded };
    candidates.push(Candidate { place, major: 12 });
    let Err(why) = Nvrtc::find(candidates.into_iter(), 12) else { panic!("found NVRTC") };
    let lines: Vec<_> = why.lines().collect();
    assert!(lines[1].contains("libnvrtc.so.13 (a test): the driver runs code of CUDA 12 at most"), "{why}");
    assert!(lines[2].contains("libnvrtc.so.12 (a test): ") && lines[2].contains("file too short"), "{why}");
    assert!(lines[3].contains("libc.so.6 (the C library): it has no nvrtcVersion"), "{why}");
}

/// Whoever chose NVRTC, we choose the library beside it, so that file must be trusted. Beside a relative path there may
/// be any file: the program may have left the folder.
#[test]
fn the_builtins_beside_nvrtc_must_be_trusted() {
    let folder = Folder::new();
    fs::write(folder.0.join("libnvrtc-builtins.so.13.0"), "no library").unwrap();
    let open = |mode| {
        fs::set_permissions(&folder.0, Permissions::from_mode(mode)).unwrap();
        let place = builtins(&folder.0.join("libnvrtc.so.13"), (13, 0)).unwrap();
        // SAFETY: the file is no library, so it has no constructors.
        unsafe { place.open() }.err().unwrap()
    };
    assert!(open(0o755).contains("file too short"), "{}", open(0o755));
    assert!(open(0o757).contains("other users can write to "), "{}", open(0o757));
    assert_eq!(builtins(Path::new("lib/libnvrtc.so.13"), (13, 0)), None);
}
