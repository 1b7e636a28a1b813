//! The functions of `kernels/common/device.cuh`, against Rust.

use half::{bf16, f16};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Parameters, launch, launch_clusters, load};

#[test]
fn warps_add_in_the_gpus_order() {
    let text = r#"
#define THREADS 64
#include "common/device.cuh"
struct Parameters { float *data; int count; };
KERNEL(kernel, Parameters) {
    float *const data = parameters.data + threadIdx.x;
    const float x = *data;
    for (int lanes = 1, i = 1; lanes <= 32; lanes *= 2, i++) {
        data[i * THREADS] = warp_sum(x, lanes);
        data[(6 + i) * THREADS] = warp_max(x, lanes);
    }
    data[13 * THREADS] = warp_shuffle(x, (LANE * 7 + 3) % 32);
    data[14 * THREADS] = warp_broadcast(x, 17);
    data[15 * THREADS] = warp_any(x > 0) + 2 * warp_all(x > 0) + 4 * warp_any(WARP == 0 && LANE == 9);
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let mut random = SmallRng::seed_from_u64(3);
    for seed in [None, Some(5), Some(6)] {
        let mut data = vec![f32::NAN; 16 * 64];
        data[..64].fill_with(|| random.random_range(-1.0..1.0));
        launch(&module, [1, 64], seed, &Parameters { data: data.as_mut_ptr(), count: 0 }).unwrap();
        for (warp, first) in [0, 32].into_iter().enumerate() {
            let row = |i: usize| &data[i * 64 + first..i * 64 + first + 32];
            for i in 0..6 {
                let (mut sum, mut greatest) = (row(0).to_vec(), row(0).to_vec());
                for apart in (0..i).rev().map(|i| 1 << i) {
                    sum = (0..32).map(|lane| sum[lane] + sum[lane ^ apart]).collect();
                    greatest = (0..32).map(|lane| greatest[lane].max(greatest[lane ^ apart])).collect();
                }
                assert_eq!(row(1 + i), sum, "{} lanes", 1 << i);
                assert_eq!(row(7 + i), greatest, "{} lanes", 1 << i);
            }
            let shuffled: Vec<_> = (0..32).map(|lane| row(0)[(lane * 7 + 3) % 32]).collect();
            assert_eq!(row(13), shuffled);
            assert_eq!(row(14), [row(0)[17]; 32]);
            assert_eq!(row(15), [if warp == 0 { 5.0 } else { 1.0 }; 32]);
        }
    }
}

#[test]
fn types_of_two_bytes_are_converted_as_they_are_defined() {
    let text = r#"
#define THREADS 256
#include "common/device.cuh"
struct Parameters { unsigned *data; int count; };
KERNEL(kernel, Parameters) {
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < parameters.count; i += THREADS * gridDim.x) {
        unsigned *const data = parameters.data + 5 * i;
        data[1] = float_to_half(__uint_as_float(data[0]));
        data[2] = float_to_bfloat16(__uint_as_float(data[0]));
        data[3] = __float_as_uint(half_to_float(data[0]));
        data[4] = __float_as_uint(bfloat16_to_float(data[0]));
    }
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let mut random = SmallRng::seed_from_u64(4);
    // All bits of halves and bfloat16s; values around and between halves; and random ones.
    let any = std::iter::repeat_with(|| random.random::<u32>()).take(100_000);
    let near = (0..0x8000_u16).flat_map(|bits| {
        let (half, next) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
        let middle = ((half + next) / 2.0).to_bits();
        [middle - 1, middle, middle + 1, middle | 1 << 31]
    });
    let bits: Vec<u32> = (0..=0xffff).chain(near).chain(any.collect::<Vec<_>>()).collect();
    let mut data: Vec<u32> = bits.iter().flat_map(|&bits| [bits, !0, !0, !0, !0]).collect();
    launch(&module, [3, 256], None, &Parameters { data: data.as_mut_ptr(), count: bits.len() as i32 }).unwrap();
    for row in data.chunks_exact(5) {
        let value = f32::from_bits(row[0]);
        if value.is_nan() {
            assert_eq!(row[1..3], [0x7fff; 2]);
        } else {
            assert_eq!(row[1], f16::from_f32(value).to_bits().into(), "{value:e}");
            assert_eq!(row[2], bf16::from_f32(value).to_bits().into(), "{value:e}");
        }
        let same = |found: u32, expected: f32| {
            f32::from_bits(found).is_nan() && expected.is_nan() || found == expected.to_bits()
        };
        assert!(same(row[3], f16::from_bits(row[0] as u16).to_f32()), "{row:x?}");
        assert!(same(row[4], bf16::from_bits(row[0] as u16).to_f32()), "{row:x?}");
    }
}

#[test]
fn memory_of_a_block_is_its_own_and_poisoned() {
    let text = r#"
#define THREADS 32
#include "common/device.cuh"
struct Parameters { unsigned *data; int count; };
template <int N> __device__ unsigned first_of() {
    STATIC_SHARED(unsigned, some, [2][N]);
    const unsigned before = some[1][N - 1];
    barrier();
    some[1][N - 1] = N;
    return before;
}
KERNEL(kernel, Parameters) {
    SHARED(uint4, all);
    STATIC_SHARED(unsigned, sum);
    unsigned local[64];
    unsigned *volatile array = local;
    unsigned *const data = parameters.data + (blockIdx.y * gridDim.x + blockIdx.x) * 4;
    const bool poisoned = all[63].w == ~0u && sum == ~0u && first_of<4>() == ~0u && first_of<5>() == ~0u && array[7] == ~0u;
    barrier();
    if (threadIdx.x == 0) sum = 0;
    barrier();
    atomicAdd(&sum, blockIdx.x + 10 * blockIdx.y);
    barrier();
    if (threadIdx.x == 31) {
        data[0] = poisoned;
        data[1] = sum;
        data[2] = first_of<4>();
        data[3] = blockDim.x * 1000 + gridDim.y;
    } else first_of<4>();
}
"#;
    let Some(module) = load(text, &[]) else { return };
    for seed in [None, Some(8)] {
        let mut data = [0_u32; 6 * 4];
        let parameters = Parameters { data: data.as_mut_ptr(), count: 0 };
        launch_clusters(&module, [[3, 2, 1], [1; 3]], 32, seed, &parameters).unwrap();
        for (block, found) in (0..).zip(data.chunks_exact(4)) {
            assert_eq!(found, [1, 32 * (block % 3 + 10 * (block / 3)), 4, 32_002], "block {block}");
        }
    }
}

/// The source of a kernel in which one warp computes 16 × 8 sums from A's rows and B's columns, stored as consecutive
/// words: each lane reads and writes in the layouts of PTX's manual (mma.m16n8k16 and mma.m16n8k8).
const MMA: &str = r#"
#define THREADS 32
#include "common/device.cuh"
struct Parameters { unsigned *data; int count; };
KERNEL(kernel, Parameters) {
    const unsigned *const a = parameters.data, *const b = a + 16 * 8;
    float *const sums = (float *)(b + 8 * 8);
    const int group = LANE >> 2, in_group = LANE & 3;
    unsigned a_part[4], b_part[2];
    for (int i = 0; i < 4; i++) a_part[i] = a[(i == 0 || i == 2 ? group : group + 8) * 8 + (i < 2 ? in_group : in_group + 4)];
    for (int i = 0; i < 2; i++) b_part[i] = b[group * 8 + (i == 0 ? in_group : in_group + 4)];
    float part[4];
    for (int i = 0; i < 4; i++) part[i] = sums[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
    MMA(part, a_part, b_part);
    for (int i = 0; i < 4; i++) sums[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = part[i];
}
"#;

#[test]
fn tensor_cores_multiply_matrices() {
    type Numbers = fn(u32) -> Vec<f64>;
    let kinds: [(&str, Numbers); 3] = [
        ("warp_mma_half", |word| [word, word >> 16].map(|bits| f16::from_bits(bits as u16).to_f64()).into()),
        ("warp_mma_bfloat16", |word| [word, word >> 16].map(|bits| bf16::from_bits(bits as u16).to_f64()).into()),
        // The lowest 13 bits are ignored.
        ("warp_mma_tf32", |word| vec![f32::from_bits(word & !0x1fff).into()]),
    ];
    let mut random = SmallRng::seed_from_u64(8);
    for (name, numbers) in kinds {
        let define = format!("-DMMA={name}");
        let Some(module) = load(MMA, &[&define]) else { return };
        let mut word = || {
            let [low, high] = [(); 2].map(|()| random.random_range(-2.0_f32..2.0));
            let packed = |low: u16, high: u16| u32::from(high) << 16 | u32::from(low);
            match name {
                "warp_mma_half" => packed(f16::from_f32(low).to_bits(), f16::from_f32(high).to_bits()),
                "warp_mma_bfloat16" => packed(bf16::from_f32(low).to_bits(), bf16::from_f32(high).to_bits()),
                _ => low.to_bits(),
            }
        };
        for seed in [None, Some(1), Some(2)] {
            let mut data: Vec<u32> = (0..24 * 8).map(|_| word()).collect();
            let before: Vec<f32> = (0..128).map(|place| place as f32 / 64.0 - 1.0).collect();
            data.extend(before.iter().map(|sum| sum.to_bits()));
            launch(&module, [1, 32], seed, &Parameters { data: data.as_mut_ptr(), count: 0 }).unwrap();
            let row = |first: usize| data[first * 8..][..8].iter().copied().flat_map(numbers).collect::<Vec<_>>();
            for place in 0..128 {
                let products = row(place / 8).into_iter().zip(row(16 + place % 8)).map(|(a, b)| a * b);
                let expected = products.fold(f64::from(before[place]), |sum, product| sum + product);
                assert_eq!(f32::from_bits(data[24 * 8 + place]), expected as f32, "{name}, {place}");
            }
        }
    }
}

#[test]
fn tf32_is_the_nearest() {
    let text = r#"
#define THREADS 256
#include "common/device.cuh"
struct Parameters { float *data; int count; };
KERNEL(kernel, Parameters) {
    for (int i = threadIdx.x; i < parameters.count; i += THREADS) parameters.data[i] = float_to_tf32(parameters.data[i]);
}
"#;
    let Some(module) = load(text, &[]) else { return };
    let mut random = SmallRng::seed_from_u64(9);
    let ties = [0x3f80_1000, 0xbf80_1000, 0x3f80_0fff, 0x3f7f_f000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000, 0];
    let all: Vec<u32> = ties.into_iter().chain((0..10_000).map(|_| random.random())).collect();
    let mut data: Vec<f32> = all.iter().copied().map(f32::from_bits).collect();
    launch(&module, [1, 256], None, &Parameters { data: data.as_mut_ptr(), count: data.len() as i32 }).unwrap();
    for (bits, rounded) in all.into_iter().zip(data) {
        let value = f32::from_bits(bits);
        if !value.is_finite() {
            assert!(rounded == value || value.is_nan() && rounded.is_nan());
            continue;
        }
        // Ties go away from zero.
        let below = bits & !0x1fff;
        let nearest = if bits - below < 0x1000 { below } else { below + 0x2000 };
        assert_eq!(rounded.to_bits(), nearest, "{bits:x}");
    }
}
