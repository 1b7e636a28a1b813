//! Checks and levels one graph.

use std::ops::Range;

use super::numbers::most as most_numbers;
use super::{Description, Graphs, Label, MOST_SLOTS, NONE, Refused, Segment, Start, no_memory};

/// Memory that is used again from graph to graph. All of it is by the vertices' numbers, unless it says otherwise.
#[derive(Default)]
pub(super) struct Scratch {
    level: Vec<u32>,
    /// In `Graphs::labels`.
    label: Vec<u32>,
    /// By kind, the last for vertices without one, and by slots: the number of the label, or [`NO_LABEL`].
    labels: Vec<Vec<u32>>,
    /// The sorted place.
    place: Vec<u32>,
    /// The first sorted slot.
    first_slot: Vec<u32>,
    /// Edges to parents; later the next place for one among the graph's.
    parents: Vec<u32>,
    /// By level: the end of its vertices in `sorted`.
    level_end: Vec<u32>,
    /// Vertices by level and label.
    sorted: Vec<u32>,
    /// What [`Parts`](super::Parts) has, in its order.
    numbers: Vec<u32>,
}

const NO_LABEL: u32 = u32::MAX;
/// The place in `Scratch::labels` of vertices without a kind.
const NO_KIND: usize = 1 << u8::BITS;

/// One graph of a description.
struct Graph<'a> {
    first_child: &'a [i64],
    children: &'a [i32],
    kinds: Option<&'a [u8]>,
    rows: Option<&'a [i32]>,
}

impl<'a> Graph<'a> {
    fn of(description: &Description<'a>, number: usize) -> Self {
        let [first, end] = [number, number + 1].map(|place| description.first_vertex[place] as usize);
        Self {
            first_child: &description.first_child[first..=end],
            children: description.children,
            kinds: description.kinds.map(|kinds| &kinds[first..end]),
            rows: description.rows.map(|rows| &rows[first..end]),
        }
    }

    fn len(&self) -> usize {
        self.first_child.len() - 1
    }

    /// The number of all slots.
    fn all_slots(&self) -> usize {
        (self.first_child[self.len()] - self.first_child[0]) as usize
    }

    fn slots(&self, vertex: usize) -> &'a [i32] {
        &self.children[self.first_child[vertex] as usize..self.first_child[vertex + 1] as usize]
    }

    /// The children in a vertex's slots that are not empty.
    fn children(&self, vertex: usize) -> impl Iterator<Item = usize> + use<'a> {
        self.slots(vertex).iter().filter(|child| **child != NONE).map(|child| *child as usize)
    }
}

/// Makes `to` so long, of these values.
fn fill<T: Clone>(to: &mut Vec<T>, count: usize, value: T) -> Result<(), Refused> {
    to.clear();
    to.try_reserve(count).map_err(|_| no_memory(count))?;
    to.resize(count, value);
    Ok(())
}

impl Scratch {
    /// Adds a graph to `to`, and returns where the next one begins; or names the graph's mistake.
    pub(super) fn add(&mut self, description: &Description, number: usize, to: &mut Graphs) -> Result<Start, Refused> {
        let graph = Graph::of(description, number);
        if !self.level_in_order(&graph)? {
            self.level_in_any_order(&graph)?;
        }
        check_rows(&graph)?;
        self.find_labels(&graph, &mut to.labels)?;
        self.sort()?;
        self.find_segments(&graph, &mut to.segments)?;
        to.levels = to.levels.max(self.level_end.len() as u32);
        let mut start = to.starts[to.starts.len() - 1];
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        let most = most_numbers(graph.len(), graph.all_slots());
        numbers.try_reserve(most).map_err(|_| no_memory(most))?;
        numbers.extend(&self.sorted);
        let edges = self.add_ends_of_parents(&mut numbers);
        match graph.rows {
            Some(rows) => numbers.extend(self.sorted.iter().map(|vertex| rows[*vertex as usize] as u32)),
            None => numbers.extend(&self.sorted),
        }
        start.slots += self.add_children(&graph, &mut numbers);
        self.add_parents(&graph, edges, &mut numbers);
        start.edges += edges;
        start.rows += self.add_readers(&graph, &mut numbers);
        start.vertices += graph.len();
        start.segment = to.segments.len();
        start.number += numbers.len();
        to.numbers.extend(&numbers);
        self.numbers = numbers;
        Ok(start)
    }

