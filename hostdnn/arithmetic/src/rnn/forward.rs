//! The API's implementation. A layer's Wx of all time steps is one product; each time step is one more product, of the
//! remaining sequences' states, and element-wise work. Half types are computed in float; only results are rounded.
//!
//! Internally, rows are ordered by time step and then by rank (`sequences`), which is the packed layout.

use super::element::{Number, Stored, product};
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
/// could overflow. A training call keeps its gates in the reserve instead.
pub fn workspace_len(network: &Network, steps: usize, batch: usize, training: bool) -> Option<usize> {
    let rows = steps.checked_mul(batch)?;
    let gates = if training { 0 } else { network.gate_rows() };
    let wide = network.input.max(network.output());
    let states = network.projection.checked_add(network.hidden.checked_mul(2)?)?.checked_add(network.gate_rows())?;
    let weights = network.matrix_count(0).max(network.matrix_count(1)).checked_add(2 * network.gate_rows())?;
    let per_row = wide.checked_mul(2)?.checked_add(gates)?;
    total([rows.checked_mul(per_row)?, batch.checked_mul(states)?, weights])
}

/// The numbers of the reserve, or `None` likewise: for each layer its input after dropout, `[rows, input]`, then for
/// each direction the activated gates, `[rows, G·H]`, and LSTM's cell states, `[rows, H]`.
pub fn reserve_len(network: &Network, steps: usize, batch: usize) -> Option<usize> {
    let rows = steps.checked_mul(batch)?;
    let cells = if network.has_cell_state() { network.hidden } else { 0 };
    let inner = network.directions.checked_mul(network.gate_rows().checked_add(cells)?)?;
    let first = network.input.checked_add(inner)?;
    let later = network.output().checked_add(inner)?.checked_mul(network.layers - 1)?;
    total([rows.checked_mul(first)?, rows.checked_mul(later)?, 0])
}

fn total(parts: [usize; 3]) -> Option<usize> {
    let sum = parts.into_iter().try_fold(0usize, usize::checked_add)?;
    (sum <= isize::MAX as usize / 16).then_some(sum)
}

