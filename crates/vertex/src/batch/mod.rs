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
mod write;

pub use maxima::{Maxima, Refused};
pub use write::Arrays;

use crate::function::Net;
use crate::graphs::Graphs;
use crate::stages::is_on_path;
use blocks::{Cursor, Kind};
use maxima::no_memory;
use ratio::Steps;
use write::Dealt;

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
    sizes: Sizes,
    /// The host's arrays.
    own: Own,
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
    /// The graph that is written.
    dealt: Dealt,
}

/// What a batch has.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    graphs: usize,
    levels: usize,
    vertices: usize,
    /// Edges, those of empty slots too.
    slots: usize,
    /// Edges of children.
    parents: usize,
    pulled_rows: usize,
    /// Rows that pull.
    readers: usize,
}

/// A batch's arrays for the host: see [`Arrays`].
#[derive(Debug, Default)]
struct Own {
    first_edge: Vec<i32>,
    child: Vec<i32>,
    parents_of: Vec<[i32; 2]>,
    parents: Vec<i32>,
    vertex: Vec<i32>,
    row: Vec<i32>,
    pulled: Vec<i32>,
    readers_end: Vec<i32>,
    readers: Vec<i32>,
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
            sizes: Sizes::default(),
            own: Own {
                first_edge: memory(vertices + 1)?,
                child: memory(children)?,
                parents_of: memory(vertices)?,
                parents: memory(children)?,
                vertex: memory(vertices)?,
                row: memory(vertices)?,
                pulled: memory(vertices)?,
                readers_end: memory(vertices)?,
                readers: memory(vertices)?,
            },
            kind_of_label: vec![],
            cursors: memory(cursors)?,
            groups: 1,
            group_ends: vec![],
            steps: match policy {
                Policy::Height => None,
                Policy::Ratio => Some(Steps::new(vertices, children, kinds).map_err(|_| no_memory(vertices))?),
            },
            is_by_ratio: false,
            dealt: Dealt::new(vertices, children).map_err(|_| no_memory(vertices))?,
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
        self.plan(net, graphs, ids)?;
        let Sizes { vertices, slots, parents, pulled_rows, readers, .. } = self.sizes;
        let mut own = std::mem::take(&mut self.own);
        own.first_edge.resize(vertices + 1, 0);
        own.child.resize(slots, 0);
        own.parents_of.resize(vertices, [0; 2]);
        own.parents.resize(parents, 0);
        own.vertex.resize(vertices, 0);
        own.row.resize(vertices, 0);
        own.pulled.resize(vertices, 0);
        own.readers_end.resize(pulled_rows, 0);
        own.readers.resize(readers, 0);
        let Own { first_edge, child, parents_of, parents, vertex, row, pulled, readers_end, readers } = &mut own;
        let row = Some(&mut row[..]);
        let arrays = Arrays { first_edge, child, parents_of, parents, vertex, row, pulled, readers_end, readers };
        self.write(graphs, ids, arrays);
        self.own = own;
        Ok(())
    }

    /// Likewise without the host's arrays, for an executor that has them elsewhere: [`Batch::write`] follows, and deals the
    /// graphs to groups.
    pub fn plan(&mut self, net: &Net, graphs: &Graphs, ids: &[i64]) -> Result<(), Refused> {
        self.sizes = self.check(net, graphs, ids)?;
        self.find_blocks(graphs, ids, self.sizes.levels, self.kinds.len());
        self.find_steps(graphs, ids);
        self.sort_blocks_by_kind();
        Ok(())
    }
}
