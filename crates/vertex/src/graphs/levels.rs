//! Checks and levels one graph.

use super::{Description, Graphs, Label, MOST_SLOTS, NONE, Place, Segment};

/// Memory that is used again from graph to graph. All of it is by the vertices' numbers, unless it says otherwise.
#[derive(Default)]
pub(super) struct Scratch {
    level: Vec<u32>,
    /// In `Graphs::labels`.
    label: Vec<u32>,
    place: Vec<Place>,
    /// Children that have no level yet, and parents that were found.
    count: Vec<u32>,
    /// The first parent of each vertex in `parents`.
    first_parent: Vec<u32>,
    /// The parents of each vertex, as (parent, slot), in the order of the parents' numbers.
    parents: Vec<(u32, u32)>,
    ready: Vec<u32>,
    /// Vertices by level and label, as numbers that sort so.
    sorted: Vec<(u64, u32)>,
}

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

    fn slots(&self, vertex: usize) -> &'a [i32] {
        &self.children[self.first_child[vertex] as usize..self.first_child[vertex + 1] as usize]
    }
}

impl Scratch {
    /// Adds a graph to `to`, or says what is wrong with it.
    pub(super) fn add(&mut self, description: &Description, number: usize, to: &mut Graphs) -> Result<(), String> {
        let graph = Graph::of(description, number);
        self.check(&graph)?;
        if !self.level_in_order(&graph) {
            self.level_in_any_order(&graph)?;
        }
        self.find_labels(&graph, &mut to.labels);
        self.find_places(&graph, to);
        self.add_children(&graph, to);
        self.add_parents(&graph, to);
        self.add_rows(&graph, to);
        Ok(())
    }

    fn check(&self, graph: &Graph) -> Result<(), String> {
        let count = graph.len();
        for vertex in 0..count {
            let slots = graph.slots(vertex);
            if slots.len() > MOST_SLOTS {
                return Err(format!("vertex {vertex} has {} slots; at most {MOST_SLOTS} are accepted", slots.len()));
            }
            for (slot, child) in slots.iter().enumerate() {
                if *child < NONE || *child as i64 >= count as i64 {
                    let last = count - 1;
                    return Err(format!("vertex {vertex}, slot {slot}: child {child}; -1 to {last} are accepted"));
                }
            }
        }
        for (vertex, row) in graph.rows.iter().flat_map(|rows| rows.iter().enumerate()) {
            if *row < NONE || *row as i64 >= count as i64 {
                return Err(format!("vertex {vertex} pulls row {row}; -1 to {} are accepted", count - 1));
            }
        }
        Ok(())
    }

    /// Levels a graph whose vertices all come behind their children. Returns whether they do.
    fn level_in_order(&mut self, graph: &Graph) -> bool {
        self.level.clear();
        for vertex in 0..graph.len() {
            let mut level = 0;
            for child in graph.slots(vertex).iter().filter(|child| **child != NONE) {
                match self.level.get(*child as usize) {
                    Some(below) => level = level.max(below + 1),
                    None => return false,
                }
            }
            self.level.push(level);
        }
        true
    }

    /// Levels a graph by the order in which vertices have no more children without a level (Kahn 1962).
    fn level_in_any_order(&mut self, graph: &Graph) -> Result<(), String> {
        let count = graph.len();
        self.find_parents(graph);
        self.level.clear();
        self.level.resize(count, 0);
        self.count.clear();
        let children = |vertex| graph.slots(vertex).iter().filter(|child| **child != NONE).count() as u32;
        self.count.extend((0..count).map(children));
        self.ready.clear();
        self.ready.extend((0..count as u32).filter(|vertex| self.count[*vertex as usize] == 0));
        let mut done = 0;
        while let Some(vertex) = self.ready.get(done).copied() {
            done += 1;
            let [first, end] = [0, 1].map(|next| self.first_parent[vertex as usize + next] as usize);
            for (parent, _) in &self.parents[first..end] {
                let parent = *parent as usize;
                self.level[parent] = self.level[parent].max(self.level[vertex as usize] + 1);
                self.count[parent] -= 1;
                if self.count[parent] == 0 {
                    self.ready.push(parent as u32);
                }
            }
        }
        if done < count { Err(self.circle(graph)) } else { Ok(()) }
    }

    /// Names a circle: from a vertex that got no level, each has a child that got none.
    fn circle(&self, graph: &Graph) -> String {
        let has_none = |vertex: &usize| self.count[*vertex] > 0;
        let mut way = vec![(0..graph.len()).find(has_none).expect("some vertex got no level")];
        loop {
            let last = way[way.len() - 1];
            let children = graph.slots(last).iter().filter(|child| **child != NONE).map(|child| *child as usize);
            let next = children.into_iter().find(has_none).expect("a child of it got no level");
            if let Some(first) = way.iter().position(|vertex| *vertex == next) {
                way.drain(..first);
                break;
            }
            way.push(next);
        }
        // A long circle is known by its beginning.
        const SHOWN: usize = 8;
        let mut names: Vec<_> = way.iter().take(SHOWN).map(usize::to_string).collect();
        names.extend((way.len() > SHOWN).then(|| "…".into()));
        format!("vertex {} is its own descendant by {} → {}", way[0], names.join(" → "), way[0])
    }

