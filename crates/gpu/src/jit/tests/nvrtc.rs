//! The compiler.

use std::borrow::Cow;

use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol};

use super::super::nvrtc::{Architecture, Nvrtc};
use super::super::places::{self, BESIDE};
use super::super::{Error, Source, image};
use super::{TWICE, child, is_child, real_cudnn, skip};
use crate::{Device, cuda};

fn nvrtc() -> Option<&'static Nvrtc> {
    real_cudnn().map(|_| Nvrtc::of_process(0).expect("the loader's search path leads to NVRTC"))
}

fn log_of(result: Result<Vec<u8>, Error>) -> String {
    match result {
        Err(Error::Compilation { name, log }) if name == "twice.cu" => log,
        other => panic!("{other:?}"),
    }
}

#[test]
fn cubins_of_many_architectures() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut seen = Vec::new();
    for capability in [80, 89, 90, 100] {
        let architecture = nvrtc.architecture(capability).unwrap();
        assert!(!architecture.is_virtual);
        let cubin = nvrtc.compile(&TWICE, &architecture).unwrap();
        let file = ElfFile64::<Endianness>::parse(&*cubin).unwrap();
        assert_eq!(file.elf_header().e_machine(Endianness::Little), object::elf::EM_CUDA);
        // CUDA 13's cubins hold the capability in these bits.
        assert_eq!(file.elf_header().e_flags(Endianness::Little).0 >> 8 & 0xff, capability);
        let names: Vec<_> = file.symbols().filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
        assert!(names.iter().any(|name| name == "twice_all"), "{names:?}");
        seen.push(cubin);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "the architectures' cubins are equal");
}

/// A kernel that uses all of `kernels/common/device.cuh`.
const WORDS: Source = Source {
    name: Cow::Borrowed("words.cu"),
    text: Cow::Borrowed(
        r#"
        #define THREADS 64
        #include "common/device.cuh"
        struct Words { float *x; int n; };
        KERNEL(words, Words) {
            SHARED(float, all);
            STATIC_SHARED(float, table, [2][3]);
            STATIC_SHARED(int, number);
            all[threadIdx.x] = parameters.x[blockIdx.x * blockDim.x + threadIdx.x];
            if (LANE == 0) table[WARP][1] = number = gridDim.x;
            barrier();
            Spin spin;
            while (all[0] > parameters.n) spin.again();
            float x = warp_sum(all[LANE]) + warp_sum(all[LANE], 8) + warp_max(all[LANE], 4) + table[0][1] + number;
            x += warp_shuffle(x, 31 - LANE) + warp_broadcast(number, 7) + warp_any(x > 0) + warp_all(x > 0);
            x += half_to_float(float_to_half(x)) + bfloat16_to_float(float_to_bfloat16(x));
            warp_barrier();
            if (x < 0) fail("it is negative");
            parameters.x[threadIdx.x] = x;
        }"#,
    ),
    headers: Cow::Borrowed(&[(
        Cow::Borrowed("common/device.cuh"),
        Cow::Borrowed(include_str!("../../../../../kernels/common/device.cuh")),
    )]),
    options: Vec::new(),
};

#[test]
fn the_words_of_kernels_are_cuda() {
    let Some(nvrtc) = nvrtc() else { return };
    for capability in [80, 89, 90, 100] {
        let architecture = nvrtc.architecture(capability).unwrap();
        for options in [vec![], vec!["-DDEBUG_WAIT=1000".to_owned()]] {
            nvrtc
                .compile(&Source { options, ..WORDS }, &architecture)
                .unwrap_or_else(|why| panic!("{capability}: {why}"));
        }
    }
}

#[test]
fn ptx_for_what_the_compiler_does_not_know() {
    let Some(nvrtc) = nvrtc() else { return };
    let architecture = nvrtc.architecture(99).unwrap();
    assert_eq!(architecture, Architecture { name: "compute_90".into(), is_virtual: true });
    let ptx = nvrtc.compile(&TWICE, &architecture).unwrap();
    let ptx = std::ffi::CStr::from_bytes_with_nul(&ptx).unwrap().to_str().unwrap();
    assert!(ptx.contains(".target sm_90") && ptx.contains(".entry twice_all"), "{ptx}");
    let error = nvrtc.architecture(20).unwrap_err();
    assert!(matches!(&error, Error::NoCompiler(why) if why.contains("sm_20")), "{error}");
}

#[test]
fn the_nearest_architecture() {
    let known = [75, 80, 90, 100, 120];
    let of = |capability| Architecture::of(capability, &known).map(|architecture| architecture.name);
    let expected = [
        (70, None),
        (75, Some("sm_75")),
        (80, Some("sm_80")),
        (89, Some("compute_80")),
        (90, Some("sm_90a")),
        (100, Some("sm_100a")),
        (103, Some("compute_100")),
        (130, Some("compute_120")),
    ];
    for (capability, name) in expected {
        assert_eq!(of(capability).as_deref(), name, "{capability}");
    }
    assert_eq!(Architecture::of(90, &[]), None);
}

