//! Writes a batch's arrays, wherever an executor has them.
//!
//! A graph's numbers are prepared in the order of its sorted vertices and slots. A batch adds to them what the graphs
//! before it have. The vertices of a *run* have rows and edges that follow each other. Where runs are long, each array is
//! copied run by run, which the compiler turns into vectors. Where they are short, the vertices are written one by one:
//! loops of a few turns would cost more for their unforeseen ends.

use std::ops::Range;

use super::{Batch, Sizes};
use crate::graphs::{Graphs, NONE, Number, Numbers, Parts};

/// Runs of so many vertices, on average, are long.
const LONG: usize = 16;

/// The numbers that are written at a time where they follow each other. The last time, some may lie behind the end.
const AT_A_TIME: usize = 8;

/// A batch's arrays. Each is as long as the batch has such numbers.
#[derive(Debug)]
pub struct Arrays<'a> {
    /// The first edge of each row, and behind the last row the number of edges.
    pub first_edge: &'a mut [i32],
    /// The row of the child at each edge, or -1.
    pub child: &'a mut [i32],
    /// Each row's part of `parents`: its first place and its end.
    pub parents_of: &'a mut [[i32; 2]],
    /// Edges to parents.
    pub parents: &'a mut [i32],
    /// The user's number of each row's vertex.
    pub vertex: &'a mut [i32],
    /// The row of each vertex, in the user's order, if it is wanted.
    pub row: Option<&'a mut [i32]>,
    /// The row of the inputs that each row pulls, or -1.
    pub pulled: &'a mut [i32],
    /// The end of each input row's part of `readers`.
    pub readers_end: &'a mut [i32],
    /// Rows that pull.
    pub readers: &'a mut [i32],
}

/// Sorted vertices of a graph that follow each other by rows and by edges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub row: u32,
    pub edge: u32,
    pub count: u32,
    /// Of each vertex.
    pub slots: u32,
}

/// The runs of one graph, and what they say of its vertices and slots.
#[derive(Debug, Default)]
pub(super) struct Dealt {
    pub runs: Vec<Run>,
    /// The row of each sorted vertex, and behind the last one -1, for empty slots. Likewise there is room behind the
    /// others.
    rows: Vec<i32>,
    /// The first edge of each sorted vertex.
    first_edges: Vec<i32>,
    /// The edge of each sorted slot.
    edges: Vec<i32>,
}

impl Dealt {
    /// Makes memory for graphs up to these sizes.
    pub fn new(vertices: usize, slots: usize) -> Result<Self, std::collections::TryReserveError> {
        let mut made = Self::default();
        made.runs.try_reserve_exact(vertices)?;
        made.rows.try_reserve_exact(vertices + AT_A_TIME)?;
        made.first_edges.try_reserve_exact(vertices + AT_A_TIME)?;
        made.edges.try_reserve_exact(slots + AT_A_TIME)?;
        Ok(made)
    }

    /// Finds the rows and edges of a graph of these sizes.
    fn spread(&mut self, vertices: usize, slots: usize) {
        // What a larger graph left is overwritten, or not read.
        let grow = |numbers: &mut Vec<i32>, count: usize| numbers.resize(numbers.len().max(count + AT_A_TIME), 0);
        grow(&mut self.rows, vertices);
        grow(&mut self.first_edges, vertices);
        grow(&mut self.edges, slots);
        let (mut vertex, mut slot) = (0, 0);
        for Run { row, edge, count, slots } in self.runs.iter().copied() {
            let (row, edge, count, slots) = (row as i32, edge as i32, count as usize, slots as usize);
            count_from(&mut self.rows[vertex..], count, row, 1);
            count_from(&mut self.first_edges[vertex..], count, edge, slots as i32);
            count_from(&mut self.edges[slot..], count * slots, edge, 1);
            (vertex, slot) = (vertex + count, slot + count * slots);
        }
        self.rows[vertices] = -1;
    }
}

/// Writes `count` numbers, `first` and on by steps, and up to [`AT_A_TIME`] behind them.
fn count_from(to: &mut [i32], count: usize, first: i32, step: i32) {
    let mut next = first;
    for to in to.as_chunks_mut::<AT_A_TIME>().0.iter_mut().take(count.div_ceil(AT_A_TIME)) {
        // Numbers behind the last one are not read, and may overflow.
        *to = std::array::from_fn(|place| next.wrapping_add(place as i32 * step));
        next = next.wrapping_add(AT_A_TIME as i32 * step);
    }
}

/// Writes what `number` makes of each number.
fn copy<N: Number>(to: &mut [i32], from: &[N], number: impl Fn(N) -> i32) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = number(*from));
}

/// What the graphs before one have.
#[derive(Clone, Copy, Default)]
struct Before {
    vertices: i32,
    pulled_rows: i32,
    parents: usize,
    readers: usize,
}

impl Before {
    /// The row of the batch's inputs for one of the graph's; there may be none.
    fn pulled(self, row: impl Number) -> i32 {
        if row.is_none() { NONE } else { self.pulled_rows + row.wide() as i32 }
    }
}

