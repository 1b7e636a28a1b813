//! Loading and launching on the host, in a process whose cuDNN is hostdnn.

use std::borrow::Cow;

use super::super::{Error, Launch, Source};
use super::{child, hostdnn, is_child, skip};
use crate::Device;
use crate::testing::emulated::provide_hostdnn;

const SCALE: Source = Source {
    name: Cow::Borrowed("scale.cu"),
    text: Cow::Borrowed(
        r#"
        #define THREADS 256
        #include "common/device.cuh"
        struct Scale { float *x; int n; float by; };
        KERNEL(scale, Scale) {
            const int i = blockIdx.x * THREADS + threadIdx.x;
            if (parameters.n == 0) { Spin spin; while (true) spin.again(); }
            if (i < parameters.n) parameters.x[i] *= parameters.by + OFFSET;
        }"#,
    ),
    headers: Cow::Borrowed(&[(
        Cow::Borrowed("common/device.cuh"),
        Cow::Borrowed(include_str!("../../../../../kernels/common/device.cuh")),
    )]),
    options: Vec::new(),
};

#[repr(C)]
struct Scale {
    x: *mut f32,
    n: i32,
    by: f32,
}

#[test]
fn kernels_run_on_the_host() {
    if !is_child() {
        return hostdnn_child("jit::tests::emulated::kernels_run_on_the_host", &[]);
    }
    provide_hostdnn();
    let source = |offset| Source { options: vec![format!("-DOFFSET={offset}"), "--use_fast_math".into()], ..SCALE };
    let device = Device::Host;
    assert_eq!(device, Device::Host);
    let module = match device.load(&source("0.5f")) {
        Err(Error::NoCompiler(why)) => return skip(&why),
        loaded => loaded.unwrap(),
    };
    let scale = module.function(c"scale").unwrap();
    let missing = module.function(c"scales").err().expect("no such kernel").to_string();
    assert!(missing.contains("hostdnnGetKernel") && missing.contains("scales"), "{missing}");
    drop(module); // the function keeps it loaded
    assert!(scale.resident_blocks(256, 1 << 16).unwrap() >= 1 && scale.resident_blocks(0, 0).unwrap() == 0);
    let mut x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let launch = Launch { grid: [4, 1, 1], block: [256, 1, 1], ..Launch::default() };
    let run = |launch: &Launch, mut parameters: Scale| {
        // SAFETY: the argument matches the kernel's parameter, with a vector of up to `n` floats behind it.
        unsafe { scale.launch(std::ptr::null_mut(), launch, &mut [(&raw mut parameters).cast()]) }
    };
    run(&launch, Scale { x: x.as_mut_ptr(), n: 1000, by: 1.5 }).unwrap();
    assert!(x.iter().enumerate().all(|(i, &x)| x == 2.0 * i as f32), "{x:?}");
    let waits = run(&launch, Scale { x: x.as_mut_ptr(), n: 0, by: 0.0 }).unwrap_err().to_string();
    assert!(waits.contains("a deadlock") && waits.contains("scale.cu:7"), "{waits}");
    assert_eq!(scale.resident_clusters(&launch), Ok(0));
    let cluster = Launch { cluster: [2, 1, 1], ..launch };
    assert_eq!(scale.resident_clusters(&cluster), Ok(64));
    run(&cluster, Scale { x: x.as_mut_ptr(), n: 1000, by: -0.5 }).unwrap();
    assert!(x.iter().all(|&x| x == 0.0), "{x:?}");
    let cluster = Launch { cluster: [3, 1, 1], ..launch };
    let refused = run(&cluster, Scale { x: x.as_mut_ptr(), n: 1000, by: 0.0 }).unwrap_err().to_string();
    assert!(refused.contains("cluster"), "{refused}");
    match device.load(&source("nothing")).err() {
        Some(Error::Compilation { log, .. }) => assert!(log.contains("nothing"), "{log}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_host_without_a_compiler_says_so() {
    if !is_child() {
        let test = "jit::tests::emulated::the_host_without_a_compiler_says_so";
        hostdnn_child(test, &[("HOSTDNN_CXX", "/nowhere/c++")]);
        return hostdnn_child(test, &[("UCUDNN_FAULT", "compiler")]);
    }
    provide_hostdnn();
    let error = Device::Host.load(&SCALE).err().expect("there is no compiler");
    assert!(matches!(error, Error::NoCompiler(_)), "{error:?}");
    let fault = std::env::var_os("UCUDNN_FAULT").is_some();
    assert!(error.to_string().contains(if fault { "UCUDNN_FAULT" } else { "/nowhere/c++" }), "{error}");
}

#[test]
fn a_library_that_runs_no_kernels_is_named() {
    // This process has no cuDNN at all.
    if Device::Host == Device::Cuda {
        assert!(matches!(Device::Host.load(&SCALE).err(), Some(Error::NoCompiler(why)) if why.contains("no kernels")));
    }
}

/// Runs a test again in a child process whose cuDNN is hostdnn.
fn hostdnn_child(test: &str, variables: &[(&str, &str)]) {
    let library = hostdnn();
    let mut all = vec![("UCUDNN_CUDNN_LIBRARY", library.to_str().unwrap())];
    let compiler = std::env::var("HOSTDNN_CXX");
    all.extend(compiler.as_ref().map(|compiler| ("HOSTDNN_CXX", compiler.as_str())));
    all.extend(variables);
    let output = child(test, &all);
    let text = String::from_utf8_lossy(&output.stderr);
    if let Some((_, why)) =
        text.lines().filter(|line| line.starts_with("SKIPPED")).find_map(|line| line.split_once(": "))
    {
        skip(why);
    }
}
