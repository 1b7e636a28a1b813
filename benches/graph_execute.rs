//! The host's cost of executing a graph API plan with a settled configuration, over the executions that the plan makes.
//! Limit: 1 µs and 0.4 µs a micro-batch.
//!
//! The real library is `benches/c/instant_*.c`, where nothing takes time. Executions through `libucudnn.so` and the
//! micro-plans' own executions, straight into the real library, take turns; criterion sees the difference. Three ways:
//! the same variant pack each time; a new pack of the same memory, which both sides make; and packs of changing memory.

#[path = "graph/api.rs"]
mod api;
mod turns;

use std::ffi::{c_int, c_ulong, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use cudnn_abi::*;

use api::{Api, Backend};
use turns::over;

const BATCH: i64 = 32;
/// As in `instant_graph.c`.
const WORKSPACE_PER_IMAGE: usize = 1 << 20;
/// The tensors' alignment, in bytes: too small for channels-last copies, whose memory would not exist.
const ALIGNMENT: i64 = 4;
/// How many addresses the changing workspace has in turn: more than the variant packs that a plan keeps.
const PLACES: usize = 8;

fn instant_cudnn() -> PathBuf {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instant-graph-libcudnn.so.9");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-O2", "-shared", "-fPIC", "-I"]).arg(benches.join("../hostdnn/include"));
    compiler.args(["instant_cudnn.c", "instant_graph.c"].map(|name| benches.join("c").join(name)));
    assert!(compiler.arg("-o").arg(&library).status().unwrap().success());
    library
}

/// A plan of a convolution with `channels` channels, by the heuristics' first engine.
fn first_plan(api: &Api, handle: cudnnHandle_t, batch: i64, channels: i64) -> Backend {
    let graph = api.convolution(&[batch, channels, 8, 8], CUDNN_DATA_FLOAT, ALIGNMENT, Some(handle));
    let offered = api.offers(graph, None);
    api.plan(offered[0], Some(handle), None)
}

fn executing(criterion: &mut Criterion) {
    let file = instant_cudnn();
    // SAFETY: no other thread runs yet, so none reads the environment.
    unsafe {
        std::env::set_var("UCUDNN_CUDNN_LIBRARY", &file);
        std::env::set_var("UCUDNN_EXPLORE", "unbounded"); // settled plans are measured
    }
    let (real, shim) = (Api::open(&file), Api::open(&api::shim()));
    // SAFETY: the types are those of instant_cudnn.c, instant_graph.c and ucudnn.h.
    let (waits, executions, set_limit) = unsafe {
        (
            *real.library.get::<*mut c_int>(b"instant_waits\0").unwrap(),
            *real.library.get::<*const c_ulong>(b"instant_executions\0").unwrap(),
            *shim
                .library
                .get::<unsafe extern "C" fn(cudnnHandle_t, usize) -> cudnnStatus_t>(b"ucudnnSetWorkspaceLimit\0")
                .unwrap(),
        )
    };
    // SAFETY: the variable is in the loaded library, which is never closed.
    let count = || unsafe { executions.read_volatile() };
    let handle = real.handle();

    let mut group = criterion.benchmark_group("over its micro-plans (1 µs + 0.4 µs each)");
    for parts in [1, 2, 8, 32] {
        // SAFETY: `handle` is live, `waits` is in the loaded library, and only this and the enumerating thread run.
        unsafe {
            assert_eq!(set_limit(handle, BATCH as usize / parts * WORKSPACE_PER_IMAGE), CUDNN_STATUS_SUCCESS);
            *waits = 1;
        }
        // The channels make each convolution problem a different one.
        let plan = first_plan(&shim, handle, BATCH, parts as i64);
        let pack = shim.pack(256 as *mut c_void);
        let deadline = Instant::now() + Duration::from_secs(600);
        // Tuning has ended when each of 300 executions in a row makes `parts` executions.
        let mut alike = 0;
        while alike < 300 {
            let before = count();
            shim.execute(handle, plan, pack);
            alike = if count() - before == parts as c_ulong { alike + 1 } else { 0 };
            assert!(Instant::now() < deadline, "{parts} parts are not what it settles on");
        }
        // SAFETY: `waits` is in the loaded library, and only this and the enumerating thread run.
        unsafe { *waits = 0 };

        let micro = first_plan(&real, handle, BATCH / parts as i64, parts as i64);
        let micro_pack = real.pack(256 as *mut c_void);
        let direct = || (0..parts).for_each(|_| real.execute(handle, micro, micro_pack));
        let name = if parts == 1 { "undivided".to_owned() } else { format!("{parts} parts") };
        group.bench_function(&name, |bencher| {
            bencher.iter_custom(|calls| over(calls, || shim.execute(handle, plan, pack), direct))
        });
        group.bench_function(format!("{name}, a new pack each time"), |bencher| {
            let fresh = |api: &Api, plan, times: usize| {
                let pack = api.pack(256 as *mut c_void);
                (0..times).for_each(|_| api.execute(handle, plan, pack));
                api.destroy(pack);
            };
            bencher.iter_custom(|calls| over(calls, || fresh(&shim, plan, 1), || fresh(&real, micro, parts)))
        });
        group.bench_function(format!("{name}, changing memory"), |bencher| {
            let packs: Vec<_> = (1..=PLACES).map(|place| shim.pack((256 * place) as *mut c_void)).collect();
            let mut place = 0;
            let changing = || {
                place = (place + 1) % PLACES;
                shim.execute(handle, plan, packs[place]);
            };
            bencher.iter_custom({
                let mut changing = changing;
                move |calls| over(calls, &mut changing, direct)
            })
        });
    }
    group.finish();
}

criterion_group!(benches, executing);
criterion_main!(benches);
