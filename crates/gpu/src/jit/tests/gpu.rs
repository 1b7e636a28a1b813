//! Loading and launching, on a GPU.

use std::borrow::Cow;

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUresult};

use super::super::{Error, Function, Launch, Source};
use super::{TWICE, skip};
use crate::testing::on_gpu::{Gpu, first};
use crate::{Buffer, Device, Stream};

const COUNT: usize = 1000;

/// Sums over the grid, with a barrier between the blocks; and the rank of each block in its cluster.
const TOGETHER: Source = Source {
    name: Cow::Borrowed("together.cu"),
    text: Cow::Borrowed(
        r#"
        extern "C" __global__ void grid_sum(unsigned *sums) {
            extern __shared__ unsigned large[];
            if (threadIdx.x == 0) {
                large[SHARED / 4 - 1] = blockIdx.x;
                atomicAdd(&sums[0], large[SHARED / 4 - 1]);
                __threadfence();
                atomicAdd(&sums[1], 1);
                while (atomicAdd(&sums[1], 0) < gridDim.x) {}
                if (blockIdx.x == gridDim.x - 1) sums[2] = atomicAdd(&sums[0], 0);
            }
        }
        extern "C" __global__ void cluster_rank(unsigned *sums) {
            unsigned rank, blocks;
            asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
            asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
            if (threadIdx.x == 0) sums[blockIdx.x] = 100 * blocks + rank;
        }"#,
    ),
    headers: Cow::Borrowed(&[]),
    options: Vec::new(),
};

/// The first kernel runs until the second has begun, or until its patience ends. The second kernel notes whether the
/// first has ended, before and after its wait.
const EARLY: Source = Source {
    name: Cow::Borrowed("early.cu"),
    text: Cow::Borrowed(
        r#"
        #define THREADS 32
        #include "common/device.cuh"
        struct Seen { volatile unsigned *at; int patience; };
        KERNEL(slow, Seen) {
            begin_next_launch();
            for (int i = 0; i < parameters.patience && parameters.at[1] == 0; i++) {
                const Moment moment;
                moment.wait(1000);
            }
            parameters.at[0] = 1;
        }
        KERNEL(early, Seen) {
            parameters.at[1] = 1 + parameters.at[0];
            wait_for_last_launch();
            parameters.at[2] = 1 + parameters.at[0];
        }"#,
    ),
    headers: Cow::Borrowed(&[(
        Cow::Borrowed("common/device.cuh"),
        Cow::Borrowed(include_str!("../../../../../kernels/common/device.cuh")),
    )]),
    options: Vec::new(),
};

impl Gpu {
    fn stream(&self) -> Stream {
        self.stream.raw()
    }

    fn buffer<const N: usize>(&self, values: impl IntoIterator<Item = [u8; N]>) -> Buffer {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        let buffer = Device::Cuda.allocate(bytes.len()).unwrap();
        // SAFETY: the buffer has as many bytes as the slice.
        assert!(unsafe { Device::Cuda.write(buffer.data(), &bytes, self.stream()) });
        buffer
    }

    fn read(&self, buffer: &Buffer) -> Vec<[u8; 4]> {
        let mut bytes = vec![0; buffer.bytes()];
        // SAFETY: the vector has as many bytes as the buffer.
        assert!(unsafe { Device::Cuda.read(&mut bytes, buffer.data(), self.stream()) });
        bytes.as_chunks().0.to_vec()
    }
}

fn launch_twice(twice: &Function, buffer: &Buffer, stream: Stream) {
    let launch = Launch { grid: [(COUNT as u32).div_ceil(256), 1, 1], block: [256, 1, 1], ..Launch::default() };
    let (mut x, mut n) = (buffer.data(), COUNT as i32);
    let mut arguments: [*mut c_void; 2] = [(&raw mut x).cast(), (&raw mut n).cast()];
    // SAFETY: the arguments match the kernel's parameters, and the buffer holds `COUNT` floats.
    unsafe { twice.launch(stream, &launch, &mut arguments) }.unwrap();
}

#[test]
fn launches_and_captures() {
    let Some(gpu) = first() else { return };
    let module = Device::Cuda.load(&TWICE).unwrap();
    let twice = module.function(c"twice_all").unwrap();
    let missing = module.function(c"thrice_all").err();
    assert_eq!(missing, Some(Error::Driver { call: "cuLibraryGetKernel", result: CUresult::CUDA_ERROR_NOT_FOUND }));
    drop(module); // the function keeps it loaded
    let buffer = gpu.buffer((0..COUNT).map(|i| (i as f32).to_ne_bytes()));
    launch_twice(&twice, &buffer, gpu.stream());

    let stream: sys::CUstream = gpu.stream().cast();
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is our own, and live.
    assert_eq!(unsafe { sys::cuStreamBeginCapture_v2(stream, mode) }, CUresult::CUDA_SUCCESS);
    launch_twice(&twice, &buffer, gpu.stream());
    // SAFETY: the stream is our own, and captures; writes one graph.
    assert_eq!(unsafe { sys::cuStreamEndCapture(stream, &mut graph) }, CUresult::CUDA_SUCCESS);
    drop(twice); // the graph keeps the code loaded
    // SAFETY: the graph is live; writes one executable graph, which is launched twice.
    unsafe {
        assert_eq!(sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuGraphLaunch(executable, stream), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuGraphLaunch(executable, stream), CUresult::CUDA_SUCCESS);
    }
    for (i, bytes) in gpu.read(&buffer).into_iter().enumerate() {
        assert_eq!(f32::from_ne_bytes(bytes), 8.0 * i as f32 + 7.0, "{i}");
    }
}