#[test]
fn options_and_headers_reach_the_compiler() {
    let Some(nvrtc) = nvrtc() else { return };
    let ptx = |source: &Source| {
        let ptx = nvrtc.compile(source, &nvrtc.architecture(99).unwrap()).unwrap();
        String::from_utf8(ptx).unwrap()
    };
    let biased = Source { options: vec!["-DBIAS=3".into()], ..TWICE };
    let (one, three) = ("0f3F800000", "0f40400000"); // 1 and 3 in PTX
    let (plain, biased) = (ptx(&TWICE), ptx(&biased));
    assert!(plain.contains(one) && !plain.contains(three), "{plain}");
    assert!(biased.contains(three) && !biased.contains(one), "{biased}");
}

#[test]
fn failures_carry_the_log() {
    let Some(nvrtc) = nvrtc() else { return };
    let architecture = nvrtc.architecture(90).unwrap();
    let compile = |source: Source| log_of(nvrtc.compile(&source, &architecture));
    let log = compile(Source { text: Cow::Borrowed("int f() {\n  return undeclared;\n}"), ..TWICE });
    assert!(log.contains("twice.cu(2)") && log.contains("\"undeclared\""), "{log}");
    let log = compile(Source { headers: Cow::Borrowed(&[]), ..TWICE });
    assert!(log.contains("bias.h"), "{log}");
    let log = compile(Source { options: vec!["--no-such-option".into()], ..TWICE });
    assert!(log.contains("--no-such-option"), "{log}");
    let log = compile(Source { text: Cow::Borrowed("int f();\0"), ..TWICE });
    assert!(log.contains("zero byte stands at 8"), "{log}");
    // An earlier failure does not affect later sources.
    assert!(nvrtc.compile(&TWICE, &architecture).is_ok());
}

#[test]
fn threads_compile_at_once() {
    let Some(nvrtc) = nvrtc() else { return };
    let architecture = nvrtc.architecture(90).unwrap();
    let alone = nvrtc.compile(&TWICE, &architecture).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| nvrtc.compile(&TWICE, &architecture).unwrap())).collect();
        threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() == alone));
    });
}

/// The loaded cuDNN leads to NVRTC. This process has no search path for NVRTC's second library.
#[test]
fn found_beside_the_loaded_cudnn() {
    let test = "jit::tests::nvrtc::found_beside_the_loaded_cudnn";
    let Some(folder) = real_cudnn() else { return };
    if !is_child() {
        child(test, &[("UCUDNN_TEST_REAL_CUDNN", folder.to_str().unwrap())]);
        return;
    }
    let Err(Error::NoCompiler(why)) = Nvrtc::find(places::all("libnvrtc"), 0).map_err(Error::NoCompiler) else {
        panic!("a driver of CUDA 0 runs nothing");
    };
    assert!(why.contains("libnvrtc.so.13") && why.contains("at most"), "{why}");
    // SAFETY: runs the constructors of the real cuDNN.
    let cudnn = unsafe { libloading::os::unix::Library::new(folder.join("libcudnn.so.9")) }.unwrap();
    let places = places::all("libnvrtc").filter(|candidate| candidate.place.origin == BESIDE);
    let nvrtc = Nvrtc::find(places, u32::MAX).unwrap();
    let packages = folder.parent().and_then(Path::parent).unwrap().canonicalize().unwrap();
    assert!(nvrtc.path.canonicalize().unwrap().starts_with(packages), "{}", nvrtc.path.display());
    assert!(nvrtc.compile(&TWICE, &nvrtc.architecture(90).unwrap()).is_ok());
    drop(cudnn);
}

#[test]
fn faults_on_purpose() {
    let test = "jit::tests::nvrtc::faults_on_purpose";
    if is_child() {
        match (std::env::var("UCUDNN_FAULT").unwrap().as_str(), image(&TWICE, 90, 0)) {
            ("compiler", Err(Error::NoCompiler(why))) => assert!(why.contains("UCUDNN_FAULT")),
            ("compilation", Err(Error::Compilation { log, .. })) => assert!(log.contains("UCUDNN_FAULT")),
            (fault, other) => panic!("{fault}: {other:?}"),
        }
        return;
    }
    child(test, &[("UCUDNN_FAULT", "compiler")]);
    if real_cudnn().is_some() {
        let search = std::env::var("LD_LIBRARY_PATH").expect("the loader's search path leads to NVRTC");
        child(test, &[("UCUDNN_FAULT", "compilation"), ("LD_LIBRARY_PATH", &search)]);
    }
}

#[test]
fn nothing_is_loaded_where_there_is_no_gpu() {
    if cuda::driver_version() != 0 {
        return skip("there is a CUDA driver");
    }
    assert_eq!(Device::Cuda.load(&TWICE).err(), Some(Error::NoDriver("there is no CUDA driver".into())));
}
