//! Gradients of the input and of the initial states: back through the time steps of each layer, from the last one down.
//!
//! The gradients of the sums inside of the cells replace the gates in the reserve, for `backward_weights`.

use super::element::{Number, Stored, add_product};
use super::reserve::{Keeps, Kept, Reserve};
use super::rows::{Arena, add, load, load_rows, load_states, row, row_mut, scale, store_rows, store_states, total};
use super::{Cell, Network, Sequences, cell};

/// The program's data, in [`Operands`](super::Operands)' layout. Gradients are of a loss; missing ones of the last
/// states are 0, and missing results are not computed.
#[derive(Debug)]
pub struct DataOperands<'a, S> {
    /// The output, by `forward`.
    pub y: &'a [S],
    /// The output's gradient; padding is not read.
    pub dy: &'a [S],
    /// The weight space.
    pub weights: &'a [S],
    /// The initial hidden state.
    pub hx: Option<&'a [S]>,
    /// LSTM's initial cell state.
    pub cx: Option<&'a [S]>,
    /// The gradient of the last hidden state.
    pub dhy: Option<&'a [S]>,
    /// The gradient of LSTM's last cell state.
    pub dcy: Option<&'a [S]>,
    /// The input's gradient; 0 in padding.
    pub dx: &'a mut [S],
    /// The gradient of the initial hidden state.
    pub dhx: Option<&'a mut [S]>,
    /// The gradient of LSTM's initial cell state.
    pub dcx: Option<&'a mut [S]>,
}

/// The numbers of workspace that [`backward_data`] needs for sequences of up to `steps` steps; `None` if their byte
/// count could overflow.
pub fn backward_data_workspace_len(network: &Network, steps: usize, batch: usize) -> Option<usize> {
    let rows = steps.checked_mul(batch)?;
    let wide = network.input.max(network.output());
    let per_row = wide.checked_mul(3)?.checked_add(network.output())?;
    let states = network.projection.checked_add(network.hidden.checked_mul(3)?)?.checked_add(network.gate_rows())?;
    let weights = network.matrix_count(0).max(network.matrix_count(1)).checked_add(network.hidden);
    total([rows.checked_mul(per_row), batch.checked_mul(states), weights])
}

/// Computes gradients, after `forward` with the same `reserve` and, where they are the same arguments, operands.
/// `dropout` says whether `forward` had it. The reserve can be used once: its gates make room for gradients.
///
/// # Panics
/// If a slice is too short.
pub fn backward_data<S: Stored>(
    network: &Network,
    sequences: &Sequences,
    operands: DataOperands<S>,
    dropout: bool,
    workspace: &mut [S::Number],
    reserve: &mut [S::Number],
    keeps: Keeps,
) {
    let DataOperands { y, dy, weights, hx, cx, dhy, dcy, dx, mut dhx, mut dcx } = operands;
    let (rows, batch) = (sequences.rows(), sequences.batch());
    let wide = rows * network.input.max(network.output());
    let states = |there: bool| if there { batch * network.hidden } else { 0 };
    let mut workspace = Arena(workspace);
    let (mut d_output, mut d_input) = (workspace.take(wide), workspace.take(wide));
    let (through, last_output) = (workspace.take(wide), workspace.take(rows * network.output()));
    let mut scratch = Scratch {
        matrices: workspace.take(network.matrix_count(0).max(network.matrix_count(1))),
        first: workspace.take(states(network.keeps_inner())),
        before: workspace.take(network.hidden),
        dh: workspace.take(batch * network.projection),
        dc: workspace.take(states(network.has_cell_state())),
        unprojected: workspace.take(states(network.projects())),
        d_recurrent: workspace.take(if network.cell == Cell::Gru { batch * network.gate_rows() } else { 0 }),
    };
    let mut reserve = Reserve::new(network, rows, dropout, reserve);

    load_rows(sequences, d_output, dy, network.output());
    load_rows(sequences, last_output, y, network.output());
    for layer in (0..network.layers).rev() {
        let width = network.layer_input(layer);
        let (d_input_rows, through) = (&mut d_input[..rows * width], &mut through[..rows * width]);
        d_input_rows.fill(S::Number::default());
        let output = reserve.outputs.get(layer).map_or(&*last_output, |output| output);
        for direction in 0..network.directions {
            let pseudo_layer = layer * network.directions + direction;
            let kept = &mut reserve.pseudo_layers[pseudo_layer];
            let matrices = &weights[network.matrices_before(pseudo_layer)..][..network.matrix_count(layer)];
            load(&mut scratch.matrices[..matrices.len()], matrices);
            let first = if network.has_cell_state() { cx } else { hx };
            load_states(sequences, pseudo_layer, scratch.first, first, network.hidden);
            load_states(sequences, pseudo_layer, scratch.dh, dhy, network.projection);
            load_states(sequences, pseudo_layer, scratch.dc, dcy, network.hidden);
            scratch.steps(network, sequences, pseudo_layer, kept, [output, d_output], |kept| keeps.round::<S>(kept));
            through.fill(S::Number::default());
            scratch.through_inputs(network, layer, kept.gates, through);
            if !kept.mask.is_empty() {
                scale(through, kept.mask);
            }
            add(d_input_rows, through);
            store_states(sequences, pseudo_layer, dhx.as_deref_mut(), scratch.dh, network.projection);
            store_states(sequences, pseudo_layer, dcx.as_deref_mut(), scratch.dc, network.hidden);
        }
        std::mem::swap(&mut d_input, &mut d_output);
    }
    // The gradient of a layer's input is that of the output of the layer below.
    store_rows(sequences, dx, d_output, network.input, S::store(S::Number::default()));
}

