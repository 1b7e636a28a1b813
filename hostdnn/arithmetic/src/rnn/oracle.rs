//! RNNs by their definition, sequence by sequence and unit by unit, in double precision: the reference for `forward`.

use super::{Cell, Network, Region, Sequences};

/// The results of a network, in `forward`'s layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Rows of the last layer's output; those past a sequence's end hold the padding fill.
    pub y: Vec<f64>,
    /// `[pseudo layers, B, P]`
    pub hy: Vec<f64>,
    /// `[pseudo layers, B, H]`; only for LSTM.
    pub cy: Vec<f64>,
}

/// Runs a network on data laid out as `forward`'s [`Operands`](super::Operands). Missing initial states are 0.
pub fn forward(
    network: &Network,
    sequences: &Sequences,
    x: &[f64],
    weights: &[f64],
    hx: Option<&[f64]>,
    cx: Option<&[f64]>,
    padding_fill: f64,
) -> Outcome {
    let Network { hidden, projection, .. } = *network;
    let states = network.pseudo_layers() * sequences.batch();
    let cell = if network.has_cell_state() { hidden } else { 0 };
    let mut outcome = Outcome {
        y: vec![padding_fill; sequences.memory_rows() * network.output()],
        hy: vec![f64::NAN; states * projection],
        cy: vec![f64::NAN; states * cell],
    };
    for sequence in 0..sequences.batch() {
        let length = sequences.length(sequence);
        let row = |step| sequences.memory_row(step, sequence);
        let mut input: Vec<Vec<f64>> =
            (0..length).map(|step| x[row(step) * network.input..][..network.input].to_vec()).collect();
        for layer in 0..network.layers {
            let mut output = vec![vec![f64::NAN; network.output()]; length];
            for direction in 0..network.directions {
                let pseudo_layer = layer * network.directions + direction;
                let state = pseudo_layer * sequences.batch() + sequence;
                let at_first = |from: Option<&[f64]>, width: usize| {
                    from.map_or(vec![0.0; width], |from| from[state * width..][..width].to_vec())
                };
                let (mut h, mut c) = (at_first(hx, projection), at_first(cx, cell));
                for i in 0..length {
                    let step = if direction == 0 { i } else { length - 1 - i };
                    (h, c) = advance(network, pseudo_layer, weights, &input[step], &h, &c);
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

/// The states after one time step.
fn advance(n: &Network, pseudo_layer: usize, weights: &[f64], x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let gates = n.cell.gates();
    let dot = |matrix: Region, unit: usize, vector: &[f64]| -> f64 {
        let row = &weights[matrix.offset + unit * matrix.columns..][..matrix.columns];
        row.iter().zip(vector).map(|(w, v)| w * v).sum()
    };
    let bias = |id: usize, unit: usize| n.bias(pseudo_layer, id).map_or(0.0, |bias| weights[bias.offset + unit]);
    let from_input = |gate: usize, unit: usize| {
        n.matrix(pseudo_layer, gate).map_or(x[unit % x.len()], |w| dot(w, unit, x)) + bias(gate, unit)
    };
    let from_state = |gate: usize, unit: usize| {
        n.matrix(pseudo_layer, gates + gate).map_or(f64::NAN, |r| dot(r, unit, h)) + bias(gates + gate, unit)
    };
    let sum = |gate: usize, unit: usize| from_input(gate, unit) + from_state(gate, unit);
    let logistic = |value: f64| 1.0 / (1.0 + (-value).exp());

    let (mut next_h, mut next_c) = (vec![f64::NAN; n.hidden], c.to_vec());
    for unit in 0..n.hidden {
        next_h[unit] = match n.cell {
            Cell::Relu => sum(0, unit).max(0.0),
            Cell::Tanh => sum(0, unit).tanh(),
            Cell::Lstm => {
                let [input, forget, output] = [0, 1, 3].map(|gate| logistic(sum(gate, unit)));
                next_c[unit] = forget * c[unit] + input * sum(2, unit).tanh();
                if let Some(clip) = n.clip {
                    next_c[unit] = next_c[unit].clamp(clip.least, clip.most);
                }
                output * next_c[unit].tanh()
            }
            Cell::Gru => {
                let [reset, update] = [0, 1].map(|gate| logistic(sum(gate, unit)));
                let new = (from_input(2, unit) + reset * from_state(2, unit)).tanh();
                (1.0 - update) * new + update * h[unit]
            }
        };
    }
    if let Some(projection) = n.matrix(pseudo_layer, 2 * gates) {
        next_h = (0..n.projection).map(|unit| dot(projection, unit, &next_h)).collect();
    }
    (next_h, next_c)
}
