//! One time step of one sequence, after its matrix products.

use super::element::Number;
use super::{Cell, Network};

/// Turns `gates`, which hold Wx + b for each gate, and `recurrent`, which holds Rh + d, into activated gates and new
/// states. Only LSTM uses `c`; `h` holds GRU's old state, and receives the new one before any projection.
pub fn step<N: Number>(network: &Network, gates: &mut [N], recurrent: &[N], h: &mut [N], c: &mut [N]) {
    let hidden = network.hidden;
    let inputs = gates.iter_mut().zip(recurrent);
    match network.cell {
        Cell::Relu => inputs.for_each(|(gate, &recurrent)| *gate = (*gate + recurrent).relu()),
        Cell::Tanh => inputs.for_each(|(gate, &recurrent)| *gate = (*gate + recurrent).tanh()),
        Cell::Lstm => inputs.enumerate().for_each(|(i, (gate, &recurrent))| {
            let sum = *gate + recurrent;
            *gate = if i / hidden == 2 { sum.tanh() } else { sum.logistic() };
        }),
        Cell::Gru => {
            inputs.take(2 * hidden).for_each(|(gate, &recurrent)| *gate = (*gate + recurrent).logistic());
            let (reset, new) = gates.split_at_mut(2 * hidden);
            for ((new, &reset), &recurrent) in new.iter_mut().zip(&*reset).zip(&recurrent[2 * hidden..]) {
                *new = (*new + reset * recurrent).tanh();
            }
        }
    }
    let gate = |id: usize, unit: usize| gates[id * hidden + unit];
    for unit in 0..hidden {
        h[unit] = match network.cell {
            Cell::Relu | Cell::Tanh => gate(0, unit),
            Cell::Lstm => {
                let sum = gate(1, unit) * c[unit] + gate(0, unit) * gate(2, unit);
                c[unit] = network.clip.as_ref().map_or(sum, |clip| sum.clip(clip));
                gate(3, unit) * c[unit].tanh()
            }
            Cell::Gru => (N::one() - gate(1, unit)) * gate(2, unit) + gate(1, unit) * h[unit],
        };
    }
}
