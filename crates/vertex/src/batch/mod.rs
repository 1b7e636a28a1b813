//! Batches: graphs that run together, as one graph whose vertices are sorted into rows.
//!
//! Rows are sorted by level, then by kind, so the vertices of a kind in a level are a *block* of rows that run together;
//! their edges, one a slot, are sorted likewise. Where several kinds are on the path, blocks may be steps by ratio
//! instead. Graphs are levelled already: the counts of their segments are added up,
//! and each segment gets rows and edges that follow each other.

mod ratio;

use std::fmt::{self, Display, Formatter};
use std::iter::repeat_n;

use crate::function::{Arity, Function, Net};
use crate::graphs::{Graph, Graphs, NONE};
use crate::stages::is_on_path;
use ratio::{Step, Steps};

/// The most that a batch may have. Memory is made for it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maxima {
    /// Graphs.
    pub graphs: usize,
    /// Vertices of all graphs.
    pub vertices: usize,
    /// Slots of all vertices.
    pub children: usize,
    /// Levels of the highest graph.
    pub levels: usize,
}

impl Maxima {
    /// The most of each.
    pub const MOST: Self = Self { graphs: 1 << 24, vertices: 1 << 24, children: i32::MAX as usize, levels: 1 << 24 };

    /// Refuses numbers out of range.
    pub fn check(&self) -> Result<(), Refused> {
        let most = Self::MOST;
        let limits = [
            ("graphs", self.graphs, most.graphs, 1),
            ("vertices", self.vertices, most.vertices, 1),
            ("children", self.children, most.children, 0),
            ("levels", self.levels, most.levels, 1),
        ];
        for (what, number, most, least) in limits {
            if !(least..=most).contains(&number) {
                return Err(Refused(format!("a maximum of {number} {what}; {least} to {most} are accepted")));
            }
        }
        Ok(())
    }
}

/// A batch that cannot be made: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl Display for Refused {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

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

/// The rows and edges of a kind, and the end of its blocks in `blocks_by_kind`.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    rows: usize,
    edges: usize,
    blocks_end: usize,
}

impl Kind {
    /// Adds a block, and returns it with the rows and edges of the kind that lie before it.
    fn block(&mut self, block: Block) -> Block {
        let added = Block { row_of_kind: self.rows, edge_of_kind: self.edges, ..block };
        (self.rows, self.edges, self.blocks_end) =
            (self.rows + block.rows, self.edges + block.edges, self.blocks_end + 1);
        added
    }
}

