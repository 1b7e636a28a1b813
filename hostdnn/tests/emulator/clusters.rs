//! Blocks of a cluster that store into each other's memory: the data arrives, and the emulator finds errors.

use hostdnn::emulator::{Module, Source};

use super::{HEADERS, Parameters, launch_clusters as launch, load_source};

fn load(text: &str, options: &[&str]) -> Option<Module> {
    let headers = [
        HEADERS[0],
        ("common/cluster.cuh", include_str!("../../../kernels/common/cluster.cuh")),
        ("common/cluster_exchange.cuh", include_str!("../../../kernels/common/cluster_exchange.cuh")),
    ];
    load_source(&Source { name: "test.cu", text, headers: &headers, options })
}

/// Each warp of a block has a vector. In each round all blocks of a cluster get the vectors of all warps, and each
/// vector becomes their sum, weighted by their places.
const ROUNDS: &str = r#"
#define THREADS 64
#include "common/cluster_exchange.cuh"
struct Parameters { VECTOR *data; int count; };
constexpr int ACROSS = 3, BLOCKS = 6, WARPS = THREADS / 32;
KERNEL(kernel, Parameters) {
    SHARED(Mbarrier, arrived);
    VECTOR *const buffers = reinterpret_cast<VECTOR *>(arrived + 2);
    ClusterExchange others(arrived);
    const int rank = blockIdx.y % 2 * ACROSS + blockIdx.x % ACROSS;
    VECTOR &mine = parameters.data[((blockIdx.y / 2 * gridDim.x + blockIdx.x) * 2 + blockIdx.y % 2) * WARPS + WARP];
    VECTOR value = mine;
    for (int round = 0; round < parameters.count; round++) {
        VECTOR *const next = buffers + others.next_buffer() * BLOCKS * WARPS;
        if (threadIdx.x == 0) others.expect(BLOCKS * WARPS * sizeof(VECTOR));
        warp_barrier();
        if (LANE < BLOCKS) others.send(value, &next[rank * WARPS + WARP], LANE);
        others.wait();
        for (int i = 0; i < int(sizeof(VECTOR) / 4); i++) {
            unsigned sum = 0;
            for (int j = 0; j < BLOCKS * WARPS; j++)
                sum += reinterpret_cast<unsigned *>(&next[j])[i] * (j + 1) * (j == rank * WARPS + int(WARP) ? 7 : 1);
            reinterpret_cast<unsigned *>(&value)[i] = sum;
        }
    }
    if (LANE == 0) mine = value;
}
"#;

#[test]
fn what_is_sent_arrives_under_every_seed() {
    let [grid_x, across, blocks, warps, count] = [6, 3, 6, 2, 5];
    for (vector, words) in [("unsigned", 1), ("uint2", 2), ("uint4", 4)] {
        let Some(module) = load(ROUNDS, &[&format!("-DVECTOR={vector}")]) else { return };
        let first: Vec<u32> =
            (0..2 * 2 * grid_x * warps * words).map(|i| (i as u32).wrapping_mul(2_654_435_761)).collect();
        // Places by cluster, as [rank][warp][word].
        let place = |cluster: usize, rank: usize, warp: usize, word: usize| {
            let (x, y) = (cluster % (grid_x / across) * across + rank % across, cluster / (grid_x / across));
            (((y * grid_x + x) * 2 + rank / across) * warps + warp) * words + word
        };
        let mut expected = first.clone();
        for _ in 0..count {
            let before = expected.clone();
            for (cluster, word) in (0..4).flat_map(|cluster| (0..words).map(move |word| (cluster, word))) {
                let at = |j: usize| place(cluster, j / warps, j % warps, word);
                for mine in 0..blocks * warps {
                    let weight = |j: usize| (j as u32 + 1) * if j == mine { 7 } else { 1 };
                    let terms = (0..blocks * warps).map(|j| before[at(j)].wrapping_mul(weight(j)));
                    expected[at(mine)] = terms.fold(0, u32::wrapping_add);
                }
            }
        }
        for seed in [None].into_iter().chain((0..60).map(Some)) {
            let mut data = first.clone();
            let parameters = Parameters { data: data.as_mut_ptr(), count: count as i32 };
            launch(&module, [[grid_x as u32, 4, 1], [3, 2, 1]], 64, seed, &parameters).expect("runs");
            assert_eq!(data, expected, "{vector}, seed {seed:?}");
        }
    }
}