/// One pseudo layer's weights and states, the latter by rank.
struct Scratch<'a, N> {
    matrices: &'a mut [N],
    /// The initial states that gradients depend on, LSTM's c or GRU's h: `[B, H]`.
    first: &'a mut [N],
    /// Such a state before one step of one sequence.
    before: &'a mut [N],
    /// The gradients of the states after a step, and in the end of the initial ones.
    dh: &'a mut [N],
    dc: &'a mut [N],
    /// The gradient of h before the projection: `[B, H]`.
    unprojected: &'a mut [N],
    /// GRU's gradients of Rh + d of one time step: `[B, G·H]`.
    d_recurrent: &'a mut [N],
}

impl<N: Number> Scratch<'_, N> {
    /// Goes through all time steps, against the direction's order. A sequence joins in at its own last step. `round`
    /// rounds gradients as the reserve stores them.
    fn steps(
        &mut self,
        network: &Network,
        sequences: &Sequences,
        pseudo_layer: usize,
        kept: &mut Kept<N>,
        [output, d_output]: [&[N]; 2],
        round: impl Fn(&mut [N]),
    ) {
        let Network { hidden, projection, directions, .. } = *network;
        let (gate_rows, direction) = (network.gate_rows(), pseudo_layer % directions);
        let matrices = &self.matrices[gate_rows * network.input_columns(pseudo_layer / directions)..];
        let (r, matrices) = matrices.split_at(gate_rows * projection);
        for step in 0..sequences.steps() {
            let step = if direction == 1 { step } else { sequences.steps() - 1 - step };
            let (active, start) = sequences.step(step);
            let dh = &mut self.dh[..active * projection];
            for rank in 0..active {
                let d_output = row(d_output, start + rank, network.output());
                add(row_mut(dh, rank, projection), row(d_output, direction, projection));
            }
            let dh = if network.projects() {
                let projected = &mut kept.projected[start * projection..][..dh.len()];
                projected.copy_from_slice(dh);
                round(projected);
                let unprojected = &mut self.unprojected[..active * hidden];
                unprojected.fill(N::zero());
                add_product(unprojected, dh, &matrices[..projection * hidden], [active, hidden, projection]);
                dh.fill(N::zero());
                unprojected
            } else {
                dh
            };
            for rank in 0..active {
                let at = start + rank;
                let gates = row_mut(kept.gates, at, gate_rows);
                let dc = if self.dc.is_empty() { &mut [] } else { row_mut(self.dc, rank, hidden) };
                if !network.keeps_inner() {
                    cell::gradient(network, gates, &mut [], &[], row_mut(dh, rank, hidden), dc);
                    round(gates);
                    continue;
                }
                self.before.copy_from_slice(match sequences.row_before(step, rank, direction == 1) {
                    None => row(self.first, rank, hidden),
                    Some(before) if network.has_cell_state() => row(kept.inner, before, hidden),
                    Some(before) => row(row(output, before, network.output()), direction, hidden),
                });
                let inner = row_mut(kept.inner, at, hidden);
                cell::gradient(network, gates, inner, self.before, row_mut(dh, rank, hidden), dc);
                round(gates);
                if !network.has_cell_state() {
                    round(inner);
                }
                if !self.d_recurrent.is_empty() {
                    kept.load_recurrent(at, hidden, row_mut(self.d_recurrent, rank, gate_rows));
                }
            }
            let d_recurrent = match network.cell {
                Cell::Gru => &self.d_recurrent[..active * gate_rows],
                _ => &kept.gates[start * gate_rows..][..active * gate_rows],
            };
            add_product(&mut self.dh[..active * projection], d_recurrent, r, [active, projection, gate_rows]);
        }
    }

    /// Adds to a layer's input what comes to it through W.
    fn through_inputs(&self, network: &Network, layer: usize, d_gates: &[N], d_input: &mut [N]) {
        let (gate_rows, columns) = (network.gate_rows(), network.input_columns(layer));
        if columns == 0 {
            for (d_gates, d_input) in d_gates.chunks_exact(gate_rows).zip(d_input.chunks_exact_mut(network.hidden)) {
                d_gates.chunks_exact(network.hidden).for_each(|gate| add(d_input, gate));
            }
        } else {
            let size = [d_gates.len() / gate_rows, columns, gate_rows];
            add_product(d_input, d_gates, &self.matrices[..gate_rows * columns], size);
        }
    }
}
