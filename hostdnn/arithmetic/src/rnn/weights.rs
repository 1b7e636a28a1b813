//! The layout of a weight space, as observed in cuDNN 9.19: first the matrices of all pseudo layers, for each W of all
//! gates, R of all gates, and the projection; then their biases in the same order. Matrices are row-major, [H × input]
//! and [H × P], the projection [P × H].

use super::Network;

/// A matrix in the weight space, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Elements before it.
    pub offset: usize,
    /// Rows.
    pub rows: usize,
    /// Columns; 1 for a bias.
    pub columns: usize,
}

impl Region {
    /// Elements.
    pub fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One past the last element.
    pub fn end(&self) -> usize {
        self.offset + self.len()
    }
}

impl Network {
    /// Elements of the weight space; `None` if their byte count could overflow. The functions below need `Some`.
    pub fn weight_count(&self) -> Option<usize> {
        let [gates, hidden, projection] = [self.cell.gates(), self.hidden, self.projection].map(|n| n as u128);
        let rows = gates * hidden;
        let biases = rows * (u128::from(self.input_bias) + u128::from(self.recurrent_bias));
        let own = rows * projection + if self.projects() { projection * hidden } else { 0 } + biases;
        let first = if self.skip_input { 0 } else { self.input as u128 };
        let later = (self.layers as u128 - 1) * (rows * self.output() as u128 + own);
        let count = (rows * first + own).checked_add(later)?.checked_mul(self.directions as u128)?;
        usize::try_from(count).ok().filter(|&count| count <= isize::MAX as usize / 16)
    }

    /// W or R of a gate, or with `id` 2·G the projection; `None` if it does not exist. `id` counts W's gates, then R's.
    pub fn matrix(&self, pseudo_layer: usize, id: usize) -> Option<Region> {
        let (gates, hidden, projection) = (self.cell.gates(), self.hidden, self.projection);
        let start = self.matrices_before(pseudo_layer);
        let columns = self.input_columns(pseudo_layer / self.directions);
        let recurrent = start + self.gate_rows() * columns;
        if id < gates {
            let region = Region { offset: start + id * hidden * columns, rows: hidden, columns };
            (columns > 0).then_some(region)
        } else if id < 2 * gates {
            let offset = recurrent + (id - gates) * hidden * projection;
            Some(Region { offset, rows: hidden, columns: projection })
        } else {
            let offset = recurrent + self.gate_rows() * projection;
            self.projects().then_some(Region { offset, rows: projection, columns: hidden })
        }
    }

    /// The bias beside a matrix; `None` if it does not exist.
    pub fn bias(&self, pseudo_layer: usize, id: usize) -> Option<Region> {
        let gates = self.cell.gates();
        let there = if id < gates { self.input_bias } else { self.recurrent_bias && id < 2 * gates };
        let each = gates * (usize::from(self.input_bias) + usize::from(self.recurrent_bias));
        let before = if self.input_bias { id } else { id.saturating_sub(gates) };
        let offset = self.matrices_before(self.pseudo_layers()) + (pseudo_layer * each + before) * self.hidden;
        there.then_some(Region { offset, rows: self.hidden, columns: 1 })
    }

    /// Columns of a layer's W; 0 if there is no W.
    pub(super) fn input_columns(&self, layer: usize) -> usize {
        if layer == 0 && self.skip_input { 0 } else { self.layer_input(layer) }
    }

    /// Elements of a pseudo layer's matrices.
    pub(super) fn matrix_count(&self, layer: usize) -> usize {
        let projection = if self.projects() { self.projection * self.hidden } else { 0 };
        self.gate_rows() * (self.input_columns(layer) + self.projection) + projection
    }

    /// Elements before a pseudo layer's matrices.
    pub(super) fn matrices_before(&self, pseudo_layer: usize) -> usize {
        let first = pseudo_layer.min(self.directions);
        let later = pseudo_layer - first;
        first * self.matrix_count(0) + if later > 0 { later * self.matrix_count(1) } else { 0 }
    }
}