/// Clusters wait until there is room, and none stays half started.
#[test]
fn clusters_begin_when_there_is_room() {
    let text = r#"
#define THREADS 1024
#include "common/cluster.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    cluster_barrier();
    if (threadIdx.x == 0) parameters.data[blockIdx.x]++;
    cluster_barrier();
    if (threadIdx.x == 0)
        for (int i = 0; i < 12; i++)
            if (parameters.data[blockIdx.x / 12 * 12 + i] != 1) fail("a block of the cluster has not come");
}
"#;
    let Some(module) = load(text, &[]) else { return };
    for seed in [None, Some(1), Some(2)] {
        let mut data = [0; 60];
        let parameters = Parameters { data: data.as_mut_ptr(), count: 0 };
        launch(&module, [[60, 1, 1], [12, 1, 1]], 1024, seed, &parameters).expect("runs");
        assert_eq!(data, [1; 60]);
        for cluster in [[7, 1, 1], [20, 1, 1], [0, 1, 1], [1, 2, 1], [65536, 65536, 1]] {
            let reason = launch(&module, [[60, 1, 1], cluster], 1024, seed, &parameters).expect_err("refused").reason;
            assert!(reason.contains("cluster"), "{reason}");
        }
    }
}

#[test]
fn wrong_use_is_found() {
    let text = r#"
#define THREADS 32
#include "common/cluster.cuh"
struct Parameters { int *data; int count; };
KERNEL(kernel, Parameters) {
    SHARED(Mbarrier, arrived);
    SHARED(unsigned, words);
    STATIC_SHARED(unsigned, word);
    const int wrong = parameters.count;
    const unsigned other = 1 - blockIdx.x;
    const bool is_first = threadIdx.x == 0;
    if (is_first && wrong != 0) arrived->initialize(wrong == 1 ? 0 : 1);
    if (wrong != 2) cluster_barrier();
    if (wrong == 2 && blockIdx.x == 0) return;
    if (wrong == 2) for (int i = 0; i < 500; i++) { Spin spin; spin.again(); warp_barrier(); }
    if (is_first) {
        const unsigned bytes = wrong == 3 ? 1 << 20 : wrong == 4 ? 8 : 4;
        if (wrong != 5) arrived->expect(bytes);
        if (wrong == 6) arrived->expect(bytes);
        unsigned *const place = wrong == 7 ? &word : wrong == 8 ? words + 255 : words + (wrong == 9 ? 3 : 4);
        if (wrong == 8 || wrong == 9) send(make_uint2(1, 2), reinterpret_cast<uint2 *>(place), *arrived, other);
        else send(wrong == 10 ? 9u : 5u, place, wrong == 11 ? arrived[4] : *arrived, wrong == 12 ? 2 : other);
        if (wrong == 13)
            for (int i = 0; i < 1 << 18; i++) send(5u, place, *arrived, other);
    }
    if (wrong == 14 && blockIdx.x == 1) return;
    Spin spin;
    while (!arrived->has_ended(0)) spin.again();
    if (words[4] != 5) fail("another value has arrived");
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let pair = [[2, 1, 1]; 2];
    let expected = [
        "an Mbarrier was not initialized",
        "an Mbarrier awaits 1 to",
        "it names a block that has not begun or has ended",
        "2^20 bytes or more",
        "wait in a Spin",
        "wait in a Spin",
        "more threads come to an Mbarrier than its phase awaits",
        "in dynamic shared memory",
        "in dynamic shared memory",
        "aligned to its size",
        "another value has arrived",
        "arrives at an Mbarrier that was not initialized",
        "a rank that its cluster does not have",
        "2^20 bytes or more",
        "has ended before all that was sent to it has arrived",
    ];
    let parameters = |count| Parameters::<i32> { data: std::ptr::null_mut(), count };
    for (count, expected) in (0..).zip(expected) {
        // A block that ends too early usually causes no error.
        let mut seeds = [None].into_iter().chain((0..50).map(Some));
        let reason = seeds.find_map(|seed| launch(&module, pair, 32, seed, &parameters(count)).err()).expect(expected);
        assert!(reason.reason.contains(expected), "{count}: {}", reason.reason);
    }
    for seed in [None].into_iter().chain((0..50).map(Some)) {
        launch(&module, pair, 32, seed, &parameters(-1)).expect("nothing is wrong");
    }
}
