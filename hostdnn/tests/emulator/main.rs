//! GPU kernels on the CPU: sources that compile and sources that do not, runs, and the emulator's findings.

mod alone;
#[allow(dead_code)] // the other tests use the rest
#[path = "../built.rs"]
mod built;
mod clusters;
mod copies;
mod exported;
mod words;

use std::ffi::c_void;

use hostdnn::Error;
use hostdnn::emulator::{Launch, Module, Source};

/// The headers that sources include.
const HEADERS: &[(&str, &str)] = &[("common/device.cuh", include_str!("../../../kernels/common/device.cuh"))];

/// Compiles a text that must compile. `None`, and a skipped test, if there is no C++ compiler.
fn load(text: &str, options: &[&str]) -> Option<Module> {
    load_source(&Source { name: "test.cu", text, headers: HEADERS, options })
}

fn load_source(source: &Source) -> Option<Module> {
    match Module::load(source) {
        Ok(module) => Some(module),
        Err(error) if error.status == cudnn_abi::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING => {
            built::skip(&error.reason);
            None
        }
        Err(error) => panic!("{}", error.reason),
    }
}

/// Launches `kernel` with blocks in one dimension.
fn launch<T>(module: &Module, [blocks, threads]: [u32; 2], seed: Option<u64>, parameters: &T) -> Result<(), Error> {
    launch_clusters(module, [[blocks, 1, 1], [1; 3]], threads, seed, parameters)
}

/// The same with a grid and clusters of up to three dimensions.
fn launch_clusters<T>(
    module: &Module,
    [grid, cluster]: [[u32; 3]; 2],
    threads: u32,
    seed: Option<u64>,
    parameters: &T,
) -> Result<(), Error> {
    let launch = Launch { grid, block: [threads, 1, 1], cluster, shared_bytes: 1024, seed };
    let parameters: *const T = parameters;
    // SAFETY: each test passes the parameters that its kernel takes.
    unsafe { module.kernel(c"kernel")?.launch(&launch, parameters.cast::<c_void>()) }
}

/// A pointer and a number, the parameters of most kernels here.
#[repr(C)]
struct Parameters<T> {
    data: *mut T,
    count: i32,
}

/// Reverses an array within each block, in shared memory; without the barrier in the middle this is a race.
const TURN: &str = r#"
#define THREADS 64
#include "common/device.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    SHARED(int, all);
    int *const data = parameters.data + blockIdx.x * THREADS;
    for (int i = 0; i < parameters.count; i++) {
        all[threadIdx.x] = data[threadIdx.x];
        barrier();
        const int other = all[THREADS - 1 - threadIdx.x];
#ifndef RACE
        barrier();
#endif
        data[threadIdx.x] = other + 1;
    }
}
"#;

fn turns(module: &Module, seed: Option<u64>) -> bool {
    let mut data: Vec<i32> = (0..192).map(|i| i * 3).collect();
    let expected: Vec<i32> = (0..192).map(|i| (i / 64 * 64 + 63 - i % 64) * 3 + 5).collect();
    launch(module, [3, 64], seed, &Parameters { data: data.as_mut_ptr(), count: 5 }).expect("runs");
    data == expected
}

#[test]
fn a_barrier_that_is_missing_is_found() {
    let (Some(right), Some(race)) = (load(TURN, &[]), load(TURN, &["-DRACE"])) else { return };
    assert!(turns(&right, None), "in order");
    assert!((0..200).all(|seed| turns(&right, Some(seed))), "what has its barriers is right under every seed");
    let found = (0..200).find(|&seed| !turns(&race, Some(seed)));
    println!("the race shows under seed {found:?}");
    assert!(found.is_some(), "what lacks one is wrong under some seed");
}

/// A chain of blocks: each waits for the block before it.
const CHAIN: &str = r#"
#define THREADS 32
#include "common/device.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    Spin spin;
    while (blockIdx.x > 0 && parameters.data[blockIdx.x - 1] == 0) spin.again();
    barrier();
    if (threadIdx.x == 0 && (int)blockIdx.x != parameters.count) parameters.data[blockIdx.x] = 1;
}
"#;

#[test]
fn what_nobody_publishes_is_a_deadlock_and_no_hang() {
    let Some(module) = load(CHAIN, &[]) else { return };
    for seed in [None, Some(1), Some(2)] {
        let mut flags = [0; 40];
        let mut parameters = Parameters { data: flags.as_mut_ptr(), count: -1 };
        launch(&module, [40, 32], seed, &parameters).expect("a chain that holds");
        assert_eq!(flags, [1; 40]);
        flags = [0; 40];
        (parameters.data, parameters.count) = (flags.as_mut_ptr(), 37);
        let error = launch(&module, [40, 32], seed, &parameters).expect_err("block 37 does not publish");
        assert_eq!(error.status, cudnn_abi::CUDNN_STATUS_EXECUTION_FAILED);
        let places = ["deadlock", "block (38, 0, 0): 32 threads from thread 0 on wait in a Spin, test.cu:7"];
        assert!(places.iter().all(|place| error.reason.contains(place)), "{}", error.reason);
        assert!(!error.reason.contains("block (37"), "{}", error.reason);
        assert_eq!(seed.is_some(), error.reason.contains("seed is"), "{}", error.reason);
    }
}

