//! The numbers of graphs, in as many bytes as they need.
//!
//! A batch takes graphs from all over the memory, and waits for it longer than it computes. Numbers of two bytes halve
//! that memory.

use std::ops::Range;

use super::{Description, Refused, memory};

/// A number of a vertex, a slot or a row of a graph, or of a place behind the last one.
pub(crate) trait Number: Copy {
    /// No row.
    const NONE: Self;

    fn wide(self) -> u32;

    fn is_none(self) -> bool;
}

impl Number for u16 {
    const NONE: Self = Self::MAX;

    fn wide(self) -> u32 {
        self.into()
    }

    fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl Number for u32 {
    const NONE: Self = Self::MAX;

    fn wide(self) -> u32 {
        self
    }

    fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// The numbers of all graphs.
#[derive(Debug)]
pub(super) enum Kept {
    /// No graph has more than 65,535 vertices or slots.
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

/// The numbers of one graph.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'a> {
    Narrow(Parts<'a, u16>),
    Wide(Parts<'a, u32>),
}

/// The numbers of one graph. Vertices are *sorted*: segment by segment; and so are slots, by their vertices.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a, N> {
    /// The number in the graph of each sorted vertex.
    pub vertices: &'a [N],
    /// The end of each sorted vertex's part of `parents`.
    pub parents_end: &'a [N],
    /// The row of the graph's inputs that each sorted vertex pulls, or [`Number::NONE`].
    pub pulled: &'a [N],
    /// The sorted place of the child in each sorted slot. Where there is none, the place behind the last.
    pub children: &'a [N],
    /// The sorted slots in which each sorted vertex is a child, in the order of the parents' numbers.
    pub parents: &'a [N],
    /// The end of each pulled row's part of `readers`.
    pub readers_end: &'a [N],
    /// The sorted places of the vertices that pull each row of the graph's inputs, in the order of their numbers.
    pub readers: &'a [N],
}

/// The most numbers that so many vertices and slots have: each vertex its own, its parents' end, its row, the end of a
/// row, and a place among the row's readers; each slot its child, and a place among the child's parents.
pub(super) fn most(vertices: usize, slots: usize) -> usize {
    5 * vertices + 2 * slots
}

impl Kept {
    /// Makes memory for the graphs of a description, whose offsets are checked.
    pub fn new(description: &Description) -> Result<Self, Refused> {
        let (vertices, slots) = (description.first_child.len() - 1, description.children.len());
        let count = most(vertices, slots);
        let is_narrow = description.first_vertex.windows(2).all(|ends| {
            let slots = description.first_child[ends[1] as usize] - description.first_child[ends[0] as usize];
            (ends[1] - ends[0]).max(slots) <= u16::MAX.into()
        });
        Ok(if is_narrow { Self::Narrow(memory(count)?) } else { Self::Wide(memory(count)?) })
    }

    /// Adds the numbers of a graph.
    pub fn extend(&mut self, numbers: &[u32]) {
        match self {
            // The last number stays the last: see `Number::NONE`.
            Self::Narrow(all) => all.extend(numbers.iter().map(|number| *number as u16)),
            Self::Wide(all) => all.extend(numbers),
        }
    }

    /// The numbers of the graph in this range. The counts are its vertices, slots, edges and rows.
    pub fn parts(&self, range: Range<usize>, counts: [usize; 4]) -> Numbers<'_> {
        match self {
            Self::Narrow(all) => Numbers::Narrow(Parts::of(&all[range], counts)),
            Self::Wide(all) => Numbers::Wide(Parts::of(&all[range], counts)),
        }
    }
}

impl Numbers<'_> {
    /// The number in the graph of a sorted vertex.
    pub fn vertex(&self, place: usize) -> usize {
        match self {
            Self::Narrow(parts) => parts.vertices[place].into(),
            Self::Wide(parts) => parts.vertices[place] as usize,
        }
    }
}

impl<'a, N> Parts<'a, N> {
    fn of(numbers: &'a [N], [vertices, slots, edges, rows]: [usize; 4]) -> Self {
        let mut rest = numbers;
        let mut take = |count: usize| {
            let (taken, behind) = rest.split_at(count);
            rest = behind;
            taken
        };
        Self {
            vertices: take(vertices),
            parents_end: take(vertices),
            pulled: take(vertices),
            children: take(slots),
            parents: take(edges),
            readers_end: take(rows),
            readers: rest,
        }
    }
}
