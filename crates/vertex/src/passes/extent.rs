//! The sizes of frames in a batch.

use super::place::{FRAMES, is_of_block};
use crate::batch::{Batch, Maxima};
use crate::function::{Arity, MOST_FUNCTIONS, Net};

/// The rows of a kind in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// All rows.
    pub rows: usize,
    /// All edges.
    pub edges: usize,
    /// The most rows of a block.
    pub rows_of_block: usize,
    /// The most edges of a block.
    pub edges_of_block: usize,
}

impl Extent {
    /// The extent of each kind of a batch.
    pub fn of(batch: &Batch, kinds: usize) -> [Self; MOST_FUNCTIONS] {
        let mut extents = [Self::default(); MOST_FUNCTIONS];
        for (kind, extent) in extents[..kinds].iter_mut().enumerate() {
            (extent.rows, extent.edges) = batch.of_kind(kind);
        }
        for block in batch.blocks() {
            let extent = &mut extents[block.kind];
            extent.rows_of_block = extent.rows_of_block.max(block.rows);
            extent.edges_of_block = extent.edges_of_block.max(block.edges);
        }
        extents
    }

    /// The most of each kind: all vertices may be of one, as far as their slots allow.
    pub fn most(maxima: &Maxima, net: &Net) -> [Self; MOST_FUNCTIONS] {
        let mut extents = [Self::default(); MOST_FUNCTIONS];
        for (extent, function) in extents.iter_mut().zip(&net.declaration().functions) {
            let (rows, edges) = match function.children {
                Arity::Any => (maxima.vertices, maxima.children),
                Arity::Exactly(0) => (maxima.vertices, 0),
                Arity::Exactly(slots) => {
                    let rows = maxima.vertices.min(maxima.children / slots);
                    (rows, rows * slots)
                }
            };
            *extent = Self { rows, edges, rows_of_block: rows, edges_of_block: edges };
        }
        extents
    }

    /// The rows of the frame with this number.
    pub fn rows_of_frame(&self, number: usize) -> usize {
        match (number < FRAMES, is_of_block(number)) {
            (true, false) => self.rows,
            (true, true) => self.rows_of_block,
            (false, false) => self.edges,
            (false, true) => self.edges_of_block,
        }
    }
}
