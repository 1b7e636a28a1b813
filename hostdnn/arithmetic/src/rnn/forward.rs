//! The network's results. A layer's Wx of all time steps is one product; each time step is one more product, of the
//! remaining sequences' states, and element-wise work. Half types are computed in float; only results are rounded.

use super::element::{Number, Stored, product};
use super::reserve::{Keeps, Kept, Reserve};
use super::rows::{Arena, add, load, load_rows, load_states, row, row_mut, scale, store_rows, store_states, total};
use super::{Dropout, Network, Sequences, cell};

/// The program's data. Rows of `x` and `y` lie as the sequences' layout says, vectors of `input` and D·P elements; states
/// are `[pseudo layers, B, P]`, c's `[pseudo layers, B, H]`. Initial states are 0 where they are `None`.
#[derive(Debug)]
pub struct Operands<'a, S> {
    /// The input.
    pub x: &'a [S],
    /// The weight space.
    pub weights: &'a [S],
    /// The initial hidden state.
    pub hx: Option<&'a [S]>,
    /// LSTM's initial cell state.
    pub cx: Option<&'a [S]>,
    /// The output.
    pub y: &'a mut [S],
    /// The value of `y`'s rows past a sequence's end.
    pub padding_fill: S,
    /// The hidden state at each sequence's own last step, which is its first one in the backward direction.
    pub hy: Option<&'a mut [S]>,
    /// LSTM's cell state then.
    pub cy: Option<&'a mut [S]>,
}

/// The numbers of workspace that [`forward`] needs for sequences of up to `steps` steps; `None` if their byte count
/// could overflow. A training call keeps its gates in the reserve instead, and has room for a dropped input.
pub fn forward_workspace_len(network: &Network, steps: usize, batch: usize, training: bool) -> Option<usize> {
    let rows = steps.checked_mul(batch)?;
    let wide = network.input.max(network.output());
    let states = network.projection.checked_add(network.hidden.checked_mul(2)?)?.checked_add(network.gate_rows())?;
    let weights = network.matrix_count(0).max(network.matrix_count(1)).checked_add(2 * network.gate_rows());
    let per_row = wide.checked_mul(2)?.checked_add(if training { network.output() } else { network.gate_rows() })?;
    total([rows.checked_mul(per_row), batch.checked_mul(states), weights])
}

/// Computes `y` and the last states. `workspace` and, in training, `reserve` have at least the lengths that
/// [`forward_workspace_len`] and [`reserve_len`](super::reserve_len) return. `dropout`, which needs a reserve, applies
/// to the input of each layer but the first: for each direction it draws `[rows, D·P]` factors anew, in the order of
/// the packed layout.
///
/// # Panics
/// If a slice is too short.
pub fn forward<S: Stored>(
    network: &Network,
    sequences: &Sequences,
    operands: Operands<S>,
    mut dropout: Option<Dropout>,
    workspace: &mut [S::Number],
    reserve: Option<&mut [S::Number]>,
    keeps: Keeps,
) {
    let Operands { x, weights, hx, cx, y, padding_fill, mut hy, mut cy } = operands;
    let (rows, batch) = (sequences.rows(), sequences.batch());
    let wide = rows * network.input.max(network.output());
    let mut workspace = Arena(workspace);
    let (mut input, mut output) = (workspace.take(wide), workspace.take(wide));
    let shared_gates = workspace.take(if reserve.is_some() { 0 } else { rows * network.gate_rows() });
    let dropped = workspace.take(if dropout.is_some() { rows * network.output() } else { 0 });
    let mut scratch = Scratch {
        matrices: workspace.take(network.matrix_count(0).max(network.matrix_count(1))),
        biases: [workspace.take(network.gate_rows()), workspace.take(network.gate_rows())],
        recurrent: workspace.take(batch * network.gate_rows()),
        unprojected: workspace.take(batch * network.hidden),
        h: workspace.take(batch * network.projection),
        c: workspace.take(if network.has_cell_state() { batch * network.hidden } else { 0 }),
    };
    let mut reserve = reserve.map(|numbers| Reserve::new(network, rows, dropout.is_some(), numbers));

    load_rows(sequences, input, x, network.input);
    for layer in 0..network.layers {
        for direction in 0..network.directions {
            let pseudo_layer = layer * network.directions + direction;
            let mut kept = reserve.as_mut().map(|reserve| &mut reserve.pseudo_layers[pseudo_layer]);
            let mut layer_input = &input[..rows * network.layer_input(layer)];
            if let (Some(dropout), Some(kept), 1..) = (&mut dropout, &mut kept, layer) {
                dropout.draw(kept.mask);
                dropped.copy_from_slice(layer_input);
                scale(dropped, kept.mask);
                layer_input = dropped;
            }
            let saves = kept.is_some();
            let (gates, inner, unprojected) = match kept {
                Some(Kept { gates, inner, unprojected, .. }) => (&mut **gates, &mut **inner, &mut **unprojected),
                None => (&mut *shared_gates, Default::default(), Default::default()),
            };
            scratch.load_weights(network, pseudo_layer, weights);
            load_states(sequences, pseudo_layer, scratch.h, hx, network.projection);
            load_states(sequences, pseudo_layer, scratch.c, cx, network.hidden);
            scratch.inputs(network, layer, layer_input, gates);
            scratch.steps(network, sequences, pseudo_layer, gates, [&mut *inner, &mut *unprojected], output);
            if saves {
                keeps.round::<S>(gates);
                keeps.round::<S>(unprojected);
                // A clipped c is known by its being the limit.
                if network.clip.is_none() {
                    keeps.round::<S>(inner);
                }
            }
            store_states(sequences, pseudo_layer, hy.as_deref_mut(), scratch.h, network.projection);
            store_states(sequences, pseudo_layer, cy.as_deref_mut(), scratch.c, network.hidden);
        }
        if let Some(kept) = reserve.as_mut().and_then(|reserve| reserve.outputs.get_mut(layer)) {
            kept.copy_from_slice(&output[..kept.len()]);
            keeps.round::<S>(kept);
        }
        std::mem::swap(&mut input, &mut output);
    }
    // The layer's output is the next layer's input.
    store_rows(sequences, y, input, network.output(), padding_fill);
}

