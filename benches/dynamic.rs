//! What vertex nets take of the processor besides their runs: checking and levelling graphs, merging batches, and making
//! a net. Benchmarks' names have the figures to reach.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use rand::{Rng, SeedableRng, rngs::StdRng};
use vertex::batch::{Arrays, Batch, Maxima, Policy};
use vertex::derivative::differentiate;
use vertex::function::Net;
use vertex::graphs::{Description, Graphs};
use vertex::host::{Executor, Threads};

#[path = "../crates/vertex/nets/tree_lstm.rs"]
mod nets;

/// As many as the Stanford Sentiment Treebank has sentences to train with, of about its lengths.
const TREES: usize = 8544;
const MEAN_LEAVES: f64 = 19.14;

/// The arrays of binary trees, each vertex behind its children.
#[derive(Default)]
struct Trees {
    first_vertex: Vec<i64>,
    first_child: Vec<i64>,
    children: Vec<i32>,
}

impl Trees {
    fn new() -> Self {
        Self { first_vertex: vec![0], first_child: vec![0], ..Self::default() }
    }

    fn complete(count: usize, leaves: usize) -> Self {
        let mut trees = Self::new();
        for _ in 0..count {
            let first = trees.first_child.len() as i64 - 1;
            trees.grow(&mut |leaves| leaves / 2, leaves, first);
            trees.first_vertex.push(trees.first_child.len() as i64 - 1);
        }
        trees
    }

    fn random() -> Self {
        let mut random = StdRng::seed_from_u64(4);
        let mut trees = Self::new();
        for _ in 0..TREES {
            // A gamma distribution of shape 4.
            let length: f64 = (0..4).map(|_| -random.random::<f64>().ln()).sum();
            let leaves = (length * MEAN_LEAVES / 4.0).round().clamp(2.0, 52.0) as usize;
            let first = trees.first_child.len() as i64 - 1;
            let mut left = |leaves| if random.random_bool(0.6) { 1 } else { random.random_range(1..leaves) };
            trees.grow(&mut left, leaves, first);
            trees.first_vertex.push(trees.first_child.len() as i64 - 1);
        }
        trees
    }

    /// Adds a span of `leaves` leaves to the tree whose first vertex is `first`. `left` tells the leaves of the span's left
    /// part. Returns the span's number in the tree.
    fn grow(&mut self, left: &mut impl FnMut(usize) -> usize, leaves: usize, first: i64) -> i32 {
        if leaves > 1 {
            let on_left = left(leaves);
            let parts = [on_left, leaves - on_left].map(|part| self.grow(left, part, first));
            self.children.extend(parts);
        }
        self.first_child.push(self.children.len() as i64);
        (self.first_child.len() as i64 - 2 - first) as i32
    }

    fn graphs(&self) -> Graphs {
        let (first_vertex, first_child, children) = (&self.first_vertex[..], &self.first_child[..], &self.children[..]);
        Graphs::new(&Description { first_vertex, first_child, children, kinds: None, rows: None }).unwrap()
    }
}

/// The time of `set` a vertex, for batches of `count` of the graphs.
fn time_a_vertex(b: &mut Bencher, graphs: &Graphs, count: usize, mut set: impl FnMut(&[i64]) -> usize) {
    let mut random = StdRng::seed_from_u64(1);
    b.iter_custom(|rounds| {
        let (mut time, mut merged) = (Duration::ZERO, 0);
        for _ in 0..rounds {
            let ids: Vec<_> = (0..count).map(|_| random.random_range(0..graphs.count() as i64)).collect();
            let start = Instant::now();
            merged += set(black_box(&ids));
            time += start.elapsed();
        }
        time.div_f64(merged as f64).mul_f64(rounds as f64)
    });
}

/// Writes a planned batch's arrays as one for a device, in memory that has room for it.
fn write(batch: &mut Batch, graphs: &Graphs, ids: &[i64], numbers: &mut [i32]) {
    let (vertices, edges) = (batch.vertices(), batch.edges());
    let mut rest = numbers;
    let mut take = |count: usize| {
        let (taken, behind) = std::mem::take(&mut rest).split_at_mut(count);
        rest = behind;
        taken
    };
    let arrays = Arrays {
        first_edge: take(vertices + 1),
        child: take(edges),
        parents_of: take(2 * vertices).as_chunks_mut().0,
        parents: take(batch.edges_of_children()),
        vertex: take(vertices),
        row: None,
        pulled: take(vertices),
        readers_end: take(batch.pulled_rows()),
        readers: take(batch.pulling_rows()),
    };
    batch.write(graphs, ids, arrays);
}

fn dynamic(c: &mut Criterion) {
    let trees = Trees::random();
    let vertices = trees.first_child.len() - 1;
    let a_vertex = |time: Duration, vertices: usize| time.div_f64(vertices as f64);

    let mut group = c.benchmark_group("dynamic");
    group.bench_function("check and level 8544 trees, time a vertex (limit 20 ns)", |b| {
        b.iter_custom(|rounds| {
            let start = Instant::now();
            (0..rounds).for_each(|_| _ = black_box(trees.graphs()));
            a_vertex(start.elapsed(), vertices)
        });
    });

    let graphs = trees.graphs();
    let tree_lstm = nets::tree_lstm(256, 256, None);
    let net = Net::new(tree_lstm.parse().unwrap()).unwrap();
    let maxima = Maxima { graphs: 256, vertices: 1 << 17, children: 1 << 17, levels: 64 };
    let made = || Batch::new(maxima, &net, Policy::of(&net)).unwrap();
    group.bench_function("merge 128 of 8544 trees, time a vertex (limit 4 ns)", |b| {
        let mut batch = made();
        time_a_vertex(b, &graphs, 128, |ids| {
            batch.set(&net, &graphs, ids).unwrap();
            batch.vertices()
        });
    });
    let complete = Trees::complete(64, 1024).graphs();
    for (name, graphs, count) in [("256 of 8544 trees", &graphs, 256), ("64 complete trees", &complete, 64)] {
        let limit = if count == 256 { 10 } else { 3 };
        group.bench_function(format!("write {name} for a device, time a vertex (limit {limit} ns)"), |b| {
            let (mut batch, mut numbers) = (made(), vec![0; 9 * maxima.vertices]);
            time_a_vertex(b, graphs, count, |ids| {
                batch.plan(&net, graphs, ids).unwrap();
                write(&mut batch, graphs, ids, &mut numbers);
                batch.vertices()
            });
        });
    }

    group.bench_function("make a Tree-LSTM net (limit 5 ms)", |b| {
        b.iter(|| {
            let net = Net::new(black_box(&tree_lstm).parse().unwrap()).unwrap();
            black_box((differentiate(&net, 1), Executor::new(&net, true, Threads::new(1))))
        });
    });
}

criterion_group!(benches, dynamic);
criterion_main!(benches);
