//! Asynchronous copies, which are waited for only when the data is needed.

use hostdnn::emulator::{Module, Source};

use super::{HEADERS, Parameters, launch, load_source};

/// Each thread copies its numbers two rounds ahead, and adds to each the number in its place in the round before.
/// `WRONG` waits for one group less, or copies to a place that others still read. A third of the threads copy zeros.
const ROUNDS: &str = r#"
#define THREADS 64
#include "common/async_copy.cuh"
struct Parameters { uint4 *data; int count; };
#if WRONG == 2
constexpr int AHEAD = 3;
#else
constexpr int AHEAD = 2;
#endif
constexpr int PLACES = 3;
__device__ void copy(const Parameters &parameters, uint4 *all, int round) {
    if (round >= parameters.count) return;
    copy_async<16>(all + round % PLACES * THREADS / 4 + threadIdx.x / 4,
                   parameters.data + (round * THREADS + threadIdx.x) / 4, threadIdx.x / 4 % 3 != 0);
}
KERNEL(kernel, Parameters) {
    SHARED(uint4, all);
    for (int round = 0; round < AHEAD; round++) {
        if (threadIdx.x % 4 == 0) copy(parameters, all, round);
        end_group();
    }
    unsigned sum = 0;
    for (int round = 0; round < parameters.count; round++) {
#if WRONG != 1
        wait_for_groups<AHEAD - 1>();
#else
        wait_for_groups<AHEAD>();
#endif
        barrier();
        if (threadIdx.x % 4 == 0) copy(parameters, all, round + AHEAD);
        end_group();
        const unsigned *const numbers = reinterpret_cast<unsigned *>(all + round % PLACES * THREADS / 4);
        sum = sum * 31 + numbers[(threadIdx.x + 7) % THREADS];
    }
    barrier();
    reinterpret_cast<unsigned *>(parameters.data)[threadIdx.x] = sum;
}
"#;

fn load(text: &str, options: &[&str]) -> Option<Module> {
    let headers = [HEADERS[0], ("common/async_copy.cuh", include_str!("../../../kernels/common/async_copy.cuh"))];
    load_source(&Source { name: "test.cu", text, headers: &headers, options })
}

#[test]
fn what_is_waited_for_is_there_and_nothing_else_for_sure() {
    const ROUNDS_EACH: usize = 9;
    for wrong in 0..3 {
        let Some(module) = load(ROUNDS, &[&format!("-DWRONG={wrong}")]) else { return };
        let first: Vec<[u32; 4]> =
            (0..16 * ROUNDS_EACH as u32).map(|i| [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3]).collect();
        let number = |round: usize, thread: usize| (thread / 4 % 3).min(1) as u32 * (round * 64 + thread) as u32;
        let sum = |thread: usize| {
            (0..ROUNDS_EACH)
                .fold(0, |sum: u32, round| sum.wrapping_mul(31).wrapping_add(number(round, (thread + 7) % 64)))
        };
        let expected: Vec<u32> = (0..64).map(sum).collect();
        let mut off = 0;
        let seeds = [None].into_iter().chain((0..20).map(Some));
        for seed in seeds {
            let mut data: Vec<Aligned> = first.iter().map(|words| Aligned(*words)).collect();
            let parameters = Parameters { data: data.as_mut_ptr(), count: ROUNDS_EACH as i32 };
            let ran = launch(&module, [1, 64], seed, &parameters);
            let found: Vec<u32> = data.iter().take(16).flat_map(|words| words.0).collect();
            off += usize::from(ran.is_err() || found != expected);
            assert!(wrong > 0 || off == 0, "seed {seed:?}: {:?}", ran.err().map(|error| error.reason));
        }
        assert!(wrong == 0 || off > 10, "wrong {wrong} is found by {off} schedules of 21");
    }
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Aligned([u32; 4]);

#[test]
fn wrong_use_is_found() {
    let text = r#"
#define THREADS 32
#include "common/async_copy.cuh"
struct Parameters { char *data; int count; };
KERNEL(kernel, Parameters) {
    SHARED(char, all);
    STATIC_SHARED(uint4, other);
    const int wrong = parameters.count;
    char *const to = wrong == 0 ? all + 4 : wrong == 1 ? reinterpret_cast<char *>(&other) : wrong == 2 ? all + 1020 : all;
    copy_async<8>(to, parameters.data + (wrong == 3 ? 4 : 0), true);
    end_group();
    if (wrong != 4) wait_for_groups<0>();
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let expected = [
        "aligned to its size",
        "in dynamic shared memory",
        "in dynamic shared memory",
        "aligned to its size",
        "has ended before all that it copies has arrived",
    ];
    let mut data = [Aligned([7; 4]); 2];
    for (wrong, why) in expected.into_iter().enumerate() {
        let parameters = Parameters { data: data.as_mut_ptr().cast::<u8>(), count: wrong as i32 };
        let reason = launch(&module, [1, 32], None, &parameters).expect_err("refused").reason;
        assert!(reason.contains(why), "{wrong}: {reason}");
    }
}
