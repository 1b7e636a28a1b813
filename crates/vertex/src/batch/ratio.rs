//! Steps by ratio, after the sufficient condition of Chen et al., "ED-Batch" (ICML 2023), section 2.3: next runs the kind
//! of which the largest part of its own frontier is ready. Its own frontier are the vertices that wait for none of their
//! kind among their children. Where all of it is ready, running the kind next is never wrong.
//!
//! Levels run a kind once a level, also where some of its vertices could wait for more of them.

use crate::graphs::{Graphs, Number, Numbers, Parts, Segment};

/// No vertex.
const END: u32 = u32::MAX;

/// A step: the vertices of a kind that run in it, and their slots, by their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub kind: usize,
    pub rows: usize,
    pub edges: usize,
}

/// The vertices of a kind that are not done.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The first one that waits for no child, and how many do.
    first_ready: u32,
    ready: usize,
    /// How many wait for no child of their kind.
    frontier: usize,
}

/// The steps of a batch, and memory to find them in. All of it is by the places of the batch's vertices: graph by graph,
/// sorted in each.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub steps: Vec<Step>,
    /// The step of each vertex.
    pub step: Vec<u32>,
    kind: Vec<u32>,
    slots: Vec<u32>,
    /// Children that are not done, and those of them of the same kind.
    open: Vec<u32>,
    open_of_kind: Vec<u32>,
    /// The end of each vertex's part of `parents`.
    parents_end: Vec<u32>,
    parents: Vec<u32>,
    /// The vertex of each slot of a graph.
    owner: Vec<u32>,
    /// The ready vertex behind each ready vertex.
    next: Vec<u32>,
    waiting: Vec<Waiting>,
}

impl Steps {
    /// Makes memory for batches up to these sizes.
    pub fn new(vertices: usize, slots: usize, kinds: usize) -> Result<Self, std::collections::TryReserveError> {
        let mut made = Self::default();
        let by_vertices = [
            &mut made.step,
            &mut made.kind,
            &mut made.slots,
            &mut made.open,
            &mut made.open_of_kind,
            &mut made.parents_end,
            &mut made.next,
        ];
        by_vertices.into_iter().try_for_each(|numbers| numbers.try_reserve_exact(vertices))?;
        [&mut made.parents, &mut made.owner].into_iter().try_for_each(|numbers| numbers.try_reserve_exact(slots))?;
        made.steps.try_reserve_exact(vertices)?;
        made.waiting.try_reserve_exact(kinds)?;
        Ok(made)
    }

    /// Finds the steps of these graphs, whose labels have these kinds; stops at `most`. Returns whether there are fewer.
    pub fn find(&mut self, graphs: &Graphs, ids: &[i64], kind_of_label: &[u32], kinds: usize, most: usize) -> bool {
        self.read(graphs, ids, kind_of_label);
        self.waiting.clear();
        self.waiting.resize(kinds, Waiting { first_ready: END, ready: 0, frontier: 0 });
        let count = self.kind.len();
        self.step.clear();
        self.step.resize(count, 0);
        self.next.clear();
        self.next.resize(count, END);
        for vertex in (0..count).rev() {
            self.waiting[self.kind[vertex] as usize].frontier += usize::from(self.open_of_kind[vertex] == 0);
            self.add_if_ready(vertex);
        }
        self.steps.clear();
        while let Some(kind) = self.next_kind() {
            if self.steps.len() + 1 >= most {
                return false;
            }
            self.run(kind);
        }
        true
    }

    fn read(&mut self, graphs: &Graphs, ids: &[i64], kind_of_label: &[u32]) {
        let all = [&mut self.kind, &mut self.slots, &mut self.open, &mut self.open_of_kind, &mut self.parents_end];
        all.into_iter().for_each(Vec::clear);
        self.parents.clear();
        for id in ids {
            let graph = graphs.graph(*id as usize);
            match graph.numbers {
                Numbers::Narrow(parts) => self.read_graph(graphs, graph.segments, parts, kind_of_label),
                Numbers::Wide(parts) => self.read_graph(graphs, graph.segments, parts, kind_of_label),
            }
        }
    }

    fn read_graph<N: Number>(&mut self, graphs: &Graphs, segments: &[Segment], its: Parts<N>, kind_of_label: &[u32]) {
        let (first, first_parent) = (self.kind.len(), self.parents.len() as u32);
        self.owner.clear();
        let mut children = its.children;
        for segment in segments {
            let (kind, slots) = (kind_of_label[segment.label as usize], graphs.slots_of(segment));
            for _ in 0..segment.count {
                let vertex = self.kind.len();
                let (its, rest) = children.split_at(slots);
                children = rest;
                // Children lie before their parents; behind the last vertex there is none.
                let kinds = its.iter().filter_map(|child| self.kind.get(first + child.wide() as usize));
                let (open, of_kind) =
                    kinds.fold((0, 0), |(open, of_kind), its| (open + 1, of_kind + u32::from(*its == kind)));
                self.open.push(open);
                self.open_of_kind.push(of_kind);
                self.kind.push(kind);
                self.slots.push(slots as u32);
                self.owner.extend(std::iter::repeat_n(vertex as u32, slots));
            }
        }
        self.parents.extend(its.parents.iter().map(|slot| self.owner[slot.wide() as usize]));
        self.parents_end.extend(its.parents_end.iter().map(|end| first_parent + end.wide()));
    }

    /// The kind of which the largest part of its frontier is ready; of several, the one with most ready.
    fn next_kind(&self) -> Option<usize> {
        let is_ready = |kind: &usize| self.waiting[*kind].ready > 0;
        // Products, not quotients: they are exact.
        let by_ratio = |one: &usize, other: &usize| {
            let [one, other] = [*one, *other].map(|kind| self.waiting[kind]);
            let ratio = (one.ready * other.frontier).cmp(&(other.ready * one.frontier));
            ratio.then(one.ready.cmp(&other.ready))
        };
        (0..self.waiting.len()).rev().filter(is_ready).max_by(by_ratio)
    }

    /// Runs the ready vertices of a kind.
    fn run(&mut self, kind: usize) {
        let Waiting { first_ready, ready, .. } = self.waiting[kind];
        let its = &mut self.waiting[kind];
        (its.first_ready, its.ready, its.frontier) = (END, 0, its.frontier - ready);
        let number = self.steps.len() as u32;
        let (mut edges, mut vertex) = (0, first_ready);
        while vertex != END {
            let place = vertex as usize;
            self.step[place] = number;
            edges += self.slots[place] as usize;
            vertex = self.next[place];
            let first = if place == 0 { 0 } else { self.parents_end[place - 1] as usize };
            for parent in first..self.parents_end[place] as usize {
                self.finish_child(self.parents[parent] as usize, kind as u32);
            }
        }
        self.steps.push(Step { kind, rows: ready, edges });
    }

    /// A vertex has one more child, of this kind, that is done.
    fn finish_child(&mut self, vertex: usize, kind: u32) {
        self.open[vertex] -= 1;
        if self.kind[vertex] == kind {
            self.open_of_kind[vertex] -= 1;
            self.waiting[kind as usize].frontier += usize::from(self.open_of_kind[vertex] == 0);
        }
        self.add_if_ready(vertex);
    }

    fn add_if_ready(&mut self, vertex: usize) {
        if self.open[vertex] == 0 {
            let waiting = &mut self.waiting[self.kind[vertex] as usize];
            self.next[vertex] = std::mem::replace(&mut waiting.first_ready, vertex as u32);
            waiting.ready += 1;
        }
    }
}