    /// Checks the slots and counts parents. Levels a graph whose vertices all come behind their children; returns
    /// whether they do.
    fn level_in_order(&mut self, graph: &Graph) -> Result<bool, Refused> {
        let count = graph.len();
        fill(&mut self.level, count, 0)?;
        fill(&mut self.parents, count, 0)?;
        let mut is_in_order = true;
        for vertex in 0..count {
            let slots = graph.slots(vertex);
            if slots.len() > MOST_SLOTS {
                let why = format!("vertex {vertex} has {} slots; at most {MOST_SLOTS} are accepted", slots.len());
                return Err(why.into());
            }
            let mut level = 0;
            for (slot, child) in slots.iter().enumerate().filter(|(_, child)| **child != NONE) {
                let below = usize::try_from(*child).ok().and_then(|child| Some((child, self.level.get(child)?)));
                let Some((child, below)) = below else {
                    let last = count - 1;
                    let why = format!("vertex {vertex}, slot {slot}: child {child}; -1 to {last} are accepted");
                    return Err(why.into());
                };
                self.parents[child] += 1;
                level = level.max(below + 1);
                is_in_order &= child < vertex;
            }
            self.level[vertex] = level;
        }
        Ok(is_in_order)
    }

    /// Levels a graph by the order in which vertices have no more children without a level (Kahn 1962).
    fn level_in_any_order(&mut self, graph: &Graph) -> Result<(), Refused> {
        let count = graph.len();
        let (mut ends, mut parents, mut open) = (vec![], vec![], vec![]);
        fill(&mut ends, count, 0)?;
        let mut end = 0;
        for (its_end, parents) in ends.iter_mut().zip(&self.parents) {
            (*its_end, end) = (end, end + *parents as usize);
        }
        fill(&mut parents, end, 0)?;
        fill(&mut open, count, 0)?;
        for (vertex, open) in open.iter_mut().enumerate() {
            for child in graph.children(vertex) {
                parents[ends[child]] = vertex;
                ends[child] += 1;
                *open += 1;
            }
        }
        fill(&mut self.level, count, 0)?;
        fill(&mut self.sorted, count, 0)?;
        self.sorted.clear();
        self.sorted.extend((0..count as u32).filter(|vertex| open[*vertex as usize] == 0));
        let mut done = 0;
        while let Some(vertex) = self.sorted.get(done).map(|vertex| *vertex as usize) {
            done += 1;
            for parent in &parents[ends[vertex] - self.parents[vertex] as usize..ends[vertex]] {
                self.level[*parent] = self.level[*parent].max(self.level[vertex] + 1);
                open[*parent] -= 1;
                if open[*parent] == 0 {
                    self.sorted.push(*parent as u32);
                }
            }
        }
        if done < count { Err(circle(graph, &open).into()) } else { Ok(()) }
    }

    fn find_labels(&mut self, graph: &Graph, labels: &mut Vec<Label>) -> Result<(), Refused> {
        self.labels.resize(NO_KIND + 1, vec![]);
        fill(&mut self.label, graph.len(), 0)?;
        for (vertex, number) in self.label.iter_mut().enumerate() {
            let (slots, kind) = (graph.slots(vertex).len(), graph.kinds.map(|kinds| kinds[vertex]));
            let numbers = &mut self.labels[kind.map_or(NO_KIND, usize::from)];
            if numbers.len() <= slots {
                numbers.resize(slots + 1, NO_LABEL);
            }
            if numbers[slots] == NO_LABEL {
                numbers[slots] = labels.len() as u32;
                labels.push(Label { kind, slots: slots as u32 });
            }
            *number = numbers[slots];
        }
        Ok(())
    }

    /// Sorts the vertices by level, label and number.
    fn sort(&mut self) -> Result<(), Refused> {
        let levels = self.level.iter().max().map_or(0, |last| *last as usize + 1);
        fill(&mut self.level_end, levels, 0)?;
        self.level.iter().for_each(|level| self.level_end[*level as usize] += 1);
        let mut end = 0;
        for of_level in &mut self.level_end {
            (*of_level, end) = (end, end + *of_level);
        }
        fill(&mut self.sorted, self.level.len(), 0)?;
        for (vertex, level) in self.level.iter().enumerate() {
            let end = &mut self.level_end[*level as usize];
            self.sorted[*end as usize] = vertex as u32;
            *end += 1;
        }
        let label = |vertex: &u32| self.label[*vertex as usize];
        let mut first = 0;
        for end in &self.level_end {
            let of_level = &mut self.sorted[first..*end as usize];
            if !of_level.is_sorted_by_key(label) {
                of_level.sort_unstable_by_key(|vertex| (label(vertex), *vertex));
            }
            first = *end as usize;
        }
        Ok(())
    }

