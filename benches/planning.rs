//! Planning's speed: Workspace Reuse and desirable sets over 8 algorithms a size. The names hold the figures to reach.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{Rng, SeedableRng, rngs::StdRng};
use ucudnn::plan::{BatchSizePolicy, MicroConfiguration, best_configurations, can_win, desirable_set, workspace_reuse};

const ALGORITHMS: u8 = 8;

/// Measurements as a device gives them: each algorithm has a cost a call and a cost an image, both in the time, which
/// is off by up to 5%, and in the workspace; those that need more are faster, so that every one is of use somewhere.
fn measured(policy: BatchSizePolicy, batch: usize) -> Vec<MicroConfiguration<u8>> {
    let mut random = StdRng::seed_from_u64(1804);
    let mut micro = Vec::new();
    for size in policy.sizes(batch) {
        for algorithm in 0..ALGORITHMS {
            let step = f64::from(algorithm);
            let exact = 0.01 * (1.0 + step) + size as f64 * 0.02 / (1.0 + 0.3 * step);
            let time = exact * random.random_range(0.95..1.05);
            let workspace = usize::from(algorithm) * ((1 << 16) + size * 12_345);
            micro.push(MicroConfiguration { batch: size, algorithm, time, workspace });
        }
    }
    micro
}

/// Nothing of use to pruning: every measurement is a new point of its size's front and of the mini-batch's.
fn adversarial(policy: BatchSizePolicy, batch: usize) -> Vec<MicroConfiguration<u8>> {
    let mut micro = Vec::new();
    for (i, size) in policy.sizes(batch).into_iter().enumerate() {
        for algorithm in 0..ALGORITHMS {
            let workspace = usize::from(algorithm) * batch + i;
            // ever better an image as workspace grows
            let time = size as f64 * (1.0 + 1.0 / (1.0 + workspace as f64));
            micro.push(MicroConfiguration { batch: size, algorithm, time, workspace });
        }
    }
    micro
}

fn planning(c: &mut Criterion) {
    use BatchSizePolicy::{All, PowerOfTwo};
    let limit = 6 << 20; // a fourteenth of the largest workspace

    let mut reuse = c.benchmark_group("workspace_reuse");
    let all = measured(All, 1024);
    reuse.bench_function("all, B=1024 (limit 50 ms)", |b| b.iter(|| workspace_reuse(1024, black_box(&all), limit)));
    let worst = adversarial(All, 1024);
    reuse.bench_function("all, B=1024, nothing to prune (limit 50 ms)", |b| {
        b.iter(|| workspace_reuse(1024, black_box(&worst), usize::MAX))
    });
    let large = measured(PowerOfTwo, 65_536);
    reuse.bench_function("powerOfTwo, B=65536", |b| b.iter(|| workspace_reuse(65_536, black_box(&large), usize::MAX)));
    let all_4096 = measured(All, 4096);
    reuse.bench_function("all, B=4096", |b| b.iter(|| workspace_reuse(4096, black_box(&all_4096), limit)));
    reuse.finish();

    let mut desirable = c.benchmark_group("desirable_set");
    let power = measured(PowerOfTwo, 1024);
    desirable.bench_function("powerOfTwo, B=1024 (limit 5 ms)", |b| b.iter(|| desirable_set(1024, black_box(&power))));
    let worst = adversarial(PowerOfTwo, 1024);
    desirable.bench_function("powerOfTwo, B=1024, nothing to prune (limit 5 ms)", |b| {
        b.iter(|| desirable_set(1024, black_box(&worst)))
    });
    desirable.bench_function("all, B=1024", |b| b.iter(|| desirable_set(1024, black_box(&all))));
    desirable.finish();

    let mut tuning = c.benchmark_group("tuning");
    tuning.bench_function("best_configurations, all, B=1024", |b| {
        b.iter(|| best_configurations(1024, black_box(&all), limit, 4))
    });
    let (timed, rest) = power.split_at(power.len() / 2);
    let untimed: Vec<(usize, u8)> = rest.iter().map(|micro| (micro.batch, micro.algorithm)).collect();
    tuning.bench_function("can_win, powerOfTwo, B=1024", |b| {
        b.iter(|| can_win(1024, black_box(timed), limit, &untimed, 0.8))
    });
    tuning.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = planning
}
criterion_main!(benches);
