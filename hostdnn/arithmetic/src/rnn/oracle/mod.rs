//! RNNs by their definition, sequence by sequence and unit by unit, in double precision: the reference for the API's
//! implementation. `tape` differentiates the same loops in reverse mode.

mod tape;

use super::{Cell, Network, Region, Sequences};
use std::ops::{Add, Mul};
pub use tape::{Gradients, gradients};

/// A number that a network can run on: a double, or one whose history is kept.
pub trait Scalar: Copy + From<f64> + Add<Output = Self> + Mul<Output = Self> {
    /// max(0, x)
    fn relu(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// σ: 1 / (1 + exp(-x)).
    fn logistic(self) -> Self;
    /// Limits a number to a range.
    fn clamp(self, least: f64, most: f64) -> Self;
}

impl Scalar for f64 {
    fn relu(self) -> Self {
        self.max(0.0)
    }

    fn tanh(self) -> Self {
        f64::tanh(self)
    }

    fn logistic(self) -> Self {
        1.0 / (1.0 + (-self).exp())
    }

    fn clamp(self, least: f64, most: f64) -> Self {
        f64::clamp(self, least, most)
    }
}

/// The arguments of a network, laid out as `forward`'s [`Operands`](super::Operands).
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    /// The input.
    pub x: &'a [T],
    /// The weight space.
    pub weights: &'a [T],
    /// The initial hidden state; 0 if missing.
    pub hx: Option<&'a [T]>,
    /// LSTM's initial cell state; 0 if missing.
    pub cx: Option<&'a [T]>,
    /// Dropout's factors of the input of each pseudo layer above the first layer, in their order: `[rows, D·P]`, with
    /// rows as in the packed layout. No dropout if missing.
    pub masks: Option<&'a [f64]>,
}

/// The results of a network, in `forward`'s layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<T = f64> {
    /// Rows of the last layer's output; those past a sequence's end hold the padding fill.
    pub y: Vec<T>,
    /// `[pseudo layers, B, P]`
    pub hy: Vec<T>,
    /// `[pseudo layers, B, H]`; only for LSTM.
    pub cy: Vec<T>,
}

/// Runs a network.
pub fn forward<T: Scalar>(
    network: &Network,
    sequences: &Sequences,
    inputs: Inputs<T>,
    padding_fill: f64,
) -> Outcome<T> {
    let Inputs { x, weights, hx, cx, masks } = inputs;
    let Network { hidden, projection, .. } = *network;
    let states = network.pseudo_layers() * sequences.batch();
    let cell = if network.has_cell_state() { hidden } else { 0 };
    let mut outcome = Outcome {
        y: vec![padding_fill.into(); sequences.memory_rows() * network.output()],
        hy: vec![f64::NAN.into(); states * projection],
        cy: vec![f64::NAN.into(); states * cell],
    };
    for sequence in 0..sequences.batch() {
        let length = sequences.length(sequence);
        let row = |step| sequences.memory_row(step, sequence);
        let mut input: Vec<Vec<T>> =
            (0..length).map(|step| x[row(step) * network.input..][..network.input].to_vec()).collect();
        for layer in 0..network.layers {
            let mut output = vec![vec![T::from(f64::NAN); network.output()]; length];
            for direction in 0..network.directions {
                let pseudo_layer = layer * network.directions + direction;
                let state = pseudo_layer * sequences.batch() + sequence;
                let at_first = |from: Option<&[T]>, width: usize| {
                    from.map_or(vec![0.0.into(); width], |from| from[state * width..][..width].to_vec())
                };
                let (mut h, mut c) = (at_first(hx, projection), at_first(cx, cell));
                for i in 0..length {
                    let step = if direction == 0 { i } else { length - 1 - i };
                    let mut x = input[step].clone();
                    if let Some(masks) = masks.filter(|_| layer > 0) {
                        let before = (pseudo_layer - network.directions) * sequences.rows();
                        let mask = &masks[(before + packed_row(sequences, step, sequence)) * x.len()..];
                        x.iter_mut().zip(mask).for_each(|(x, &factor)| *x = *x * factor.into());
                    }
                    (h, c) = advance(network, pseudo_layer, weights, &x, &h, &c);
                    output[step][direction * projection..][..projection].copy_from_slice(&h);
                }
                outcome.hy[state * projection..][..projection].copy_from_slice(&h);
                outcome.cy[state * cell..][..cell].copy_from_slice(&c);
            }
            input = output;
        }
        for (step, output) in input.iter().enumerate() {
            outcome.y[row(step) * network.output()..][..network.output()].copy_from_slice(output);
        }
    }
    outcome
}

/// The row of a step in the packed layout, whatever the sequences' own layout.
fn packed_row(sequences: &Sequences, step: usize, sequence: usize) -> usize {
    let longer = sequences.ranked().iter().position(|&ranked| ranked == sequence);
    sequences.step(step).1 + longer.unwrap_or(usize::MAX)
}

/// The states after one time step.
fn advance<T: Scalar>(n: &Network, pseudo_layer: usize, weights: &[T], x: &[T], h: &[T], c: &[T]) -> (Vec<T>, Vec<T>) {
    let gates = n.cell.gates();
    let dot = |matrix: Region, unit: usize, vector: &[T]| -> T {
        let row = &weights[matrix.offset + unit * matrix.columns..][..matrix.columns];
        row.iter().zip(vector).fold(0.0.into(), |sum, (&w, &v)| sum + w * v)
    };
    let bias = |id: usize, unit: usize| n.bias(pseudo_layer, id).map_or(0.0.into(), |bias| weights[bias.offset + unit]);
    let from_input = |gate: usize, unit: usize| {
        n.matrix(pseudo_layer, gate).map_or(x[unit % x.len()], |w| dot(w, unit, x)) + bias(gate, unit)
    };
    let from_state = |gate: usize, unit: usize| {
        n.matrix(pseudo_layer, gates + gate).map_or(f64::NAN.into(), |r| dot(r, unit, h)) + bias(gates + gate, unit)
    };
    let sum = |gate: usize, unit: usize| from_input(gate, unit) + from_state(gate, unit);

    let (mut next_h, mut next_c) = (vec![f64::NAN.into(); n.hidden], c.to_vec());
    for unit in 0..n.hidden {
        next_h[unit] = match n.cell {
            Cell::Relu => sum(0, unit).relu(),
            Cell::Tanh => sum(0, unit).tanh(),
            Cell::Lstm => {
                let [input, forget, output] = [0, 1, 3].map(|gate| sum(gate, unit).logistic());
                next_c[unit] = forget * c[unit] + input * sum(2, unit).tanh();
                if let Some(clip) = n.clip {
                    next_c[unit] = next_c[unit].clamp(clip.least, clip.most);
                }
                output * next_c[unit].tanh()
            }
            Cell::Gru => {
                let [reset, update] = [0, 1].map(|gate| sum(gate, unit).logistic());
                let new = (from_input(2, unit) + reset * from_state(2, unit)).tanh();
                (T::from(1.0) + update * T::from(-1.0)) * new + update * h[unit]
            }
        };
    }
    if let Some(projection) = n.matrix(pseudo_layer, 2 * gates) {
        next_h = (0..n.projection).map(|unit| dot(projection, unit, &next_h)).collect();
    }
    (next_h, next_c)
}
