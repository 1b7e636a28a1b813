//! The speed of planning: Workspace Reuse and desirable sets over 8 algorithms a size, and Workspace Division over
//! networks. Benchmarks' names have the figures to reach.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use planner::{
    Alternative, BatchSizePolicy, Group, MicroConfiguration, best_configurations, can_win, desirable_set,
    workspace_division, workspace_reuse,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const ALGORITHMS: u8 = 8;

/// Measurements like a device's: each algorithm has a cost a call and a cost an image, in time, off by up to 5%, and in
/// workspace. Algorithms with more workspace are faster, so that each is useful somewhere.
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

/// Measurements that cannot be pruned: each is a new point on the fronts of its size and of the mini-batch.
fn adversarial(policy: BatchSizePolicy, batch: usize) -> Vec<MicroConfiguration<u8>> {
    let mut micro = Vec::new();
    for (i, size) in policy.sizes(batch).into_iter().enumerate() {
        for algorithm in 0..ALGORITHMS {
            let workspace = usize::from(algorithm) * batch + i;
            // the more workspace, the less time an image
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

/// A convolution problem's desirable set, as Workspace Division takes it.
fn alternatives(batch: usize, micro: &[MicroConfiguration<u8>]) -> Vec<Alternative> {
    let of = |found: &planner::Configuration<u8>| Alternative { time: found.time(), workspace: found.workspace() };
    desirable_set(batch, micro).iter().map(of).collect()
}

/// ResNet-50's 53 convolutions, forwards and backwards, at a mini-batch of 32. Each has a slow algorithm without
/// workspace, and a matrix product over the unrolled images. Filters larger than 1×1 also have an algorithm in the
/// frequency domain, with fewer operations and a workspace for all tensors, and one between these (Winograd's). Times
/// scatter by 5%, as measured times do, so no two problems are alike, unless `equal` groups them.
fn resnet50(equal: bool) -> Vec<Group> {
    let mut random = StdRng::seed_from_u64(50);
    let mut groups = Vec::new();
    for line in include_str!("../examples/networks/resnet50.csv").lines().skip(1) {
        let fields: Vec<usize> = line.split(',').skip(2).map(|field| field.parse().expect("a number")).collect();
        let [layers, batch, c, h, w, k, r, s, _, _, stride, ..] = fields[..] else { panic!("{line}: too few fields") };
        let (p, q) = (h / stride, w / stride);
        let gigaflop = 2e-9 * (c * k * r * s * p * q) as f64;
        let tensors = 4 * (c * h * w + k * p * q);
        // teraflop/s, bytes an image, bytes
        let mut algorithms = vec![(2.0, 0, 0), (5.0, 4 * c * r * s * p * q, 0)];
        if r > 1 {
            algorithms.extend([(8.0, 2 * tensors, 16 * c * k), (12.0, 4 * tensors, 4 * c * k * p * q / 8)]);
        }
        let mut kernel = || {
            let mut micro = Vec::new();
            for size in BatchSizePolicy::PowerOfTwo.sizes(batch) {
                for (algorithm, &(teraflops, an_image, once)) in algorithms.iter().enumerate() {
                    let exact = 0.005 + size as f64 * gigaflop / teraflops;
                    let time = exact * random.random_range(0.95..1.05);
                    let workspace = size * an_image + once;
                    micro.push(MicroConfiguration { batch: size, algorithm: algorithm as u8, time, workspace });
                }
            }
            alternatives(batch, &micro)
        };
        for _direction in 0..3 {
            if equal {
                groups.push(Group { layers, alternatives: kernel() });
            } else {
                groups.extend((0..layers).map(|_| Group { layers: 1, alternatives: kernel() }));
            }
        }
    }
    groups
}

/// `kernels` different problems, each with a desirable set of `configurations`: random times and workspaces, in order.
fn different(kernels: usize, configurations: usize) -> Vec<Group> {
    let mut random = StdRng::seed_from_u64(1000);
    let mut ascending = |largest: f64| {
        let mut numbers: Vec<f64> = (0..configurations).map(|_| random.random_range(0.0..largest)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let mut kernel = || {
        let (times, workspaces) = (ascending(10.0), ascending(6e8));
        let both = times.iter().rev().zip(&workspaces);
        both.map(|(&time, &workspace)| Alternative { time, workspace: workspace as usize & !255 }).collect()
    };
    (0..kernels).map(|_| Group { layers: 1, alternatives: kernel() }).collect()
}

/// Prints the divisions of `groups` under 20 totals, from next to nothing to nearly all the workspace that they want.
fn say_divisions(name: &str, groups: &[Group]) {
    let sum = |workspace: fn(&Group) -> Option<usize>| -> usize {
        groups.iter().map(|group| group.layers * workspace(group).expect("not empty")).sum()
    };
    let least = sum(|group| group.alternatives.iter().map(|it| it.workspace).min());
    let all = sum(|group| group.alternatives.iter().map(|it| it.workspace).max());
    let (mut longest, mut proven, mut gap) = (Duration::ZERO, 0, 0.0f64);
    for part in 1..=20 {
        let total = least + (all - least) / 21 * part;
        let begun = Instant::now();
        let division = workspace_division(groups, total, Duration::from_secs(10)).expect("the total is enough");
        longest = longest.max(begun.elapsed());
        proven += usize::from(division.proven);
        gap = gap.max(division.gap);
    }
    let variables: usize = groups.iter().map(|group| group.alternatives.len()).sum();
    let layers: usize = groups.iter().map(|group| group.layers).sum();
    println!(
        "{name}: {layers} kernels, {variables} variables; under 20 totals {:.2} ms at the longest, {proven} proven \
         optimal, the largest gap {:.4}%",
        1e3 * longest.as_secs_f64(),
        100.0 * gap
    );
}

fn dividing(c: &mut Criterion) {
    let limit = Duration::from_secs(10);
    let mut division = c.benchmark_group("workspace_division");
    for (name, groups, total) in [
        ("ResNet-50, all kernels different (limit 10 ms)", resnet50(false), 512 << 20),
        ("ResNet-50, equal kernels together (limit 10 ms)", resnet50(true), 512 << 20),
        ("1,000 different kernels x 20 (limit 1 s)", different(1000, 20), 64 << 30),
    ] {
        say_divisions(name, &groups);
        division.bench_function(name, |b| b.iter(|| workspace_division(black_box(&groups), total, limit)));
    }
    division.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = planning, dividing
}
criterion_main!(benches);