#[test]
fn blocks_begin_when_there_is_room() {
    let Some(module) = load(CHAIN, &[]) else { return };
    let mut flags = vec![0; 1200];
    launch(&module, [1200, 32], None, &Parameters { data: flags.as_mut_ptr(), count: -1 }).expect("in order");
    assert!(flags.iter().all(|&flag| flag == 1));
}

#[test]
fn some_threads_at_another_barrier_are_a_deadlock() {
    let text = r#"
#define THREADS 64
#include "common/device.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    if (WARP == 0 && LANE < 31) warp_barrier();
    else barrier();
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let parameters = Parameters::<i32> { data: std::ptr::null_mut(), count: 0 };
    let reason = launch(&module, [1, 64], None, &parameters).expect_err("lane 31 is not there").reason;
    for place in ["31 threads from thread 0 on wait in warp_barrier, test.cu:6", "33 threads from thread 31 on wait in"]
    {
        assert!(reason.contains(place), "{reason}");
    }
}

/// A barrier with a count of threads still waits for threads that have ended.
#[test]
fn kinds_of_warps_wait_for_all_threads() {
    let text = r#"
#define THREADS 32
#define KINDS_OF_WARPS
#define BLOCK_THREADS 64
#include "common/device.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    if (WARP > 0) {
        if (parameters.count) barrier();
        return;
    }
    barrier();
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let mut parameters = Parameters::<i32> { data: std::ptr::null_mut(), count: 1 };
    launch(&module, [1, 64], None, &parameters).expect("all come, each kind by its own way");
    parameters.count = 0;
    let reason = launch(&module, [1, 64], None, &parameters).expect_err("32 threads have ended").reason;
    let stuck = "32 threads from thread 0 on wait in barrier, test.cu:12";
    assert!(reason.contains(stuck), "{reason}");
    let reason = launch(&module, [1, 32], None, &parameters).expect_err("32 threads have not begun").reason;
    assert!(reason.contains(stuck), "{reason}");
}

#[test]
fn what_a_kernel_finds_ends_the_launch() {
    let text = r#"
#define THREADS 64
#include "common/device.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    SHARED(int, all);
    if (parameters.count == 0 && threadIdx.x == 40) fail("something is wrong");
    if (parameters.count == 1) all[threadIdx.x + 200] = 1;
    if (parameters.count == 2) LANE % 2 ? warp_sum(1) : warp_max(1);
    if (parameters.count == 3) warp_broadcast(1, LANE);
    if (parameters.count == 4) warp_sum(1, 24);
    if (parameters.count == 5) for (;;) { Spin spin; spin.again(); }
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let expected = [
        "thread 40: something is wrong",
        "written beyond its dynamic shared memory",
        "where other lanes of its warp call something else",
        "lanes ask for different lanes",
        "a group has 1, 2, 4, 8, 16 or 32 lanes",
        "wait in a Spin",
    ];
    for (count, expected) in (0..).zip(expected) {
        let parameters = Parameters::<i32> { data: std::ptr::null_mut(), count };
        let reason = launch(&module, [2, 64], None, &parameters).expect_err(expected).reason;
        assert!(reason.contains(expected), "{reason}");
    }
    let parameters = Parameters::<i32> { data: std::ptr::null_mut(), count: -1 };
    launch(&module, [2, 64], None, &parameters).expect("nothing is wrong");
    for [blocks, threads] in [[1, 96], [0, 64], [1, 0]] {
        launch(&module, [blocks, threads], None, &parameters).expect_err("no such launch");
    }
}

#[test]
fn a_text_that_does_not_compile_is_told_with_the_compilers_words() {
    if load(TURN, &[]).is_none() {
        return;
    }
    let load = |name, text, headers: &[(&str, &str)]| {
        Module::load(&Source { name, text, headers, options: &[] }).err().unwrap()
    };
    let error = load("wrong.cu", "#include \"common/device.cuh\"\nint x = nothing_of_that_name;", HEADERS);
    assert_eq!(error.status, cudnn_abi::CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED);
    let said = ["wrong.cu:2", "nothing_of_that_name"].iter().all(|word| error.reason.contains(word));
    assert!(said, "{}", error.reason);
    for name in ["../outside.cuh", "/tmp/outside.cuh", "", "-option"] {
        let headers = [(name, "")];
        let error = load("right.cu", "", &headers);
        assert_eq!(error.status, cudnn_abi::CUDNN_STATUS_BAD_PARAM, "{}", error.reason);
    }
}
