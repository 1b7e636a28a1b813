//! Batches: graphs that run together, as one graph whose vertices are sorted into rows.
//!
//! Rows are sorted by level, then by kind, so the vertices of a kind in a level are a *block* of rows that run together;
//! their edges, one a slot, are sorted likewise. Where several kinds are on the path, blocks may be steps by ratio
//! instead. Graphs are levelled already: the counts of their segments are added up,
//! and each segment gets rows and edges that follow each other.

mod blocks;
mod check;
mod maxima;
mod ratio;
mod read;

pub use maxima::{Maxima, Refused};
pub use read::Arrays;

use crate::function::Net;
use crate::graphs::{Graphs, NONE};
use crate::stages::is_on_path;
use blocks::{Cursor, Kind};
use maxima::no_memory;
use ratio::Steps;

/// Which vertices run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those of a kind and a level: as few steps as there are levels, where one kind is on the path.
    Height,
    /// Those of a kind that are ready, when most of the kind are: fewer steps where several kinds are on the path.
    Ratio,
}

impl Policy {
    /// The policy for a net: by ratio where several kinds have operations on the path.
    pub fn of(net: &Net) -> Self {
        let on_path = net.declaration().functions.iter().filter(|function| is_on_path(&function.operations));
        if on_path.count() > 1 { Policy::Ratio } else { Policy::Height }
    }
}

/// The vertices of a kind in a level, or in a step by ratio: rows and edges that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The level; the step where steps are by ratio.
    pub level: usize,
    /// The number of their function.
    pub kind: usize,
    /// The first row.
    pub row: usize,
    /// The number of rows.
    pub rows: usize,
    /// The first edge.
    pub edge: usize,
    /// The number of edges: of slots, empty ones too.
    pub edges: usize,
    /// The rows of the same kind in lower levels.
    pub row_of_kind: usize,
    /// The edges of the same kind in lower levels.
    pub edge_of_kind: usize,
}

/// A batch of graphs.
#[derive(Debug)]
pub struct Batch {
    maxima: Maxima,
    blocks: Vec<Block>,
    /// The same, sorted by kind.
    blocks_by_kind: Vec<Block>,
    kinds: Vec<Kind>,
    graphs: usize,
    levels: usize,
    vertices: usize,
    pulled_rows: usize,
    /// The first edge of each row; and behind the last row the number of edges.
    first_edge: Vec<u32>,
    /// The row of the child at each edge, or -1.
    child: Vec<i32>,
    /// Each row's part of `parents`.
    parents_of: Vec<(u32, u32)>,
    /// Edges to parents.
    parents: Vec<u32>,
    /// The user's number of each row's vertex.
    vertex: Vec<u32>,
    /// The row of each vertex, in the user's order.
    row: Vec<u32>,
    /// The row of the inputs that each row pulls, or -1.
    pulled: Vec<i32>,
    /// The end of each input row's part of `readers`.
    readers_end: Vec<u32>,
    /// Rows that pull.
    readers: Vec<u32>,
    /// The kind of each label of the graphs.
    kind_of_label: Vec<u32>,
    /// The next free row and edge of each level and kind, or of each step; at first, how many there are.
    cursors: Vec<Cursor>,
    /// The groups that the graphs are dealt to, and where each one's rows and edges end: in the cursors of all groups but
    /// the last.
    groups: usize,
    group_ends: Vec<Cursor>,
    /// By ratio.
    steps: Option<Steps>,
    /// This batch runs by them: they are fewer.
    is_by_ratio: bool,
    /// The row of each sorted vertex of a graph; and behind them [`NONE`].
    rows: Vec<i32>,
    /// The edge of each sorted slot of a graph.
    edges: Vec<u32>,
}

impl Batch {
    /// Makes memory for batches of a net up to these maxima.
    pub fn new(maxima: Maxima, net: &Net, policy: Policy) -> Result<Self, Refused> {
        maxima.check()?;
        let kinds = net.declaration().functions.len();
        fn memory<T>(count: usize) -> Result<Vec<T>, Refused> {
            let mut made = Vec::new();
            made.try_reserve_exact(count).map_err(|_| no_memory(count)).map(|()| made)
        }
        let Maxima { vertices, children, levels, .. } = maxima;
        let blocks = (levels.min(vertices) * kinds).min(vertices);
        let cursors = (levels.min(vertices) * kinds).max(blocks);
        Ok(Self {
            maxima,
            blocks: memory(blocks)?,
            blocks_by_kind: memory(blocks)?,
            kinds: vec![Kind::default(); kinds],
            graphs: 0,
            levels: 0,
            vertices: 0,
            pulled_rows: 0,
            first_edge: memory(vertices + 1)?,
            child: memory(children)?,
            parents_of: memory(vertices)?,
            parents: memory(children)?,
            vertex: memory(vertices)?,
            row: memory(vertices)?,
            pulled: memory(vertices)?,
            readers_end: memory(vertices)?,
            readers: memory(vertices)?,
            kind_of_label: vec![],
            cursors: memory(cursors)?,
            groups: 1,
            group_ends: vec![],
            steps: match policy {
                Policy::Height => None,
                Policy::Ratio => Some(Steps::new(vertices, children, kinds).map_err(|_| no_memory(vertices))?),
            },
            is_by_ratio: false,
            rows: memory(vertices + 1)?,
            edges: memory(children)?,
        })
    }