/// One pseudo layer's weights and states, the latter by rank.
struct Scratch<'a, N> {
    matrices: &'a mut [N],
    /// b and d; 0 where there is none.
    biases: [&'a mut [N]; 2],
    /// Rh + d of one time step: `[B, G·H]`.
    recurrent: &'a mut [N],
    /// h before the projection: `[B, H]`.
    unprojected: &'a mut [N],
    h: &'a mut [N],
    c: &'a mut [N],
}

impl<N: Number> Scratch<'_, N> {
    fn load_weights<S: Stored<Number = N>>(&mut self, network: &Network, pseudo_layer: usize, weights: &[S]) {
        let gates = network.cell.gates();
        let count = network.matrix_count(pseudo_layer / network.directions);
        load(&mut self.matrices[..count], &weights[network.matrices_before(pseudo_layer)..][..count]);
        for (id, bias) in [0, gates].into_iter().zip(&mut self.biases) {
            match network.bias(pseudo_layer, id) {
                Some(region) => load(bias, &weights[region.offset..][..bias.len()]),
                None => bias.fill(N::zero()),
            }
        }
    }

    /// Computes Wx + b of all rows.
    fn inputs(&self, network: &Network, layer: usize, input: &[N], gates: &mut [N]) {
        let (gate_rows, columns) = (network.gate_rows(), network.input_columns(layer));
        if columns == 0 {
            for (gates, input) in gates.chunks_exact_mut(gate_rows).zip(input.chunks_exact(network.hidden)) {
                gates.chunks_exact_mut(network.hidden).for_each(|gate| gate.copy_from_slice(input));
            }
        } else {
            let rows = gates.len() / gate_rows;
            product(gates, input, &self.matrices[..gate_rows * columns], [rows, gate_rows, columns]);
        }
        gates.chunks_exact_mut(gate_rows).for_each(|row| add(row, self.biases[0]));
    }

    /// Runs all time steps, in the direction's order. `gates` holds Wx + b, and then the activated gates; beside
    /// it are the reserve's inner and unprojected rows, which may be empty.
    fn steps(
        &mut self,
        network: &Network,
        sequences: &Sequences,
        pseudo_layer: usize,
        gates: &mut [N],
        [inner, kept_unprojected]: [&mut [N]; 2],
        output: &mut [N],
    ) {
        let Network { hidden, projection, directions, .. } = *network;
        let gate_rows = network.gate_rows();
        let backward = pseudo_layer % directions == 1;
        let matrices = &self.matrices[gate_rows * network.input_columns(pseudo_layer / directions)..];
        let (r, matrices) = matrices.split_at(gate_rows * projection);
        for step in 0..sequences.steps() {
            let step = if backward { sequences.steps() - 1 - step } else { step };
            let (active, start) = sequences.step(step);
            let recurrent = &mut self.recurrent[..active * gate_rows];
            product(recurrent, &self.h[..active * projection], r, [active, gate_rows, projection]);
            recurrent.chunks_exact_mut(gate_rows).for_each(|row| add(row, self.biases[1]));
            let h = if network.projects() { &mut *self.unprojected } else { &mut *self.h };
            for rank in 0..active {
                let gates = row_mut(gates, start + rank, gate_rows);
                let c = if self.c.is_empty() { &mut [] } else { row_mut(self.c, rank, hidden) };
                let recurrent = row(recurrent, rank, gate_rows);
                cell::step(network, gates, recurrent, row_mut(h, rank, hidden), c);
                if !inner.is_empty() {
                    let kept = if c.is_empty() { &recurrent[2 * hidden..] } else { c };
                    row_mut(inner, start + rank, hidden).copy_from_slice(kept);
                }
            }
            if network.projects() {
                if !kept_unprojected.is_empty() {
                    let kept = &mut kept_unprojected[start * hidden..][..active * hidden];
                    kept.copy_from_slice(&self.unprojected[..active * hidden]);
                }
                let (h, unprojected) = (&mut self.h[..active * projection], &self.unprojected[..active * hidden]);
                product(h, unprojected, &matrices[..projection * hidden], [active, projection, hidden]);
            }
            for rank in 0..active {
                let to = row_mut(output, start + rank, network.output());
                row_mut(to, pseudo_layer % directions, projection).copy_from_slice(row(self.h, rank, projection));
            }
        }
    }
}
