//! One time step of one sequence, between its matrix products: forward, and the gradients.

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

/// The gradients of a step, given those of its states: `dh` of h before any projection, and LSTM's `dc`. Leaves in both
/// the gradients of the states before the step, without what comes to h through R.
///
/// `gates` holds the activated gates, and then the gradients of the sums that they are functions of; `inner` holds
/// LSTM's c, or GRU's Rh + d of n and then its gradient. `before` is LSTM's c or GRU's h before the step.
pub fn gradient<N: Number>(
    network: &Network,
    gates: &mut [N],
    inner: &mut [N],
    before: &[N],
    dh: &mut [N],
    dc: &mut [N],
) {
    let (hidden, one) = (network.hidden, N::one());
    for unit in 0..hidden {
        let gate = |id: usize| gates[id * hidden + unit];
        // The derivatives of σ and tanh, from their values.
        let logistic = |value: N| value * (one - value);
        let tanh = |value: N| one - value * value;
        let dh = &mut dh[unit];
        match network.cell {
            Cell::Relu => {
                gates[unit] = if gate(0) <= N::zero() { N::zero() } else { *dh };
                *dh = N::zero();
            }
            Cell::Tanh => {
                gates[unit] = *dh * tanh(gate(0));
                *dh = N::zero();
            }
            Cell::Lstm => {
                let [input, forget, new, output] = [0, 1, 2, 3].map(gate);
                let activated = inner[unit].tanh();
                let mut d_sum = dc[unit] + *dh * output * tanh(activated);
                if network.clip.is_some_and(|clip| inner[unit].is_clipped(&clip)) {
                    d_sum = N::zero();
                }
                let d_output = *dh * activated * logistic(output);
                let d_gates = [
                    d_sum * new * logistic(input),
                    d_sum * before[unit] * logistic(forget),
                    d_sum * input * tanh(new),
                    d_output,
                ];
                d_gates.into_iter().enumerate().for_each(|(id, d)| gates[id * hidden + unit] = d);
                (*dh, dc[unit]) = (N::zero(), d_sum * forget);
            }
            Cell::Gru => {
                let [reset, update, new] = [0, 1, 2].map(gate);
                let d_new = *dh * (one - update) * tanh(new);
                let d_gates =
                    [d_new * inner[unit] * logistic(reset), *dh * (before[unit] - new) * logistic(update), d_new];
                d_gates.into_iter().enumerate().for_each(|(id, d)| gates[id * hidden + unit] = d);
                inner[unit] = d_new * reset;
                *dh = *dh * update;
            }
        }
    }
}