fn no_memory(count: usize) -> Refused {
    Refused(format!("no memory for {count} numbers of a batch"))
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    row: u32,
    edge: u32,
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

    /// Returns the numbers of levels, vertices and slots.
    fn check(&mut self, net: &Net, graphs: &Graphs, ids: &[i64]) -> Result<(usize, usize, usize), Refused> {
        let refused = |why: String| Err(Refused(why));
        if ids.is_empty() {
            return refused("a batch has at least one graph".into());
        }
        if let Some(place) = ids.iter().position(|id| !(0..graphs.count() as i64).contains(id)) {
            return refused(format!("id {place} is graph {} of {}; numbers begin with 0", ids[place], graphs.count()));
        }
        let (mut levels, mut vertices, mut edges) = (0, 0, 0);
        for id in ids {
            vertices += graphs.vertices(*id as usize);
            edges += graphs.slots(*id as usize);
            // The segments of a graph are sorted by level.
            levels = levels.max(graphs.graph(*id as usize).segments.last().map_or(0, |last| last.level as usize + 1));
        }
        let Maxima { graphs: most_graphs, vertices: most_vertices, children, levels: most_levels } = self.maxima;
        let counts = [
            ("graphs", ids.len(), most_graphs),
            ("vertices", vertices, most_vertices),
            ("children", edges, children),
            ("levels", levels, most_levels),
        ];
        if let Some((what, count, most)) = counts.into_iter().find(|(_, count, most)| count > most) {
            return refused(format!("the batch has {count} {what}; the net was made for at most {most}"));
        }
        self.kind_of_label.clear();
        for label in &graphs.labels {
            let functions = &net.declaration().functions;
            let kind = match label.kind {
                Some(kind) if usize::from(kind) < functions.len() => Some(usize::from(kind)),
                Some(_) => None,
                None => net.kind_of(label.slots as usize),
            };
            let fits = |kind: &usize| functions[*kind].children.takes(label.slots as usize);
            self.kind_of_label.push(kind.filter(fits).map_or(u32::MAX, |kind| kind as u32));
        }
        let takes_any = |function: &Function| function.children == Arity::Any;
        if self.kind_of_label.contains(&u32::MAX) || net.declaration().functions.iter().any(takes_any) {
            ids.iter().try_for_each(|id| self.check_kinds(net, graphs, *id as usize))?;
        }
        Ok((levels, vertices, edges))
    }

    /// Refuses a graph with a vertex that no function of the net takes.
    fn check_kinds(&self, net: &Net, graphs: &Graphs, id: usize) -> Result<(), Refused> {
        let functions = &net.declaration().functions;
        let Graph { segments, vertices, .. } = graphs.graph(id);
        let mut sorted = 0;
        for segment in segments {
            let (kind, label) = (self.kind_of_label[segment.label as usize], graphs.labels[segment.label as usize]);
            let why = match functions.get(kind as usize) {
                Some(function) if function.children == Arity::Any && segment.first_empty.is_some() => {
                    format!("an empty slot; function {kind}, for any number of children, has none")
                }
                Some(_) => String::new(),
                None => match label.kind.map(usize::from) {
                    Some(kind) if kind >= functions.len() => {
                        format!("the kind {kind}; the net has {} functions", functions.len())
                    }
                    Some(kind) => {
                        format!("{} slots; its function {kind} takes {}", label.slots, functions[kind].children)
                    }
                    None => {
                        let all: Vec<_> = functions.iter().map(|function| function.children.to_string()).collect();
                        format!("{} slots; the net's functions take {}", label.slots, all.join(", "))
                    }
                },
            };
            if !why.is_empty() {
                let vertex = sorted + segment.first_empty.filter(|_| kind != u32::MAX).unwrap_or(0) as usize;
                return Err(Refused(format!("graph {id}: vertex {} has {why}", vertices[vertex])));
            }
            sorted += segment.count as usize;
        }
        Ok(())
    }

    /// Adds up the graphs' segments, and deals out rows and edges.
    fn find_blocks(&mut self, graphs: &Graphs, ids: &[i64], levels: usize, kinds: usize) {
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
    fn find_steps(&mut self, graphs: &Graphs, ids: &[i64]) {
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
    fn sort_blocks_by_kind(&mut self) {
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
    fn deal_by_segments(&mut self, graphs: &Graphs, id: usize) {
        let kinds = self.kinds.len();
        self.rows.clear();
        self.edges.clear();
        for segment in graphs.graph(id).segments {
            let slots = graphs.slots_of(segment) as u32;
            let kind = self.kind_of_label[segment.label as usize] as usize;
            let cursor = &mut self.cursors[segment.level as usize * kinds + kind];
            let (rows, mut edge) = (cursor.row..cursor.row + segment.count, cursor.edge);
            for to in &mut self.first_edge[rows.start as usize..rows.end as usize] {
                *to = edge;
                edge += slots;
            }
            self.edges.extend(cursor.edge..edge);
            self.rows.extend(rows.start as i32..rows.end as i32);
            (cursor.row, cursor.edge) = (rows.end, edge);
        }
        self.rows.push(NONE);
    }

    /// Likewise to those of a graph that begins with this vertex of the batch.
    fn deal_by_steps(&mut self, graphs: &Graphs, id: usize, first_vertex: usize) {
        self.rows.clear();
        self.edges.clear();
        let steps = self.steps.iter().flat_map(|steps| &steps.step[first_vertex..]);
        let segments = graphs.graph(id).segments.iter();
        let slots = segments.flat_map(|segment| repeat_n(graphs.slots_of(segment) as u32, segment.count as usize));
        for (step, slots) in steps.zip(slots) {
            let cursor = &mut self.cursors[*step as usize];
            self.first_edge[cursor.row as usize] = cursor.edge;
            self.rows.push(cursor.row as i32);
            self.edges.extend(cursor.edge..cursor.edge + slots);
            *cursor = Cursor { row: cursor.row + 1, edge: cursor.edge + slots };
        }
        self.rows.push(NONE);
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