#[test]
fn all_blocks_at_once() {
    let Some(gpu) = first() else { return };
    const SHARED: u32 = 96 << 10;
    let source = Source { options: vec![format!("-DSHARED={SHARED}")], ..TOGETHER };
    let sum = Device::Cuda.load(&source).unwrap().function(c"grid_sum").unwrap();
    let resources = sum.resources().unwrap();
    assert_eq!((resources.local_bytes, resources.shared_bytes), (0, 0));
    assert!((1..=255).contains(&resources.registers) && resources.threads == 1024, "{resources:?}");
    let launch_of = |blocks| Launch {
        grid: [blocks, 1, 1],
        block: [64, 1, 1],
        shared_bytes: SHARED,
        cooperative: true,
        ..Launch::default()
    };
    let sums = gpu.buffer([[0; 4]; 3]);
    let mut data = sums.data();
    let mut arguments = [(&raw mut data).cast()];
    // SAFETY: the argument matches the kernel's parameter, and the buffer holds three numbers.
    let mut launch = |blocks| unsafe { sum.launch(gpu.stream(), &launch_of(blocks), &mut arguments) };
    assert!(launch(1).is_err(), "more shared memory than is allowed");
    sum.allow_shared(SHARED).unwrap();
    assert!(sum.allow_shared(1 << 30).is_err());
    sum.allow_shared(1).unwrap();
    let resident = sum.resident_blocks(64, SHARED).unwrap();
    assert!((1..=2).contains(&resident), "{resident}");
    let multiprocessors = Device::Cuda.identity(0).unwrap().multiprocessors as u32;
    let blocks = resident * multiprocessors;
    let too_many = launch(blocks + 1).unwrap_err();
    assert!(too_many.to_string().contains("COOPERATIVE_LAUNCH_TOO_LARGE"), "{too_many}");
    launch(blocks).unwrap();
    let sums: Vec<_> = gpu.read(&sums).into_iter().map(u32::from_ne_bytes).collect();
    let expected = blocks * (blocks - 1) / 2;
    assert_eq!(sums, [expected, blocks, expected]);
}

#[test]
fn clusters() {
    let Some(gpu) = first() else { return };
    if crate::cuda::compute_capability(0).unwrap() < 90 {
        return skip("the GPU has no clusters");
    }
    let source = Source { options: vec!["-DSHARED=4".into()], ..TOGETHER };
    let rank = Device::Cuda.load(&source).unwrap().function(c"cluster_rank").unwrap();
    for size in [1, 2, 8, 16] {
        if size > 8 {
            rank.allow_large_clusters().unwrap();
        }
        let launch = Launch { grid: [32, 1, 1], block: [32, 1, 1], cluster: [size, 1, 1], ..Launch::default() };
        let resident = rank.resident_clusters(&launch).unwrap();
        assert_eq!(resident > 0, size > 1, "{resident} clusters of {size}");
        let ranks = gpu.buffer([[0xff; 4]; 32]);
        let mut data = ranks.data();
        // SAFETY: the argument matches the kernel's parameter, and the buffer holds a number for each block.
        unsafe { rank.launch(gpu.stream(), &launch, &mut [(&raw mut data).cast()]) }.unwrap();
        let expected: Vec<_> = (0..32).map(|block| 100 * size + block % size).collect();
        assert_eq!(gpu.read(&ranks).into_iter().map(u32::from_ne_bytes).collect::<Vec<_>>(), expected);
    }
}

/// An early launch begins during its predecessor if the device supports that, and its wait works. Other launches wait.
#[test]
fn early_launches_wait() {
    let Some(gpu) = first() else { return };
    let can = crate::cuda::compute_capability(0).unwrap() >= 90;
    let module = Device::Cuda.load(&EARLY).unwrap();
    let [slow, second] = [c"slow", c"early"].map(|name| module.function(name).unwrap());
    // Patience of up to half a second for the early launch; half a millisecond, in which the other must not begin.
    for (early, patience) in [(true, 1_000_000), (false, 1000)] {
        #[repr(C)]
        struct Seen(*mut c_void, i32);
        let numbers = gpu.buffer([[0; 4]; 3]);
        let mut seen = Seen(numbers.data(), patience);
        for (function, early) in [(&slow, false), (&second, early)] {
            let launch = Launch { early, ..Launch::default() };
            // SAFETY: the argument matches the kernel's parameter, and the buffer holds three numbers.
            unsafe { function.launch(gpu.stream(), &launch, &mut [(&raw mut seen).cast()]) }.unwrap();
        }
        let found = gpu.read(&numbers).into_iter().map(u32::from_ne_bytes);
        assert_eq!(found.collect::<Vec<_>>(), [1, if early && can { 1 } else { 2 }, 2], "early: {early}");
    }
}
