//! Rates of every algorithm on AlexNet's convolutions at batch 32, float, NCHW, beside the rate of a large matrix product.
//!
//! Each algorithm gets all the workspace that it needs; its name has the size. Elements are floating-point operations
//! of the direct convolution, so `Gelem/s` means GFLOP/s; fast algorithms may exceed the matrix product's rate.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gemm::Parallelism;
use hostdnn_arithmetic::convolution::{Algorithm, Direction, Element, Problem, run, workspace_size};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::hint::black_box;
use std::time::Duration;

const BATCH: usize = 32;

/// Name, input channels, input side, output channels, filter side, pad, stride.
const LAYERS: [(&str, usize, usize, usize, usize, usize, usize); 5] = [
    ("conv1", 3, 224, 64, 11, 2, 4),
    ("conv2", 64, 27, 192, 5, 2, 1),
    ("conv3", 192, 13, 384, 3, 1, 1),
    ("conv4", 384, 13, 256, 3, 1, 1),
    ("conv5", 256, 13, 256, 3, 1, 1),
];

/// Strides of a packed tensor of `channels` planes of `side` by `side`.
fn packed(channels: usize, side: usize) -> [usize; 5] {
    [channels * side * side, side * side, side * side, side, 1]
}

fn random(len: usize, rng: &mut StdRng) -> Vec<f32> {
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn product(c: &mut Criterion) {
    const SIDE: usize = 1536;
    let rng = &mut StdRng::seed_from_u64(0);
    let (a, b) = (random(SIDE * SIDE, rng), random(SIDE * SIDE, rng));
    let mut to = vec![0f32; SIDE * SIDE];
    let mut group = c.benchmark_group("matrix product");
    group.throughput(Throughput::Elements(2 * (SIDE as u64).pow(3)));
    let step = SIDE as isize;
    let threads = rayon::current_num_threads();
    group.bench_function(format!("{SIDE}, {threads} threads"), |bencher| {
        bencher.iter(|| {
            let rows = SIDE.div_ceil(threads);
            rayon::scope(|scope| {
                for (part, to) in to.chunks_mut(rows * SIDE).enumerate() {
                    let (a, b) = (&a[part * rows * SIDE..], &b);
                    scope.spawn(move |_| {
                        let (m, from, by) = (to.len() / SIDE, a.as_ptr(), b.as_ptr());
                        let to = to.as_mut_ptr();
                        // SAFETY: the matrices are square of side SIDE, and each task has its own rows of the result.
                        unsafe {
                            let none = Parallelism::None;
                            gemm::gemm(
                                m, SIDE, SIDE, to, 1, step, false, from, 1, step, by, 1, step, 0f32, 1f32, false,
                                false, false, none,
                            );
                        }
                    });
                }
            });
        });
    });
    group.finish();
}

fn convolutions(c: &mut Criterion) {
    for (name, channels, side, maps, filter, pad, stride) in LAYERS {
        let out = (side + 2 * pad - filter) / stride + 1;
        let rng = &mut StdRng::seed_from_u64(1);
        let mut x = random(BATCH * channels * side * side, rng);
        let mut w = random(maps * channels * filter * filter, rng);
        let mut y = random(BATCH * maps * out * out, rng);
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
            let problem = Problem {
                direction,
                element: Element::Float,
                batch: BATCH,
                groups: 1,
                in_channels: channels,
                out_channels: maps,
                input: [1, side, side],
                filter: [1, filter, filter],
                output: [1, out, out],
                pad: [0, pad, pad],
                stride: [1, stride, stride],
                dilation: [1; 3],
                x_strides: packed(channels, side),
                w_strides: packed(channels, filter),
                y_strides: packed(maps, out),
                flip: false,
            };
            let mut group = c.benchmark_group(format!("AlexNet {name} {direction:?}, batch {BATCH}, no limit"));
            group.throughput(Throughput::Elements((2 * BATCH * maps * channels * filter * filter * out * out) as u64));
            for &algorithm in Algorithm::all(direction) {
                let Ok(size) = workspace_size(&problem, algorithm) else { continue };
                let mut workspace = vec![0u8; size];
                let mib = size as f64 / f64::from(1 << 20);
                group.bench_function(format!("{algorithm:?} with {mib:.1} MiB"), |bencher| {
                    bencher.iter(|| {
                        let [x, w, y] = [&mut x, &mut w, &mut y].map(|tensor| tensor.as_mut_ptr().cast());
                        // SAFETY: the tensors have the problem's extents, packed, and the workspace has `size` bytes.
                        let done = unsafe { run(&problem, algorithm, 1.0, 0.0, x, w, y, workspace.as_mut_ptr(), size) };
                        black_box(done).expect("a supported problem with enough workspace");
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = product, convolutions
}
criterion_main!(benches);
