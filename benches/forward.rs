//! The cost of a forwarded call over a direct one, and of looking up an address in the table. Limits: forwarded at most
//! 2 ns over direct, in the same run; an address under 1 ns.
//!
//! The real library is `tests/c/fake_cudnn.c`. Its functions do next to nothing, so the benchmark times the calls.

use std::ffi::c_int;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use cudnn::library;
use cudnn_abi::symbols::Symbol;
use libloading::os::unix::Library;

type Version = extern "C" fn() -> usize;
/// Twelve integers, six of them on the stack.
type Integers = extern "C" fn(i64, c_int, i16, i8, u32, i64, i64, c_int, i8, i64, i16, i64) -> i64;

fn fake_cudnn() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/c");
    let fake = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-libcudnn.so.9");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-pthread", "-o"]).arg(&fake);
    assert!(compiler.arg(sources.join("fake_cudnn.c")).status().unwrap().success());
    fake
}

fn forward(criterion: &mut Criterion) {
    let fake = fake_cudnn();
    let shim = std::env::current_exe().unwrap().with_file_name("libucudnn.so");
    // SAFETY: no other thread runs yet, so none reads the environment.
    unsafe { std::env::set_var("UCUDNN_CUDNN_LIBRARY", &fake) };
    // SAFETY: both files are libraries of this project, whose constructors need nothing of their loader.
    let (direct, forwarded) = unsafe { (open(&fake), open(&shim)) };
    let mut group = criterion.benchmark_group("forward (limit: direct + 2 ns)");
    for (name, library) in [("direct", &direct), ("forwarded", &forwarded)] {
        // SAFETY: the types are those of fake_cudnn.h, whose functions take any arguments.
        let (version, integers) = unsafe {
            let version = library.get::<Version>(b"cudnnGetVersion\0").unwrap();
            (version, library.get::<Integers>(b"cudnnActivationForward\0").unwrap())
        };
        assert_eq!(version(), 91_900, "{name} does not reach the fake library");
        group.bench_function(format!("{name}, no arguments"), |bencher| bencher.iter(|| version()));
        group.bench_function(format!("{name}, 12 arguments"), |bencher| {
            let one = black_box(1);
            bencher.iter(|| integers(one, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
        });
    }
    group.finish();
    criterion.bench_function("address of a function (limit: 1 ns)", |bencher| {
        bencher.iter(|| library::address(black_box(Symbol::cudnnConvolutionForward)))
    });
}

/// # Safety
/// The caller promises that it is sound to run the file's constructors.
unsafe fn open(file: &Path) -> Library {
    // SAFETY: the caller promises that the constructors are sound to run (see `# Safety`).
    unsafe { Library::open(Some(file), libloading::os::unix::RTLD_NOW) }.unwrap()
}

criterion_group!(benches, forward);
criterion_main!(benches);