    /// Deals the graphs of each batch that is set from here on to so many groups: graphs that follow each other, with about
    /// as many vertices in each group. In each block, the rows of a group then follow each other.
    pub fn deal_to(&mut self, groups: usize) -> Result<(), Refused> {
        let count = self.cursors.capacity().saturating_mul(groups.saturating_sub(1));
        self.group_ends.clear();
        self.group_ends.try_reserve_exact(count).map_err(|_| no_memory(count))?;
        self.groups = groups.max(1);
        Ok(())
    }

    /// Makes the batch of these graphs, in this order; a graph may be there several times. After a refusal the batch is
    /// as it was.
    pub fn set(&mut self, net: &Net, graphs: &Graphs, ids: &[i64]) -> Result<(), Refused> {
        let (levels, vertices, edges) = self.check(net, graphs, ids)?;
        let kinds = self.kinds.len();
        self.find_blocks(graphs, ids, levels, kinds);
        self.find_steps(graphs, ids);
        self.sort_blocks_by_kind();
        self.first_edge.resize(vertices + 1, 0);
        self.first_edge[vertices] = edges as u32;
        self.child.resize(edges, NONE);
        self.parents_of.resize(vertices, (0, 0));
        self.vertex.resize(vertices, 0);
        self.row.resize(vertices, 0);
        self.pulled.resize(vertices, NONE);
        self.parents.clear();
        self.readers.clear();
        self.readers_end.clear();
        let (mut vertex, mut pulled_row) = (0, 0);
        self.group_ends.clear();
        for id in ids {
            // A group ends once it and those before it have their share of all vertices.
            let ended = self.group_ends.len() / self.cursors.len().max(1);
            if ended + 1 < self.groups && vertex as usize * self.groups >= vertices * (ended + 1) {
                self.group_ends.extend_from_slice(&self.cursors);
            }
            if self.is_by_ratio {
                self.deal_by_steps(graphs, *id as usize, vertex as usize);
            } else {
                self.deal_by_segments(graphs, *id as usize);
            }
            self.add(graphs, *id as usize, vertex, pulled_row);
            vertex += graphs.vertices(*id as usize) as u32;
            pulled_row += graphs.rows(*id as usize) as i32;
        }
        // There may be fewer graphs than groups.
        while self.group_ends.len() < (self.groups - 1) * self.cursors.len() {
            self.group_ends.extend_from_slice(&self.cursors);
        }
        (self.graphs, self.levels, self.vertices, self.pulled_rows) =
            (ids.len(), levels, vertices, pulled_row as usize);
        Ok(())
    }

    /// Adds a graph whose rows and edges are dealt, and whose vertices and input rows begin with these numbers.
    fn add(&mut self, graphs: &Graphs, id: usize, first_vertex: u32, first_pulled: i32) {
        let graph = graphs.graph(id);
        let parents_begin = self.parents.len() as u32;
        self.parents.extend(graph.parents.iter().map(|slot| self.edges[*slot as usize]));
        let mut parent = parents_begin;
        let sorted = graph.vertices.iter().zip(graph.parents_end).zip(graph.pulled).zip(&self.rows);
        for (((vertex, parents_end), pulled), row) in sorted {
            let (row, vertex, end) = (*row as usize, first_vertex + vertex, parents_begin + parents_end);
            self.vertex[row] = vertex;
            self.row[vertex as usize] = row as u32;
            self.parents_of[row] = (parent, end);
            self.pulled[row] = if *pulled as i32 == NONE { NONE } else { first_pulled + *pulled as i32 };
            parent = end;
        }
        for (child, edge) in graph.children.iter().zip(&self.edges) {
            self.child[*edge as usize] = self.rows[*child as usize];
        }
        let readers_begin = self.readers.len() as u32;
        self.readers.extend(graph.readers.iter().map(|place| self.rows[*place as usize] as u32));
        self.readers_end.extend(graph.readers_end.iter().map(|end| readers_begin + end));
    }
}
