//! A recurrence in double precision: loops that follow the definitions.

use super::case::{Case, Data};
use super::configuration::{Cell, Problem};

/// What is right.
pub struct Expected {
    /// h of each batch row, at each of its steps by time, of each unit.
    pub y: Vec<Vec<Vec<f64>>>,
    /// The last h and c of each batch row.
    pub h: Vec<Vec<f64>>,
    pub c: Vec<Vec<f64>>,
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// All of a case.
pub fn compute(case: &Case, data: &Data) -> Expected {
    let Problem { cell, hidden, batch, .. } = case.problem;
    let gates = cell.gates();
    let given = |value: f64| if case.has_states { value } else { 0.0 };
    let weight = |gate: usize, unit: usize, other: usize| {
        data.weights.get(case.first_weight() + (gate * hidden + unit) * hidden + other)
    };
    let weights: Vec<f64> =
        (0..gates * hidden * hidden).map(|i| weight(i / (hidden * hidden), i / hidden % hidden, i % hidden)).collect();
    let mut expected = Expected { y: vec![], h: vec![], c: vec![] };
    for row in 0..batch {
        let state = |unit: usize| row * hidden + unit;
        let mut h: Vec<_> = (0..hidden).map(|unit| given(data.h0.get(state(unit)))).collect();
        let mut c: Vec<_> = (0..hidden).map(|unit| given(data.c0.get(state(unit)))).collect();
        let length = data.lengths[row];
        let mut y = vec![vec![]; length];
        for step in 0..length {
            let time = if case.reverse { length - 1 - step } else { step };
            let input = &data.input[data.rows[row][time] * gates * hidden..];
            let mut next = vec![0.0; hidden];
            let reset = |unit: usize, h: &[f64]| {
                let weights = &weights[unit * hidden..][..hidden];
                let product = weights.iter().zip(h).map(|(weight, h)| weight * h).sum::<f64>();
                logistic(f64::from(input[unit]) + product) * h[unit]
            };
            let reset_h: Vec<_> = match cell {
                Cell::CanonicalGru => (0..hidden).map(|unit| reset(unit, &h)).collect(),
                _ => Vec::new(),
            };
            for unit in 0..hidden {
                let x = |gate: usize| f64::from(input[gate * hidden + unit]);
                let r_of = |gate: usize, h: &[f64]| {
                    let weights = &weights[(gate * hidden + unit) * hidden..][..hidden];
                    weights.iter().zip(h).map(|(weight, h)| weight * h).sum::<f64>()
                };
                let r = |gate: usize| r_of(gate, &h);
                let sum = |gate| x(gate) + r(gate);
                next[unit] = match cell {
                    Cell::Tanh => sum(0).tanh(),
                    Cell::Relu => sum(0).max(0.0),
                    Cell::Lstm => {
                        c[unit] = logistic(sum(1)) * c[unit] + logistic(sum(0)) * sum(2).tanh();
                        logistic(sum(3)) * c[unit].tanh()
                    }
                    Cell::CanonicalGru => {
                        let (update, new) = (logistic(sum(1)), (x(2) + r_of(2, &reset_h)).tanh());
                        (1.0 - update) * new + update * h[unit]
                    }
                    Cell::Gru => {
                        let (reset, update) = (logistic(sum(0)), logistic(sum(1)));
                        let new = (x(2) + reset * (r(2) + given(data.reset_bias.get(unit)))).tanh();
                        (1.0 - update) * new + update * h[unit]
                    }
                };
            }
            h = next;
            y[time] = h.clone();
        }
        expected.y.push(y);
        expected.h.push(h);
        expected.c.push(c);
    }
    expected
}
