//! What executors read of a batch. The arrays are those of the last [`Batch::set`].

use super::blocks::Kind;
use super::maxima::Maxima;
use super::{Batch, Block};

impl Batch {
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
        self.sizes.graphs
    }

    /// The number of levels.
    pub fn levels(&self) -> usize {
        self.sizes.levels
    }

    /// The number of vertices: of rows, and of rows of the outputs.
    pub fn vertices(&self) -> usize {
        self.sizes.vertices
    }

    /// The number of edges.
    pub fn edges(&self) -> usize {
        self.sizes.slots
    }

    /// The number of edges that have a child.
    pub fn edges_of_children(&self) -> usize {
        self.sizes.parents
    }

    /// The number of rows that pull.
    pub fn pulling_rows(&self) -> usize {
        self.sizes.readers
    }

    /// The number of rows of each input.
    pub fn pulled_rows(&self) -> usize {
        self.sizes.pulled_rows
    }

    /// The edges of a row.
    pub fn edges_of(&self, row: usize) -> std::ops::Range<usize> {
        self.own.first_edge[row] as usize..self.own.first_edge[row + 1] as usize
    }

    /// The row of the child at an edge; `None` for an empty slot.
    pub fn child(&self, edge: usize) -> Option<usize> {
        usize::try_from(self.own.child[edge]).ok()
    }

    /// Where the edges to a row's parents are among those of all rows: the first place and the end.
    pub fn parents_of(&self, row: usize) -> [i32; 2] {
        self.own.parents_of[row]
    }

    /// The edges to a row's parents.
    pub fn parents(&self, row: usize) -> &[i32] {
        let [first, end] = self.parents_of(row);
        &self.own.parents[first as usize..end as usize]
    }

    /// The user's number of a row's vertex.
    pub fn vertex(&self, row: usize) -> usize {
        self.own.vertex[row] as usize
    }

    /// The row of a vertex.
    pub fn row(&self, vertex: usize) -> usize {
        self.own.row[vertex] as usize
    }

    /// The row of the inputs that a row pulls.
    pub fn pulled(&self, row: usize) -> Option<usize> {
        usize::try_from(self.own.pulled[row]).ok()
    }

    /// The rows that pull a row of the inputs.
    pub fn readers(&self, pulled: usize) -> &[i32] {
        let first = if pulled == 0 { 0 } else { self.own.readers_end[pulled - 1] };
        &self.own.readers[first as usize..self.own.readers_end[pulled] as usize]
    }
}
