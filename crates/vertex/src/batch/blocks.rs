//! Finds the blocks of a batch, and deals out their rows and edges to vertices.

use std::iter::repeat_n;

use super::ratio::Step;
use super::write::Run;
use super::{Batch, Block};
use crate::graphs::{Graph, Graphs};

/// The rows and edges of a kind, and the end of its blocks in `blocks_by_kind`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub rows: usize,
    pub edges: usize,
    pub blocks_end: usize,
}

impl Kind {
    /// Adds a block, and returns it with the rows and edges of the kind that lie before it.
    pub fn block(&mut self, block: Block) -> Block {
        let added = Block { row_of_kind: self.rows, edge_of_kind: self.edges, ..block };
        (self.rows, self.edges, self.blocks_end) =
            (self.rows + block.rows, self.edges + block.edges, self.blocks_end + 1);
        added
    }
}

/// A row and an edge of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub row: u32,
    pub edge: u32,
}

impl Batch {
    /// Adds up the graphs' segments, and deals out rows and edges.
    pub(super) fn find_blocks(&mut self, graphs: &Graphs, ids: &[i64], levels: usize, kinds: usize) {
        self.cursors.clear();
        self.cursors.resize(levels * kinds, Cursor::default());
        for id in ids {
            for segment in graphs.graph(*id as usize).segments {
                let kind = self.kind_of_label[segment.label as usize] as usize;
                let cursor = &mut self.cursors[segment.level as usize * kinds + kind];
                cursor.row += segment.count;
                cursor.edge += segment.count * graphs.slots_of(segment) as u32;
            }
        }
        self.blocks.clear();
        self.kinds.fill(Kind::default());
        let (mut row, mut edge) = (0, 0);
        for (place, cursor) in self.cursors.iter_mut().enumerate() {
            let (rows, edges) = (cursor.row as usize, cursor.edge as usize);
            *cursor = Cursor { row: row as u32, edge: edge as u32 };
            if rows > 0 {
                let kind = &mut self.kinds[place % kinds];
                self.blocks.push(kind.block(Block {
                    level: place / kinds,
                    kind: place % kinds,
                    row,
                    rows,
                    edge,
                    edges,
                    ..Block::default()
                }));
            }
            (row, edge) = (row + rows, edge + edges);
        }
    }

    /// Takes the steps by ratio instead, where they are fewer than the blocks.
    pub(super) fn find_steps(&mut self, graphs: &Graphs, ids: &[i64]) {
        self.is_by_ratio = false;
        let Some(steps) = &mut self.steps else { return };
        if !steps.find(graphs, ids, &self.kind_of_label, self.kinds.len(), self.blocks.len()) {
            return;
        }
        self.is_by_ratio = true;
        self.blocks.clear();
        self.cursors.clear();
        self.kinds.fill(Kind::default());
        let (mut row, mut edge) = (0, 0);
        for (level, Step { kind, rows, edges }) in steps.steps.iter().copied().enumerate() {
            self.cursors.push(Cursor { row: row as u32, edge: edge as u32 });
            self.blocks.push(self.kinds[kind].block(Block { level, kind, row, rows, edge, edges, ..Block::default() }));
            (row, edge) = (row + rows, edge + edges);
        }
    }

    /// Each kind has the number of its blocks; it gets their end.
    pub(super) fn sort_blocks_by_kind(&mut self) {
        let mut first = 0;
        for kind in &mut self.kinds {
            (kind.blocks_end, first) = (first, first + kind.blocks_end);
        }
        self.blocks_by_kind.resize(self.blocks.len(), Block::default());
        for block in &self.blocks {
            let end = &mut self.kinds[block.kind].blocks_end;
            self.blocks_by_kind[*end] = *block;
            *end += 1;
        }
    }

    /// Deals out rows and edges to the vertices of a graph.
    pub(super) fn deal_by_segments(&mut self, graphs: &Graphs, graph: Graph) {
        let kinds = self.kinds.len();
        self.dealt.runs.clear();
        for segment in graph.segments {
            let slots = graphs.slots_of(segment) as u32;
            let kind = self.kind_of_label[segment.label as usize] as usize;
            let cursor = &mut self.cursors[segment.level as usize * kinds + kind];
            let Cursor { row, edge } = *cursor;
            self.dealt.runs.push(Run { row, edge, count: segment.count, slots });
            *cursor = Cursor { row: row + segment.count, edge: edge + segment.count * slots };
        }
    }

    /// Likewise to those of a graph that begins with this vertex of the batch.
    pub(super) fn deal_by_steps(&mut self, graphs: &Graphs, graph: Graph, first_vertex: usize) {
        self.dealt.runs.clear();
        let steps = self.steps.iter().flat_map(|steps| &steps.step[first_vertex..]);
        let segments = graph.segments.iter();
        let slots = segments.flat_map(|segment| repeat_n(graphs.slots_of(segment) as u32, segment.count as usize));
        let mut last = None;
        for (step, slots) in steps.zip(slots) {
            let cursor = &mut self.cursors[*step as usize];
            let Cursor { row, edge } = *cursor;
            match self.dealt.runs.last_mut() {
                Some(run) if last == Some((*step, slots)) => run.count += 1,
                _ => self.dealt.runs.push(Run { row, edge, count: 1, slots }),
            }
            last = Some((*step, slots));
            *cursor = Cursor { row: row + 1, edge: edge + slots };
        }
    }
}
