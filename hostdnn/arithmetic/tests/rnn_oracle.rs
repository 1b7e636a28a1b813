//! The oracle of recurrent networks against itself: its gradients in reverse mode against central differences.

use hostdnn_arithmetic::rnn::oracle::{Inputs, Outcome, forward, gradients};
use hostdnn_arithmetic::rnn::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;

const NETWORKS: usize = 40;
/// The step of a difference, to either side.
const STEP: f64 = 1e-5;
/// Steps stay on one side of the places without a derivative.
const DISTANCE: f64 = 100.0 * STEP;

fn random_network(rng: &mut StdRng) -> (Network, Sequences) {
    let cell = [Cell::Relu, Cell::Tanh, Cell::Lstm, Cell::Gru][rng.random_range(0..4)];
    let hidden = rng.random_range(1..6);
    let skip_input = rng.random_ratio(1, 4);
    let lstm = cell == Cell::Lstm;
    let network = Network {
        cell,
        input_bias: rng.random(),
        recurrent_bias: rng.random(),
        directions: rng.random_range(1..=2),
        layers: rng.random_range(1..=3),
        input: if skip_input { hidden } else { rng.random_range(1..6) },
        hidden,
        projection: if lstm && rng.random() { rng.random_range(1..=hidden) } else { hidden },
        skip_input,
        clip: (lstm && rng.random()).then_some(Clip { least: -0.3, most: 0.2, keep_nan: true }),
    };
    let layout = [Layout::SequenceMajor, Layout::Packed, Layout::BatchMajor][rng.random_range(0..3)];
    let packed = layout == Layout::Packed;
    let mut lengths: Vec<usize> =
        (0..rng.random_range(1..4)).map(|_| rng.random_range(usize::from(packed)..6)).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let steps = if packed { lengths[0] } else { 5 };
    (network, Sequences::new(layout, steps, lengths))
}

/// The errors of a network's gradients of x, the weights, hx and cx, relative to their norms; `None` too near a place
/// without a derivative.
fn errors(network: &Network, sequences: &Sequences, rng: &mut StdRng) -> Option<[f64; 4]> {
    let states = network.pseudo_layers() * sequences.batch();
    let cells = if network.cell == Cell::Lstm { states * network.hidden } else { 0 };
    let rows = sequences.memory_rows();
    let mut random = |count: usize| -> Vec<f64> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
    let mut inputs =
        [rows * network.input, network.weight_count().unwrap(), states * network.projection, cells].map(&mut random);
    let loss = [rows * network.output(), states * network.projection, cells].map(&mut random);
    let factors = (network.pseudo_layers() - network.directions) * sequences.rows() * network.output();
    let masks: Vec<f64> = random(factors).into_iter().map(|value| if value < -0.4 { 0.0 } else { 1.0 / 0.7 }).collect();
    let loss = {
        let [y, hy, cy] = loss;
        Outcome { y, hy, cy }
    };
    let given = |inputs: &[Vec<f64>; 4]| -> Outcome {
        let [x, weights, hx, cx] = inputs;
        forward(network, sequences, Inputs { x, weights, hx: Some(hx), cx: Some(cx), masks: Some(&masks) }, 0.0)
    };
    let value = |outcome: &Outcome| -> f64 {
        let pairs = [(&outcome.y, &loss.y), (&outcome.hy, &loss.hy), (&outcome.cy, &loss.cy)];
        pairs.into_iter().flat_map(|(got, factors)| got.iter().zip(factors)).map(|(got, factor)| got * factor).sum()
    };

    let [x, weights, hx, cx] = &inputs;
    let on_tape = Inputs { x, weights, hx: Some(hx), cx: Some(cx), masks: Some(&masks) };
    let (outcome, got) = gradients(network, sequences, on_tape, &loss);
    if got.distance < DISTANCE {
        return None;
    }
    let plain = given(&inputs);
    assert_eq!((&outcome.hy, &outcome.cy), (&plain.hy, &plain.cy), "the tape changes no result");
    let gradients = [got.dx, got.dweights, got.dhx, got.dcx];
    Some([0, 1, 2, 3].map(|which| {
        let got = &gradients[which];
        assert_eq!(got.len(), inputs[which].len());
        let mut differences = vec![0.0; got.len()];
        for (at, difference) in differences.iter_mut().enumerate() {
            let middle = inputs[which][at];
            let [above, below] = [STEP, -STEP].map(|step| {
                inputs[which][at] = middle + step;
                value(&given(&inputs))
            });
            inputs[which][at] = middle;
            *difference = (above - below) / (2.0 * STEP);
        }
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
        let error = norm(&mut got.iter().zip(&differences).map(|(got, want)| got - want));
        error / norm(&mut differences.iter().copied()).max(1e-3)
    }))
}

#[test]
fn gradients_of_the_oracle_are_central_differences() {
    let (mut compared, mut worst, mut kinds) = (0, 0.0f64, HashSet::new());
    let mut seeds = 0..;
    while compared < NETWORKS {
        let seed = seeds.next().unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        let (network, sequences) = random_network(&mut rng);
        let Some(errors) = errors(&network, &sequences, &mut rng) else { continue };
        // Not `>`: NaN must not pass.
        assert!(errors.iter().all(|&error| error <= 1e-7), "seed {seed}: {errors:?} of {network:?}");
        compared += 1;
        worst = errors.into_iter().fold(worst, f64::max);
        kinds.insert(format!("{:?} in {} directions", network.cell, network.directions));
        kinds.insert(format!("projection {}", network.projection != network.hidden));
        kinds.insert(format!("clipping {}", network.clip.is_some()));
    }
    assert!(kinds.len() == 8 + 2 + 2, "not all kinds of networks: {kinds:?}");
    eprintln!("{NETWORKS} of {} networks, worst error {worst:.1e}", seeds.start);
}
