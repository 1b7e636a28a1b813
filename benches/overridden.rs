//! The cost of an overridden convolution call with a plan at hand, over the convolutions that it runs. Limit: 1 µs,
//! however many micro-batches the plan has.
//!
//! The real library is `benches/c/instant_cudnn.c`, where nothing takes time. Calls through `libucudnn.so` and the
//! plan's own calls, straight into the real library, take turns; criterion sees their difference. The difference
//! includes reading the descriptors back through the real library, whose time is also shown alone.

mod turns;

use std::ffi::{c_int, c_ulong, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

use criterion::{Criterion, criterion_group, criterion_main};
use cudnn_abi::*;
use libloading::os::unix::{Library, RTLD_NOW};
use turns::over;

const BATCH: usize = 32;
/// As in `instant_cudnn.c`.
const WORKSPACE_PER_IMAGE: usize = 1 << 20;
/// `CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT` of the pre-v8 query.
const WITHIN_LIMIT: c_int = 2;
const LIMIT: &str = "limit: 1 µs";

type Forward = unsafe extern "C" fn(
    cudnnHandle_t,
    *const c_void,
    cudnnTensorDescriptor_t,
    *const c_void,
    cudnnFilterDescriptor_t,
    *const c_void,
    cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgo_t,
    *mut c_void,
    usize,
    *const c_void,
    cudnnTensorDescriptor_t,
    *mut c_void,
) -> cudnnStatus_t;
/// `cudnnGetConvolutionForwardAlgorithm`, the pre-v8 query with a limit.
type Query = unsafe extern "C" fn(
    cudnnHandle_t,
    cudnnTensorDescriptor_t,
    cudnnFilterDescriptor_t,
    cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t,
    c_int,
    usize,
    *mut cudnnConvolutionFwdAlgo_t,
) -> cudnnStatus_t;

fn instant_cudnn() -> PathBuf {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instant-libcudnn.so.9");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-O2", "-shared", "-fPIC", "-I"]).arg(benches.join("../hostdnn/include"));
    compiler.arg(benches.join("c/instant_cudnn.c")).arg("-o").arg(&library);
    assert!(compiler.status().unwrap().success());
    library
}

/// # Safety
/// The caller promises that it is sound to run the file's constructors.
unsafe fn open(file: &Path) -> Library {
    // SAFETY: the caller promises that the constructors are sound to run (see `# Safety`).
    unsafe { Library::open(Some(file), RTLD_NOW) }.unwrap()
}

/// The layout of `struct instant_descriptors` in `instant_cudnn.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptors {
    x: cudnnTensorDescriptor_t,
    y: cudnnTensorDescriptor_t,
    w: cudnnFilterDescriptor_t,
    convolution: cudnnConvolutionDescriptor_t,
}

/// A call of `cudnnConvolutionForward`. Nothing reads or writes the data.
struct Call {
    descriptors: Descriptors,
    algorithm: c_int,
    workspace: usize,
}

impl Call {
    #[inline]
    fn run(&self, forward: Forward, handle: cudnnHandle_t) {
        let Descriptors { x, w, convolution, y, .. } = self.descriptors;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
        let data = 256 as *mut c_void;
        let Self { algorithm, workspace, .. } = *self;
        // SAFETY: the real library made the descriptors and the handle, and it does not touch the data.
        let status =
            unsafe { forward(handle, alpha, x, data, w, data, convolution, algorithm, data, workspace, beta, y, data) };
        assert_eq!(status, CUDNN_STATUS_SUCCESS);
    }
}

