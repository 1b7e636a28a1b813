//! What an overridden convolution call with a ready plan costs over the convolutions that it runs.
//! Limit: 1 µs, however many micro-batches the plan has.
//!
//! The real library is `benches/c/instant_cudnn.c`, where nothing takes time. Calls through
//! `libucudnn.so` and the plan's own calls straight into the real library take turns, and their
//! difference is what criterion sees. It includes reading the descriptors back, which the real library
//! does: what that takes is shown too.

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instant-libcudnn.so.9");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-O2", "-shared", "-fPIC", "-I"]).arg(root.join("hostdnn/include"));
    compiler.arg(root.join("benches/c/instant_cudnn.c")).arg("-o").arg(&library);
    assert!(compiler.status().unwrap().success());
    library
}

/// # Safety
/// The file's constructors are run.
unsafe fn open(file: &Path) -> Library {
    // SAFETY: as the caller says.
    unsafe { Library::open(Some(file), RTLD_NOW) }.unwrap()
}

/// As in `instant_cudnn.c`, which makes them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptors {
    x: cudnnTensorDescriptor_t,
    y: cudnnTensorDescriptor_t,
    w: cudnnFilterDescriptor_t,
    convolution: cudnnConvolutionDescriptor_t,
}

/// A call of `cudnnConvolutionForward`. Nothing computes: the data is never looked at.
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
        // SAFETY: descriptors of the library, and data that it does not touch.
        let status =
            unsafe { forward(handle, alpha, x, data, w, data, convolution, algorithm, data, workspace, beta, y, data) };
        assert_eq!(status, CUDNN_STATUS_SUCCESS);
    }
}

fn overridden(criterion: &mut Criterion) {
    let file = instant_cudnn();
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("UCUDNN_CUDNN_LIBRARY", &file) };
    let shim_file = std::env::current_exe().unwrap().with_file_name("libucudnn.so");
    // SAFETY: both are ours, and neither has constructors that matter.
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
    // SAFETY: a place for the handle.
    assert_eq!(unsafe { create(&mut handle) }, CUDNN_STATUS_SUCCESS);

    // All kernels are planned before one runs, as a program does that is being set up.
    // SAFETY: the library's own variable; one thread.
    unsafe { *waits = 1 };
    let plans: Vec<_> = [1, 2, 8, 32]
        .into_iter()
        .map(|parts| {
            // A kernel of its own, told from the others by its channels.
            let channels = parts as c_int;
            // SAFETY: makes descriptors, which are never destroyed.
            let describe = |batch: usize| unsafe { describe(batch as c_int, channels).as_ref() }.copied().unwrap();
            let (descriptors, workspace) = (describe(BATCH), BATCH / parts * WORKSPACE_PER_IMAGE);
            let Descriptors { x, y, w, convolution } = descriptors;
            let mut algorithm = -1;
            // SAFETY: descriptors of the library, and a place for the answer.
            let status = unsafe { query(handle, x, w, convolution, y, WITHIN_LIMIT, workspace, &mut algorithm) };
            assert_eq!(status, CUDNN_STATUS_SUCCESS);
            let whole = Call { descriptors, algorithm, workspace };
            (parts, whole, Call { descriptors: describe(BATCH / parts), algorithm: 1, workspace })
        })
        .collect();
    // SAFETY: as above.
    unsafe { *waits = 0 };

    let mut group = criterion.benchmark_group(format!("overridden convolution call over its own calls ({LIMIT})"));
    for (parts, whole, micro) in &plans {
        // SAFETY: the library's own variable; one thread.
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
        // SAFETY: descriptors of the library.
        bencher.iter(|| unsafe { read(descriptors) })
    });
    group.finish();
}

criterion_group!(benches, overridden);
criterion_main!(benches);