    /// Makes segments of the sorted vertices.
    fn find_segments(&mut self, graph: &Graph, segments: &mut Vec<Segment>) -> Result<(), Refused> {
        let count = graph.len();
        fill(&mut self.place, count, 0)?;
        fill(&mut self.first_slot, count, 0)?;
        segments.try_reserve(count).map_err(|_| no_memory(count))?;
        let (mut last, mut first_slot) = (None, 0);
        for (place, vertex) in self.sorted.iter().enumerate() {
            let vertex = *vertex as usize;
            let (level, label) = (self.level[vertex], self.label[vertex]);
            if last != Some((level, label)) {
                segments.push(Segment { level, label, count: 0, first_empty: None });
                last = Some((level, label));
            }
            let (segment, slots) = (segments.last_mut().expect("one was pushed"), graph.slots(vertex));
            if segment.first_empty.is_none() && slots.contains(&NONE) {
                segment.first_empty = Some(segment.count);
            }
            segment.count += 1;
            (self.place[vertex], self.first_slot[vertex]) = (place as u32, first_slot);
            first_slot += slots.len() as u32;
        }
        Ok(())
    }

    /// Returns the number of edges.
    fn add_ends_of_parents(&mut self, to: &mut Vec<u32>) -> usize {
        let mut end = 0;
        for vertex in &self.sorted {
            let parents = &mut self.parents[*vertex as usize];
            (*parents, end) = (end, end + *parents);
            to.push(end);
        }
        end as usize
    }

    fn add_children(&self, graph: &Graph, to: &mut Vec<u32>) -> usize {
        let (first, nowhere) = (to.len(), graph.len() as u32);
        for vertex in &self.sorted {
            let slots = graph.slots(*vertex as usize).iter();
            to.extend(slots.map(|child| if *child == NONE { nowhere } else { self.place[*child as usize] }));
        }
        to.len() - first
    }

    fn add_parents(&mut self, graph: &Graph, edges: usize, to: &mut Vec<u32>) {
        let first = to.len();
        to.resize(first + edges, 0);
        let parents = &mut to[first..];
        for vertex in 0..graph.len() {
            let slots = graph.slots(vertex).iter().zip(self.first_slot[vertex]..);
            for (child, slot) in slots.filter(|(child, _)| **child != NONE) {
                let place = &mut self.parents[*child as usize];
                parents[*place as usize] = slot;
                *place += 1;
            }
        }
    }

    fn add_readers(&self, graph: &Graph, to: &mut Vec<u32>) -> usize {
        let Some(rows) = graph.rows else {
            to.extend(1..=graph.len() as u32);
            to.extend(&self.place);
            return graph.len();
        };
        let count = rows.iter().max().map_or(0, |last| (*last + 1) as usize);
        let first = to.len();
        to.resize(first + count, 0);
        let ends = &mut to[first..];
        rows.iter().filter(|row| **row != NONE).for_each(|row| ends[*row as usize] += 1);
        let mut end = 0;
        for row in ends.iter_mut() {
            (*row, end) = (end, end + *row);
        }
        to.resize(first + count + end as usize, 0);
        let (ends, readers) = to[first..].split_at_mut(count);
        for (vertex, row) in rows.iter().enumerate().filter(|(_, row)| **row != NONE) {
            let end = &mut ends[*row as usize];
            readers[*end as usize] = self.place[vertex];
            *end += 1;
        }
        count
    }
}

fn check_rows(graph: &Graph) -> Result<(), String> {
    let accepted: Range<i64> = NONE.into()..graph.len() as i64;
    let rows = graph.rows.unwrap_or_default();
    match rows.iter().position(|row| !accepted.contains(&i64::from(*row))) {
        Some(vertex) => {
            let last = graph.len() - 1;
            Err(format!("vertex {vertex} pulls row {}; -1 to {last} are accepted", rows[vertex]))
        }
        None => Ok(()),
    }
}

/// Names a circle: from a vertex that got no level, each has a child that got none. `open` has each vertex's children
/// without a level.
fn circle(graph: &Graph, open: &[u32]) -> String {
    let has_none = |vertex: &usize| open[*vertex] > 0;
    let mut way = vec![];
    let mut place_in_way = vec![None; graph.len()];
    let mut next = (0..graph.len()).find(has_none).expect("some vertex got no level");
    while place_in_way[next].is_none() {
        place_in_way[next] = Some(way.len());
        way.push(next);
        next = graph.children(next).find(has_none).expect("a child of it got no level");
    }
    way.drain(..place_in_way[next].expect("the way came back"));
    // A long circle is known by its beginning.
    const SHOWN: usize = 8;
    let mut names: Vec<_> = way.iter().take(SHOWN).map(usize::to_string).collect();
    names.extend((way.len() > SHOWN).then(|| "…".into()));
    format!("vertex {} is its own descendant by {} → {}", way[0], names.join(" → "), way[0])
}