impl Batch {
    /// Writes the arrays of the batch for which [`Batch::plan`] was called, once, with the same graphs.
    pub fn write(&mut self, graphs: &Graphs, ids: &[i64], mut to: Arrays) {
        let Sizes { vertices, slots, .. } = self.sizes;
        to.first_edge[vertices] = slots as i32;
        let mut before = Before::default();
        self.group_ends.clear();
        for id in ids {
            let (id, vertex) = (*id as usize, before.vertices as usize);
            // A group ends once it and those before it have their share of all vertices.
            let ended = self.group_ends.len() / self.cursors.len().max(1);
            if ended + 1 < self.groups && vertex * self.groups >= vertices * (ended + 1) {
                self.group_ends.extend_from_slice(&self.cursors);
            }
            let graph = graphs.graph(id);
            if self.is_by_ratio {
                self.deal_by_steps(graphs, graph, vertex);
            } else {
                self.deal_by_segments(graphs, graph);
            }
            self.dealt.spread(graph.vertices, graph.slots);
            match graph.numbers {
                Numbers::Narrow(its) => self.dealt.write(its, before, &mut to),
                Numbers::Wide(its) => self.dealt.write(its, before, &mut to),
            }
            before.vertices += graph.vertices as i32;
            before.pulled_rows += graph.rows as i32;
            before.parents += graph.edges;
            before.readers += graph.readers;
        }
        // There may be fewer graphs than groups.
        while self.group_ends.len() < (self.groups - 1) * self.cursors.len() {
            self.group_ends.extend_from_slice(&self.cursors);
        }
    }
}

impl Dealt {
    /// Writes a graph that is dealt.
    fn write<N: Number>(&self, graph: Parts<N>, before: Before, to: &mut Arrays) {
        let Self { rows, edges, .. } = self;
        if graph.vertices.len() >= LONG * self.runs.len() {
            self.write_by_runs(graph, before, to);
        } else {
            self.write_by_vertices(graph, before, to);
        }
        let part = |first: usize, count: usize| first..first + count;
        copy(&mut to.parents[part(before.parents, graph.parents.len())], graph.parents, |slot| {
            edges[slot.wide() as usize]
        });
        copy(&mut to.readers[part(before.readers, graph.readers.len())], graph.readers, |vertex| {
            rows[vertex.wide() as usize]
        });
        let ends = part(before.pulled_rows as usize, graph.readers_end.len());
        copy(&mut to.readers_end[ends], graph.readers_end, |end| before.readers as i32 + end.wide() as i32);
        if let Some(to) = &mut to.row {
            let to = &mut to[part(before.vertices as usize, graph.vertices.len())];
            graph.vertices.iter().zip(rows).for_each(|(vertex, row)| to[vertex.wide() as usize] = *row);
        }
    }

    fn write_by_vertices<N: Number>(&self, graph: Parts<N>, before: Before, to: &mut Arrays) {
        // Slices of one length, so that a row is compared with it once.
        let count = to.vertex.len();
        let (first_edge, parents_of) = (&mut to.first_edge[..count], &mut to.parents_of[..count]);
        let (vertex, pulled) = (&mut to.vertex[..count], &mut to.pulled[..count]);
        let mut parent = before.parents as i32;
        let from = graph.vertices.iter().zip(graph.parents_end).zip(graph.pulled);
        for (((its, end), row_pulled), (row, edge)) in from.zip(self.rows.iter().zip(&self.first_edges)) {
            let (row, end) = (*row as usize, before.parents as i32 + end.wide() as i32);
            vertex[row] = before.vertices + its.wide() as i32;
            pulled[row] = before.pulled(*row_pulled);
            parents_of[row] = [parent, end];
            first_edge[row] = *edge;
            parent = end;
        }
        for (child, edge) in graph.children.iter().zip(&self.edges) {
            to.child[*edge as usize] = self.rows[child.wide() as usize];
        }
    }

    fn write_by_runs<N: Number>(&self, graph: Parts<N>, before: Before, to: &mut Arrays) {
        let (mut vertex, mut slot) = (0, 0);
        let mut parent = before.parents as i32;
        for Run { row, edge, count, slots } in self.runs.iter().copied() {
            let (row, edge, count, slots) = (row as usize, edge as usize, count as usize, slots as usize);
            let (of_rows, from) = (row..row + count, vertex..vertex + count);
            copy(&mut to.vertex[of_rows.clone()], &graph.vertices[from.clone()], |its| {
                before.vertices + its.wide() as i32
            });
            copy(&mut to.pulled[of_rows.clone()], &graph.pulled[from.clone()], |row| before.pulled(row));
            let ends = &graph.parents_end[from.clone()];
            for (to, end) in to.parents_of[of_rows.clone()].iter_mut().zip(ends) {
                let end = before.parents as i32 + end.wide() as i32;
                *to = [parent, end];
                parent = end;
            }
            to.first_edge[of_rows].copy_from_slice(&self.first_edges[from]);
            let of_edges: Range<usize> = edge..edge + count * slots;
            let children = &graph.children[slot..slot + of_edges.len()];
            copy(&mut to.child[of_edges], children, |child| self.rows[child.wide() as usize]);
            (vertex, slot) = (vertex + count, slot + count * slots);
        }
    }
}