/// Computes `y` and the last states. `workspace` and, in training, `reserve` have at least the lengths that the
/// functions above return. `dropout`, which is for training, applies to the output of each layer but the last.
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
) {
    let Operands { x, weights, hx, cx, y, padding_fill, mut hy, mut cy } = operands;
    let (rows, batch) = (sequences.rows(), sequences.batch());
    let wide = rows * network.input.max(network.output());
    let mut workspace = Arena(workspace);
    let (mut input, mut output) = (workspace.take(wide), workspace.take(wide));
    let shared_gates = workspace.take(if reserve.is_some() { 0 } else { rows * network.gate_rows() });
    let mut scratch = Scratch {
        matrices: workspace.take(network.matrix_count(0).max(network.matrix_count(1))),
        biases: [workspace.take(network.gate_rows()), workspace.take(network.gate_rows())],
        recurrent: workspace.take(batch * network.gate_rows()),
        unprojected: workspace.take(batch * network.hidden),
        h: workspace.take(batch * network.projection),
        c: workspace.take(if network.has_cell_state() { batch * network.hidden } else { 0 }),
    };
    let mut reserve = reserve.map(Arena);

    for step in 0..sequences.steps() {
        let (active, start) = sequences.step(step);
        for (rank, &sequence) in sequences.ranked()[..active].iter().enumerate() {
            let from = row(x, sequences.memory_row(step, sequence), network.input);
            load(row_mut(input, start + rank, network.input), from);
        }
    }
    for layer in 0..network.layers {
        let layer_input = &mut input[..rows * network.layer_input(layer)];
        if layer > 0
            && let Some(dropout) = &mut dropout
        {
            dropout.apply(layer_input);
        }
        if let Some(reserve) = &mut reserve {
            reserve.take(layer_input.len()).copy_from_slice(layer_input);
        }
        for direction in 0..network.directions {
            let pseudo_layer = layer * network.directions + direction;
            let gates = match &mut reserve {
                Some(reserve) => reserve.take(rows * network.gate_rows()),
                None => &mut *shared_gates,
            };
            let kept_cells = reserve.as_mut().map(|reserve| reserve.take(rows * scratch.c.len() / batch));
            scratch.load_weights(network, pseudo_layer, weights);
            scratch.load_states(network, sequences, pseudo_layer, hx, cx);
            scratch.inputs(network, layer, layer_input, gates);
            scratch.steps(network, sequences, pseudo_layer, gates, kept_cells, output);
            scratch.store_states(network, sequences, pseudo_layer, hy.as_deref_mut(), cy.as_deref_mut());
        }
        std::mem::swap(&mut input, &mut output);
    }
    // The layer's output is the next layer's input.
    for step in 0..sequences.steps() {
        let (active, start) = sequences.step(step);
        for (rank, &sequence) in sequences.ranked()[..active].iter().enumerate() {
            let to = row_mut(y, sequences.memory_row(step, sequence), network.output());
            store(to, row(input, start + rank, network.output()));
        }
    }
    if sequences.memory_rows() > rows {
        for sequence in 0..batch {
            for step in sequences.length(sequence)..sequences.steps() {
                row_mut(y, sequences.memory_row(step, sequence), network.output()).fill(padding_fill);
            }
        }
    }
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
        // R is always there, after W.
        let columns = network.input_columns(pseudo_layer / network.directions);
        let first = network.matrix(pseudo_layer, gates).map_or(0, |r| r.offset) - network.gate_rows() * columns;
        load(&mut self.matrices[..count], &weights[first..][..count]);
        for (id, bias) in [0, gates].into_iter().zip(&mut self.biases) {
            match network.bias(pseudo_layer, id) {
                Some(region) => load(bias, &weights[region.offset..][..bias.len()]),
                None => bias.fill(N::zero()),
            }
        }
    }

    fn load_states<S: Stored<Number = N>>(
        &mut self,
        network: &Network,
        sequences: &Sequences,
        pseudo_layer: usize,
        hx: Option<&[S]>,
        cx: Option<&[S]>,
    ) {
        let states = [(&mut *self.h, hx, network.projection), (&mut *self.c, cx, network.hidden)];
        for (to, from, width) in states {
            let Some(from) = from.filter(|_| !to.is_empty()) else {
                to.fill(N::zero());
                continue;
            };
            for (rank, &sequence) in sequences.ranked().iter().enumerate() {
                load(row_mut(to, rank, width), row(from, pseudo_layer * sequences.batch() + sequence, width));
            }
        }
    }

    fn store_states<S: Stored<Number = N>>(
        &self,
        network: &Network,
        sequences: &Sequences,
        pseudo_layer: usize,
        hy: Option<&mut [S]>,
        cy: Option<&mut [S]>,
    ) {
        for (from, to, width) in [(&*self.h, hy, network.projection), (&*self.c, cy, network.hidden)] {
            let Some(to) = to.filter(|_| !from.is_empty()) else { continue };
            for (rank, &sequence) in sequences.ranked().iter().enumerate() {
                store(row_mut(to, pseudo_layer * sequences.batch() + sequence, width), row(from, rank, width));
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

    /// Runs all time steps, in the direction's order. `gates` holds Wx + b, and then the activated gates.
    fn steps(
        &mut self,
        network: &Network,
        sequences: &Sequences,
        pseudo_layer: usize,
        gates: &mut [N],
        mut kept_cells: Option<&mut [N]>,
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
                cell::step(network, gates, row(recurrent, rank, gate_rows), row_mut(h, rank, hidden), c);
                if let Some(kept) = kept_cells.as_deref_mut().filter(|kept| !kept.is_empty()) {
                    row_mut(kept, start + rank, hidden).copy_from_slice(c);
                }
            }
            if network.projects() {
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

/// Memory that is split off from its start.
struct Arena<'a, N>(&'a mut [N]);

impl<'a, N> Arena<'a, N> {
    fn take(&mut self, count: usize) -> &'a mut [N] {
        let (taken, rest) = std::mem::take(&mut self.0).split_at_mut(count);
        self.0 = rest;
        taken
    }
}

fn row<T>(rows: &[T], index: usize, width: usize) -> &[T] {
    &rows[index * width..][..width]
}

fn row_mut<T>(rows: &mut [T], index: usize, width: usize) -> &mut [T] {
    &mut rows[index * width..][..width]
}

fn load<S: Stored>(to: &mut [S::Number], from: &[S]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load());
}

fn store<S: Stored>(to: &mut [S], from: &[S::Number]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = S::store(from));
}

fn add<N: Number>(to: &mut [N], values: &[N]) {
    to.iter_mut().zip(values).for_each(|(to, &value)| *to = *to + value);
}