fn overridden(criterion: &mut Criterion) {
    let file = instant_cudnn();
    // SAFETY: no other thread runs yet, so none reads the environment.
    unsafe {
        std::env::set_var("UCUDNN_CUDNN_LIBRARY", &file);
        std::env::set_var("UCUDNN_EXPLORE", "unbounded"); // settled plans are measured
    }
    let shim_file = std::env::current_exe().unwrap().with_file_name("libucudnn.so");
    // SAFETY: both files are libraries of this project, whose constructors need nothing of their loader.
    let (real, shim) = unsafe { (open(&file), open(&shim_file)) };
    // SAFETY: the types are cuDNN's and those of instant_cudnn.c.
    let (create, describe, read, query, overridden, direct, waits, convolutions) = unsafe {
        (
            *real.get::<unsafe extern "C" fn(*mut cudnnHandle_t) -> cudnnStatus_t>(b"cudnnCreate\0").unwrap(),
            *real.get::<unsafe extern "C" fn(c_int, c_int) -> *const Descriptors>(b"instant_describe\0").unwrap(),
            *real.get::<unsafe extern "C" fn(*const Descriptors) -> c_int>(b"instant_read\0").unwrap(),
            *shim.get::<Query>(b"cudnnGetConvolutionForwardAlgorithm\0").unwrap(),
            *shim.get::<Forward>(b"cudnnConvolutionForward\0").unwrap(),
            *real.get::<Forward>(b"cudnnConvolutionForward\0").unwrap(),
            *real.get::<*mut c_int>(b"instant_waits\0").unwrap(),
            *real.get::<*const c_ulong>(b"instant_convolutions\0").unwrap(),
        )
    };
    let mut handle = null_mut();
    // SAFETY: `handle` is a valid place for the result.
    assert_eq!(unsafe { create(&mut handle) }, CUDNN_STATUS_SUCCESS);

    // All problems are planned before one runs, as in a program that is being set up. SAFETY: `waits` lives in the
    // loaded library; this thread runs alone.
    unsafe { *waits = 1 };
    let plans: Vec<_> = [1, 2, 8, 32]
        .into_iter()
        .map(|parts| {
            // The channels make each convolution problem a different one.
            let channels = parts as c_int;
            // SAFETY: the function makes descriptors, or returns null; nobody destroys them.
            let describe = |batch: usize| unsafe { describe(batch as c_int, channels).as_ref() }.copied().unwrap();
            let (descriptors, workspace) = (describe(BATCH), BATCH / parts * WORKSPACE_PER_IMAGE);
            let Descriptors { x, y, w, convolution } = descriptors;
            let mut algorithm = -1;
            // SAFETY: the real library made the descriptors and the handle, and `algorithm` is a valid place for the
            // answer.
            let status = unsafe { query(handle, x, w, convolution, y, WITHIN_LIMIT, workspace, &mut algorithm) };
            assert_eq!(status, CUDNN_STATUS_SUCCESS);
            let whole = Call { descriptors, algorithm, workspace };
            (parts, whole, Call { descriptors: describe(BATCH / parts), algorithm: 1, workspace })
        })
        .collect();
    // SAFETY: `waits` lives in the loaded library; this thread runs alone.
    unsafe { *waits = 0 };

    let mut group = criterion.benchmark_group(format!("overridden convolution call over its own calls ({LIMIT})"));
    for (parts, whole, micro) in &plans {
        // SAFETY: the counter lives in the loaded library; this thread runs alone.
        let count = || unsafe { convolutions.read_volatile() };
        let before = count();
        whole.run(overridden, handle);
        assert_eq!(count() - before, *parts as c_ulong, "the plan is not what it should be");
        let name = if *parts == 1 { "undivided".to_owned() } else { format!("{parts} micro-batches") };
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|calls| {
                let direct = || (0..*parts).for_each(|_| micro.run(direct, handle));
                over(calls, || whole.run(overridden, handle), direct)
            })
        });
    }
    let descriptors = &plans[0].1.descriptors;
    group.bench_function("of which reading the descriptors back", |bencher| {
        // SAFETY: the real library made the descriptors.
        bencher.iter(|| unsafe { read(descriptors) })
    });
    group.finish();
}

criterion_group!(benches, overridden);
criterion_main!(benches);
