//! Gradients of the weights: for each pseudo layer, products over all rows of what `backward_data` left in the reserve.

use super::element::{Stored, add_transposed};
use super::reserve::Reserve;
use super::rows::{Arena, add, load, load_rows, load_states, row, row_mut, scale, store, total};
use super::{Cell, Network, Sequences};

/// The program's data, in [`Operands`](super::Operands)' layout.
#[derive(Debug)]
pub struct WeightOperands<'a, S> {
    /// The input; padding is not read.
    pub x: &'a [S],
    /// The initial hidden state.
    pub hx: Option<&'a [S]>,
    /// The output, by `forward`.
    pub y: &'a [S],
    /// The weight space's gradient, which is added to.
    pub dweights: &'a mut [S],
}

/// The numbers of workspace that [`backward_weights`] needs for sequences of up to `steps` steps; `None` if their byte
/// count could overflow.
pub fn backward_weights_workspace_len(network: &Network, steps: usize, batch: usize) -> Option<usize> {
    let rows = steps.checked_mul(batch)?;
    let wide = network.input.max(network.output());
    let per_row = wide.checked_add(network.output())?.checked_add(network.projection)?;
    let per_row = per_row.checked_add(network.gate_rows())?;
    let weights = network.matrix_count(0).max(network.matrix_count(1)).checked_add(network.gate_rows());
    total([rows.checked_mul(per_row), batch.checked_mul(network.projection), weights])
}

/// Adds the gradients to `dweights`, after `backward_data` with the same `reserve`, which stays as it is. `dropout` says
/// whether `forward` had it.
///
/// # Panics
/// If a slice is too short.
pub fn backward_weights<S: Stored>(
    network: &Network,
    sequences: &Sequences,
    operands: WeightOperands<S>,
    dropout: bool,
    workspace: &mut [S::Number],
    reserve: &mut [S::Number],
) {
    let WeightOperands { x, hx, y, dweights } = operands;
    let (rows, batch) = (sequences.rows(), sequences.batch());
    let Network { hidden, projection, .. } = *network;
    let gate_rows = network.gate_rows();
    let mut workspace = Arena(workspace);
    let (inputs, last_output) =
        (workspace.take(rows * network.input.max(network.output())), workspace.take(rows * network.output()));
    let (before, first) = (workspace.take(rows * projection), workspace.take(batch * projection));
    let d_recurrent = workspace.take(if network.cell == Cell::Gru { rows * gate_rows } else { 0 });
    let d_matrices = workspace.take(network.matrix_count(0).max(network.matrix_count(1)));
    let d_biases = workspace.take(gate_rows);
    let reserve = Reserve::new(network, rows, dropout, reserve);

    load_rows(sequences, last_output, y, network.output());
    for pseudo_layer in 0..network.pseudo_layers() {
        let (layer, direction) = (pseudo_layer / network.directions, pseudo_layer % network.directions);
        let kept = &reserve.pseudo_layers[pseudo_layer];
        let output = reserve.outputs.get(layer).map_or(&*last_output, |output| output);
        let inputs = &mut inputs[..rows * network.layer_input(layer)];
        match layer {
            0 => load_rows(sequences, inputs, x, network.input),
            _ => inputs.copy_from_slice(reserve.outputs[layer - 1]),
        }
        if !kept.mask.is_empty() {
            scale(inputs, kept.mask);
        }
        load_states(sequences, pseudo_layer, first, hx, projection);
        for step in 0..sequences.steps() {
            let (active, start) = sequences.step(step);
            for rank in 0..active {
                let h = match sequences.row_before(step, rank, direction == 1) {
                    None => row(first, rank, projection),
                    Some(before) => row(row(output, before, network.output()), direction, projection),
                };
                row_mut(before, start + rank, projection).copy_from_slice(h);
            }
        }
        let to = d_recurrent.chunks_exact_mut(gate_rows);
        to.enumerate().for_each(|(at, to)| kept.load_recurrent(at, hidden, to));
        let d_recurrent = if network.cell == Cell::Gru { &*d_recurrent } else { &*kept.gates };

        let d_matrices = &mut d_matrices[..network.matrix_count(layer)];
        let space = &mut dweights[network.matrices_before(pseudo_layer)..][..d_matrices.len()];
        load(d_matrices, space);
        let columns = network.input_columns(layer);
        let (d_w, d_rest) = d_matrices.split_at_mut(gate_rows * columns);
        let (d_r, d_projection) = d_rest.split_at_mut(gate_rows * projection);
        if columns > 0 {
            add_transposed(d_w, kept.gates, inputs, [gate_rows, columns, rows]);
        }
        add_transposed(d_r, d_recurrent, before, [gate_rows, projection, rows]);
        if network.projects() {
            add_transposed(d_projection, kept.projected, kept.unprojected, [projection, hidden, rows]);
        }
        store(space, d_matrices);

        for (id, d_gates) in [(0, &*kept.gates), (network.cell.gates(), d_recurrent)] {
            let Some(bias) = network.bias(pseudo_layer, id) else { continue };
            let space = &mut dweights[bias.offset..][..gate_rows];
            load(d_biases, space);
            d_gates.chunks_exact(gate_rows).for_each(|d_gates| add(d_biases, d_gates));
            store(space, d_biases);
        }
    }
}
