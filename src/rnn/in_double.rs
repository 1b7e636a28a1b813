//! A time step of a recurrence in double precision: what tests hold kernels against. Loops that follow the definitions.

use super::configuration::Cell;

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// An element of the product of a matrix, [outputs][inputs], and a vector.
pub fn product(matrix: &[f64], output: usize, vector: &[f64]) -> f64 {
    matrix[output * vector.len()..].iter().zip(vector).map(|(weight, element)| weight * element).sum()
}

/// A row of the batch, of which h and c, [hidden] each, become those of the next step. `x(gate, unit)` is W x with its biases;
/// `r(gate, unit, h)` R h, with the bias that is inside of GRU's reset gate.
pub fn step(
    cell: Cell,
    x: impl Fn(usize, usize) -> f64,
    r: impl Fn(usize, usize, &[f64]) -> f64,
    h: &mut [f64],
    c: &mut [f64],
) {
    let old = h.to_vec();
    let reset_h: Vec<_> = match cell {
        Cell::CanonicalGru => {
            old.iter().enumerate().map(|(unit, h)| logistic(x(0, unit) + r(0, unit, &old)) * h).collect()
        }
        _ => vec![],
    };
    for (unit, h) in h.iter_mut().enumerate() {
        let sum = |gate| x(gate, unit) + r(gate, unit, &old);
        let updated = |new: f64| {
            let update = logistic(sum(1));
            (1.0 - update) * new + update * old[unit]
        };
        *h = match cell {
            Cell::Tanh => sum(0).tanh(),
            Cell::Relu => sum(0).max(0.0),
            Cell::Lstm => {
                c[unit] = logistic(sum(1)) * c[unit] + logistic(sum(0)) * sum(2).tanh();
                logistic(sum(3)) * c[unit].tanh()
            }
            Cell::Gru => updated((x(2, unit) + logistic(sum(0)) * r(2, unit, &old)).tanh()),
            Cell::CanonicalGru => updated((x(2, unit) + r(2, unit, &reset_h)).tanh()),
        };
    }
}
