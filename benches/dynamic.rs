//! What vertex nets take of the processor besides their runs: checking and levelling graphs, merging batches, and making
//! a net. Benchmarks' names have the figures to reach.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{Rng, SeedableRng, rngs::StdRng};
use vertex::batch::{Batch, Maxima, Policy};
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
    fn random() -> Self {
        let mut random = StdRng::seed_from_u64(4);
        let mut trees = Self { first_vertex: vec![0], first_child: vec![0], ..Self::default() };
        for _ in 0..TREES {
            // A gamma distribution of shape 4.
            let length: f64 = (0..4).map(|_| -random.random::<f64>().ln()).sum();
            let leaves = (length * MEAN_LEAVES / 4.0).round().clamp(2.0, 52.0) as usize;
            let first = trees.first_child.len() as i64 - 1;
            trees.grow(&mut random, leaves, first);
            trees.first_vertex.push(trees.first_child.len() as i64 - 1);
        }
        trees
    }

    /// Adds a span of so many leaves to the tree that begins with this vertex; returns its number in the tree.
    fn grow(&mut self, random: &mut StdRng, leaves: usize, first: i64) -> i32 {
        if leaves > 1 {
            let left = if random.random_bool(0.6) { 1 } else { random.random_range(1..leaves) };
            let parts = [left, leaves - left].map(|part| self.grow(random, part, first));
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
    let maxima = Maxima { graphs: 128, vertices: 1 << 14, children: 1 << 14, levels: 64 };
    group.bench_function("merge 128 of 8544 trees, time a vertex (limit 4 ns)", |b| {
        let mut batch = Batch::new(maxima, &net, Policy::of(&net)).unwrap();
        let mut random = StdRng::seed_from_u64(1);
        b.iter_custom(|rounds| {
            let (mut time, mut merged) = (Duration::ZERO, 0);
            for _ in 0..rounds {
                let ids: [i64; 128] = std::array::from_fn(|_| random.random_range(0..TREES as i64));
                let start = Instant::now();
                batch.set(&net, &graphs, black_box(&ids)).unwrap();
                time += start.elapsed();
                merged += batch.vertices();
            }
            a_vertex(time, merged).mul_f64(rounds as f64)
        });
    });

    group.bench_function("make a Tree-LSTM net (limit 5 ms)", |b| {
        b.iter(|| {
            let net = Net::new(black_box(&tree_lstm).parse().unwrap()).unwrap();
            black_box((differentiate(&net, 1), Executor::new(&net, true, Threads::new(1))))
        });
    });
}

criterion_group!(benches, dynamic);
criterion_main!(benches);
