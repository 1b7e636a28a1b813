//! A recurrence in double precision.

use super::case::{Case, Data};
use super::configuration::{Cell, Problem};
use super::in_double;

/// What is right.
pub struct Expected {
    /// h of each batch row, at each of its steps by time, of each unit.
    pub y: Vec<Vec<Vec<f64>>>,
    /// The last h and c of each batch row.
    pub h: Vec<Vec<f64>>,
    pub c: Vec<Vec<f64>>,
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
            let x = |gate, unit| f64::from(input[gate * hidden + unit]);
            let r = |gate, unit, h: &[f64]| {
                let inside = cell == Cell::Gru && gate == 2;
                let bias = if inside { given(data.reset_bias.get(unit)) } else { 0.0 };
                in_double::product(&weights, gate * hidden + unit, h) + bias
            };
            in_double::step(cell, x, r, &mut h, &mut c);
            y[time] = h.clone();
        }
        expected.y.push(y);
        expected.h.push(h);
        expected.c.push(c);
    }
    expected
}
