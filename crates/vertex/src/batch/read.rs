//! What executors read of a batch.

use super::blocks::Kind;
use super::maxima::Maxima;
use super::{Batch, Block};

/// A batch's arrays, for an executor that has them elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    /// The first edge of each row, and behind the last row the number of edges.
    pub first_edge: &'a [u32],
    /// The row of the child at each edge, or -1.
    pub child: &'a [i32],
    /// Each row's part of `parents`: its first place and its end.
    pub parents_of: &'a [(u32, u32)],
    /// Edges to parents.
    pub parents: &'a [u32],
    /// The user's number of each row's vertex.
    pub vertex: &'a [u32],
    /// The row of the inputs that each row pulls, or -1.
    pub pulled: &'a [i32],
    /// The end of each input row's part of `readers`.
    pub readers_end: &'a [u32],
    /// Rows that pull.
    pub readers: &'a [u32],
}

impl Batch {
    /// Its arrays.
    pub fn arrays(&self) -> Arrays<'_> {
        let Self { first_edge, child, parents_of, parents, vertex, pulled, readers_end, readers, .. } = self;
        Arrays { first_edge, child, parents_of, parents, vertex, pulled, readers_end, readers }
    }

    /// The most that it may have.
    pub fn maxima(&self) -> Maxima {
        self.maxima
    }

    /// The blocks, from the lowest level up.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The parts of the blocks that are a group's, those without rows left out.
    pub fn blocks_of_group(&self, group: usize) -> impl Iterator<Item = Block> {
        let (count, kinds) = (self.cursors.len(), self.kinds.len());
        let end = move |group: usize, place: usize, block: &Block| match self.group_ends.get(group * count + place) {
            Some(cursor) if group + 1 < self.groups => (cursor.row as usize, cursor.edge as usize),
            _ => (block.row + block.rows, block.edge + block.edges),
        };
        let part = move |(number, block): (usize, &Block)| {
            let place = if self.is_by_ratio { number } else { block.level * kinds + block.kind };
            let (row, edge) = if group == 0 { (block.row, block.edge) } else { end(group - 1, place, block) };
            let (row_end, edge_end) = end(group, place, block);
            let (rows, edges) = (row_end - row, edge_end - edge);
            let (row_of_kind, edge_of_kind) =
                (block.row_of_kind + row - block.row, block.edge_of_kind + edge - block.edge);
            Block { row, rows, edge, edges, row_of_kind, edge_of_kind, ..*block }
        };
        self.blocks.iter().enumerate().map(part).filter(|part| part.rows > 0)
    }

    /// The blocks of a kind, from the lowest level up.
    pub fn blocks_of(&self, kind: usize) -> &[Block] {
        let first = if kind == 0 { 0 } else { self.kinds[kind - 1].blocks_end };
        &self.blocks_by_kind[first..self.kinds[kind].blocks_end]
    }

    /// The rows and edges of a kind.
    pub fn of_kind(&self, kind: usize) -> (usize, usize) {
        let Kind { rows, edges, .. } = self.kinds[kind];
        (rows, edges)
    }

    /// The number of graphs; 0 before the first one is set.
    pub fn graphs(&self) -> usize {
        self.graphs
    }

    /// The number of levels.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The number of vertices: of rows, and of rows of the outputs.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// The number of edges.
    pub fn edges(&self) -> usize {
        self.child.len()
    }

    /// The number of rows of each input.
    pub fn pulled_rows(&self) -> usize {
        self.pulled_rows
    }

    /// The edges of a row.
    pub fn edges_of(&self, row: usize) -> std::ops::Range<usize> {
        self.first_edge[row] as usize..self.first_edge[row + 1] as usize
    }

    /// The row of the child at an edge; `None` for an empty slot.
    pub fn child(&self, edge: usize) -> Option<usize> {
        usize::try_from(self.child[edge]).ok()
    }

    /// The edges to a row's parents.
    pub fn parents(&self, row: usize) -> &[u32] {
        let (first, end) = self.parents_of[row];
        &self.parents[first as usize..end as usize]
    }

    /// The user's number of a row's vertex.
    pub fn vertex(&self, row: usize) -> usize {
        self.vertex[row] as usize
    }

    /// The row of a vertex.
    pub fn row(&self, vertex: usize) -> usize {
        self.row[vertex] as usize
    }

    /// The row of the inputs that a row pulls.
    pub fn pulled(&self, row: usize) -> Option<usize> {
        usize::try_from(self.pulled[row]).ok()
    }

    /// The rows that pull a row of the inputs.
    pub fn readers(&self, pulled: usize) -> &[u32] {
        let first = if pulled == 0 { 0 } else { self.readers_end[pulled - 1] };
        &self.readers[first as usize..self.readers_end[pulled] as usize]
    }
}