    /// Finds the parents of all vertices, by a counting sort of the slots.
    fn find_parents(&mut self, graph: &Graph) {
        let count = graph.len();
        self.first_parent.clear();
        self.first_parent.resize(count + 2, 0);
        for vertex in 0..count {
            for child in graph.slots(vertex).iter().filter(|child| **child != NONE) {
                self.first_parent[*child as usize + 2] += 1;
            }
        }
        for vertex in 2..count + 2 {
            self.first_parent[vertex] += self.first_parent[vertex - 1];
        }
        self.parents.clear();
        self.parents.resize(self.first_parent[count + 1] as usize, (0, 0));
        for vertex in 0..count {
            for (slot, child) in graph.slots(vertex).iter().enumerate().filter(|(_, child)| **child != NONE) {
                let place = &mut self.first_parent[*child as usize + 1];
                self.parents[*place as usize] = (vertex as u32, slot as u32);
                *place += 1;
            }
        }
    }

    fn find_labels(&mut self, graph: &Graph, labels: &mut Vec<Label>) {
        self.label.clear();
        let mut last: Option<(Label, u32)> = None;
        for vertex in 0..graph.len() {
            let slots = graph.slots(vertex).len() as u32;
            let label = Label { kind: graph.kinds.map(|kinds| kinds[vertex]), slots };
            let number = match last {
                Some((same, number)) if same == label => number,
                _ => labels.iter().position(|its| *its == label).unwrap_or_else(|| {
                    labels.push(label);
                    labels.len() - 1
                }) as u32,
            };
            last = Some((label, number));
            self.label.push(number);
        }
    }

    /// Sorts the vertices into segments.
    fn find_places(&mut self, graph: &Graph, to: &mut Graphs) {
        let count = graph.len();
        let key = |vertex: usize| u64::from(self.level[vertex]) << 32 | u64::from(self.label[vertex]);
        self.sorted.clear();
        self.sorted.extend((0..count).map(|vertex| (key(vertex), vertex as u32)));
        self.sorted.sort_unstable();
        self.place.clear();
        self.place.resize(count, Place { segment: 0, index: 0 });
        let (first, mut last_key) = (to.segments.len(), None);
        for (key, vertex) in &self.sorted {
            if last_key != Some(*key) {
                let (level, label) = ((key >> 32) as u32, *key as u32);
                to.segments.push(Segment { level, label, count: 0, has_empty_slots: false });
                last_key = Some(*key);
            }
            let number = to.segments.len() - 1;
            let segment = &mut to.segments[number];
            self.place[*vertex as usize] = Place { segment: (number - first) as u32, index: segment.count };
            segment.count += 1;
            segment.has_empty_slots |= graph.slots(*vertex as usize).contains(&NONE);
            to.vertices.push(*vertex);
            to.levels = to.levels.max(segment.level + 1);
        }
    }

    fn add_children(&self, graph: &Graph, to: &mut Graphs) {
        let first = to.starts[to.starts.len() - 1].segment;
        let nowhere = Place { segment: (to.segments.len() - first) as u32, index: 0 };
        for (_, vertex) in &self.sorted {
            let place = |child: &i32| if *child == NONE { nowhere } else { self.place[*child as usize] };
            to.children.extend(graph.slots(*vertex as usize).iter().map(place));
        }
    }

    fn add_parents(&mut self, graph: &Graph, to: &mut Graphs) {
        self.find_parents(graph);
        let first = to.parents.len();
        for (_, vertex) in &self.sorted {
            let vertex = *vertex as usize;
            // The counting sort left each vertex's end in its successor's place.
            let [begin, end] = [vertex, vertex + 1].map(|place| self.first_parent[place] as usize);
            for (parent, slot) in &self.parents[begin..end] {
                let Place { segment, index } = self.place[*parent as usize];
                let slots = graph.slots(*parent as usize).len() as u32;
                to.parents.push(Place { segment, index: index * slots + slot });
            }
            to.parents_end.push((to.parents.len() - first) as u32);
        }
    }

    fn add_rows(&mut self, graph: &Graph, to: &mut Graphs) {
        let Some(rows) = graph.rows else {
            to.pulled.extend(self.sorted.iter().map(|(_, vertex)| *vertex as i32));
            to.readers.extend(&self.place);
            to.readers_end.extend(1..=graph.len() as u32);
            return;
        };
        to.pulled.extend(self.sorted.iter().map(|(_, vertex)| rows[*vertex as usize]));
        let count = rows.iter().max().map_or(0, |last| (*last + 1) as usize);
        let first = to.readers_end.len();
        to.readers_end.resize(first + count, 0);
        let ends = &mut to.readers_end[first..];
        rows.iter().filter(|row| **row != NONE).for_each(|row| ends[*row as usize] += 1);
        let mut end = 0;
        for row in ends.iter_mut() {
            (*row, end) = (end, end + *row);
        }
        let begin = to.readers.len();
        to.readers.resize(begin + end as usize, Place { segment: 0, index: 0 });
        for (vertex, row) in rows.iter().enumerate().filter(|(_, row)| **row != NONE) {
            let place = &mut ends[*row as usize];
            to.readers[begin + *place as usize] = self.place[vertex];
            *place += 1;
        }
    }
}
