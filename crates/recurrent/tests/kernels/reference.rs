//! A recurrence in double precision.

use super::case::{Case, Data};
use ucudnn_recurrent::configuration::{Cell, Problem};
use ucudnn_recurrent::testing::reference_f64::{Arithmetic, Rounded};

/// The expected results.
pub struct Expected {
    /// h of each batch row, each of its steps by time, and each unit.
    pub y: Vec<Vec<Vec<Rounded>>>,
    /// The last h and c of each batch row.
    pub h: Vec<Vec<Rounded>>,
    pub c: Vec<Vec<Rounded>>,
}

/// Computes a case from W x, which `x` returns for a batch row, its step by time, and a column.
pub fn compute(case: &Case, data: &Data, x: impl Fn(usize, usize, usize) -> Rounded) -> Expected {
    let Problem { cell, element, hidden, batch, .. } = case.problem;
    let arithmetic = Arithmetic::of(element, case.configuration.math);
    let gates = cell.gates();
    let given = |value: f64| Rounded::exact(if case.has_states { value } else { 0.0 });
    let weights = case.matrices(&data.weights, gates * hidden * hidden);
    let mut expected = Expected { y: vec![], h: vec![], c: vec![] };
    for row in 0..batch {
        let state = |unit: usize| row * hidden + unit;
        let mut h: Vec<_> = (0..hidden).map(|unit| given(data.h0.get(state(unit)))).collect();
        let mut c: Vec<_> = (0..hidden).map(|unit| given(data.c0.get(state(unit)))).collect();
        let length = data.lengths[row];
        let mut y = vec![vec![]; length];
        for step in 0..length {
            let time = if case.reverse { length - 1 - step } else { step };
            let [beside_w, beside_r] =
                data.biases.each_ref().map(|biases| move |column: usize| given(biases.get(column)));
            // The recurrent bias of GRU's last gate is inside the product with the reset gate.
            let is_inside = |gate: usize| cell == Cell::Gru && gate == 2;
            let x = |gate, unit| {
                let column = gate * hidden + unit;
                let bias = if is_inside(gate) { beside_w(column) } else { beside_w(column) + beside_r(column) };
                x(row, time, column) + bias
            };
            let r = |gate, unit, h: &[Rounded]| {
                let column = gate * hidden + unit;
                let product = arithmetic.product(&weights, column, h);
                if is_inside(gate) { product + beside_r(column) } else { product }
            };
            arithmetic.step(cell, x, r, &mut h, &mut c);
            y[time] = h.clone();
        }
        expected.y.push(y);
        expected.h.push(h);
        expected.c.push(c.into_iter().map(|c| arithmetic.stored(c)).collect());
    }
    expected
}
