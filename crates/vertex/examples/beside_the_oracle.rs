//! Trains a Tree-LSTM on the host in float, and beside it by the oracle in double precision from the same parameters.
//! Both losses are printed: they agree until roundings have grown. Each vertex has to say whether an odd number of the
//! words below it are 1.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_vertex::batch::{Batch, Maxima, Policy};
use ucudnn_vertex::function::{Declaration, Net};
use ucudnn_vertex::graphs::{Description, Graphs};
use ucudnn_vertex::host::{self, Executor, Threads};
use ucudnn_vertex::oracle;

#[path = "../nets/tree_lstm.rs"]
mod nets;

const TREES: usize = 64;
const MOST_LEAVES: usize = 6;
const HIDDEN: usize = 16;
const STEPS: usize = 400;
const SHOWN: usize = 50;
const RATE: f64 = 1.0;
/// The most that the losses differ, as a part of them.
const MOST_ERROR: f64 = 1e-3;

/// Trees one behind the other, their words, and the label of each vertex.
#[derive(Default)]
struct Trees {
    first_vertex: Vec<i64>,
    first_child: Vec<i64>,
    children: Vec<i32>,
    rows: Vec<i32>,
    /// `[leaves][2]`: 1 in the column of the word.
    words: Vec<f64>,
    labels: Vec<i32>,
}

impl Trees {
    fn random(random: &mut StdRng) -> Self {
        let mut trees = Self { first_vertex: vec![0], first_child: vec![0], ..Self::default() };
        for _ in 0..TREES {
            let (leaves, first) = (random.random_range(1..=MOST_LEAVES), trees.labels.len());
            trees.grow(random, leaves, first, &mut 0);
            trees.first_vertex.push(trees.labels.len() as i64);
        }
        trees
    }

    /// Adds a span of `leaves` words to the tree that begins with vertex `first`; returns the span's vertex.
    fn grow(&mut self, random: &mut StdRng, leaves: usize, first: usize, words: &mut i32) -> usize {
        if leaves == 1 {
            let word = random.random_range(0..2);
            self.words.extend([f64::from(1 - word), f64::from(word)]);
            self.rows.push(*words);
            self.labels.push(word);
            *words += 1;
        } else {
            let left = random.random_range(1..leaves);
            let parts = [left, leaves - left].map(|part| self.grow(random, part, first, words));
            self.children.extend(parts.map(|part| (part - first) as i32));
            self.rows.push(-1);
            self.labels.push(parts.iter().map(|part| self.labels[*part]).sum::<i32>() % 2);
        }
        self.first_child.push(self.children.len() as i64);
        self.labels.len() - 1
    }

    fn description(&self) -> Description<'_> {
        Description {
            first_vertex: &self.first_vertex,
            first_child: &self.first_child,
            children: &self.children,
            kinds: None,
            rows: Some(&self.rows),
        }
    }
}

/// The mean over all vertices of the cross-entropy of softmax(scores) and label; scores become its gradient.
fn cross_entropy(scores: &mut [f64], labels: &[i32]) -> f64 {
    let mut loss = 0.0;
    for (scores, label) in scores.chunks_exact_mut(2).zip(labels) {
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        let probabilities = [0, 1].map(|class| scores[class].exp() / sum);
        loss -= probabilities[*label as usize].ln() / labels.len() as f64;
        for (class, score) in scores.iter_mut().enumerate() {
            let is_label = f64::from(class as i32 == *label);
            *score = (probabilities[class] - is_label) / labels.len() as f64;
        }
    }
    loss
}

fn main() {
    let mut random = StdRng::seed_from_u64(1);
    let trees = Trees::random(&mut random);
    let declaration: Declaration = nets::tree_lstm(2, HIDDEN, Some(2)).parse().expect("the net's text is right");
    let net = Net::new(declaration.clone()).expect("the net is right");
    let graphs = Graphs::new(&trees.description()).expect("trees are graphs");
    let maxima = Maxima { graphs: TREES, vertices: trees.labels.len(), children: trees.children.len(), levels: 16 };
    let mut batch = Batch::new(maxima, &net, Policy::of(&net)).expect("there is memory");
    let ids: Vec<_> = (0..TREES as i64).collect();
    batch.set(&net, &graphs, &ids).expect("the net takes the trees");
    let executor = Executor::new(&net, true, Threads::new(0));
    println!(
        "{TREES} trees of {} vertices, {} levels; {} threads",
        batch.vertices(),
        batch.levels(),
        executor.threads()
    );

    let sizes = declaration.parameters.iter().map(|size| size.elements());
    let mut in_double: Vec<Vec<f64>> =
        sizes.map(|count| (0..count).map(|_| random.random_range(-0.4..0.4)).collect()).collect();
    let mut in_float: Vec<Vec<f32>> =
        in_double.iter().map(|its| its.iter().map(|number| *number as f32).collect()).collect();
    let words: Vec<_> = trees.words.iter().map(|number| *number as f32).collect();
    let memory = executor.with_step(executor.memory::<f32>(&batch), 1, batch.vertices());
    let (mut workspace, mut reserve) = (vec![0.0; memory.workspace], vec![0.0; memory.reserve]);
    let step = host::Step { push: 1, labels: &trees.labels, learning_rate: RATE, weight_decay: 0.0 };

    let every: Vec<_> = (0..TREES).collect();
    let pulls = [oracle::Pull::Rows(trees.words.clone())];
    let nothing: Vec<_> = declaration.pushes.iter().map(|width| vec![0.0; width * batch.vertices()]).collect();
    let mut times = [Duration::ZERO; 2];
    println!("{:>5} {:>12} {:>12} {:>10} {:>10}", "step", "host's loss", "oracle's", "host, ms", "oracle, ms");
    for number in 0..=STEPS {
        let start = Instant::now();
        let mut parameters: Vec<_> = in_float.iter_mut().map(Vec::as_mut_slice).collect();
        let to = (&mut workspace[..], &mut reserve[..]);
        let pull = [host::Pull::Rows(&words)];
        let loss = executor.step(&batch, &mut parameters, &pull, &step, None, to).expect("the arguments are right");
        times[0] += start.elapsed();

        let start = Instant::now();
        let mut gradients = nothing.clone();
        let run = |push_gradients: &[Vec<f64>], parameters: &[Vec<f64>]| {
            let inputs = oracle::Inputs { parameters, pulls: &pulls, push_gradients };
            oracle::run(&declaration, &trees.description(), &every, inputs)
        };
        gradients[1] = run(&gradients, &in_double).pushes.swap_remove(1);
        let expected = cross_entropy(&mut gradients[1], &trees.labels);
        let found = run(&gradients, &in_double).parameter_gradients;
        let both = in_double.iter_mut().flatten().zip(found.iter().flatten());
        both.for_each(|(number, gradient)| *number -= RATE * gradient);
        times[1] += start.elapsed();
        if number % SHOWN == 0 {
            let [host, oracle] = times.map(|time| time.as_secs_f64() * 1e3 / (number + 1) as f64);
            println!("{number:>5} {loss:>12.6} {expected:>12.6} {host:>10.3} {oracle:>10.1}");
        }
        if (loss - expected).abs() > MOST_ERROR * expected.max(0.01) {
            eprintln!("step {number}: the host's loss is {loss}, the oracle's {expected}");
            std::process::exit(1);
        }
    }
}
