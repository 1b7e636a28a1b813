//! Input graphs, checked and levelled once. Batches only merge them.
//!
//! A vertex's level is the longest way to it from a vertex without children. The vertices of a graph are kept in
//! *segments*: those of one level, one kind and one number of slots, in the user's order. A segment's vertices have rows
//! of a batch that follow each other, so a batch deals out rows to segments.

mod levels;
mod numbers;

use std::fmt::{self, Display, Formatter};

use numbers::Kept;
pub(crate) use numbers::{Number, Numbers, Parts};

/// The most vertices of one graph.
pub const MOST_VERTICES: usize = 1 << 24;
/// The most slots of a vertex.
pub const MOST_SLOTS: usize = 65_535;
/// No child, or no row: also in the arrays that users give.
pub const NONE: i32 = -1;

/// Graphs as a user describes them. Offsets begin with 0.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// The first vertex of each graph, and behind the last graph the number of all vertices.
    pub first_vertex: &'a [i64],
    /// The first slot of each vertex, and behind the last vertex the number of all slots.
    pub first_child: &'a [i64],
    /// The child in each slot, by its number in the graph; -1 for none.
    pub children: &'a [i32],
    /// The kind of each vertex: the number of its function. Without it, the number of slots decides.
    pub kinds: Option<&'a [u8]>,
    /// The row of the graph's inputs that each vertex pulls; -1 for none. A graph has no more rows than vertices.
    /// Without it, each vertex pulls the row of its number.
    pub rows: Option<&'a [i32]>,
}

/// Graphs that are not accepted: which, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The graph, if one is to blame.
    pub graph: Option<usize>,
    /// The mistake.
    pub why: String,
    /// The graphs may be sound: there is no memory for them.
    pub lacks_memory: bool,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { graph: None, why, lacks_memory: false }
    }
}

impl Display for Refused {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        if let Some(graph) = self.graph {
            write!(to, "graph {graph}: ")?;
        }
        to.write_str(&self.why)
    }
}

impl std::error::Error for Refused {}

/// What decides a vertex's function, and its number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    /// As the user said.
    pub kind: Option<u8>,
    pub slots: u32,
}

/// Vertices of one graph with the same level and label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub level: u32,
    /// In [`Graphs::labels`].
    pub label: u32,
    pub count: u32,
    /// The first vertex with an empty slot, by its place in the segment.
    pub first_empty: Option<u32>,
}

/// Where the parts of a graph begin in the arrays of all graphs.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    segment: usize,
    number: usize,
    vertices: usize,
    slots: usize,
    /// Slots that are not empty.
    edges: usize,
    /// Rows of the inputs.
    rows: usize,
}

/// Graphs that batches can be made of. Their structure does not change.
#[derive(Debug)]
pub struct Graphs {
    pub(crate) labels: Vec<Label>,
    /// The starts of each graph, and behind the last one the ends.
    starts: Vec<Start>,
    segments: Vec<Segment>,
    /// All of one graph, then all of the next, so that a batch reads memory in long parts.
    numbers: Kept,
    levels: u32,
}

/// One of the graphs.
#[derive(Clone, Copy)]
pub(crate) struct Graph<'a> {
    pub segments: &'a [Segment],
    pub vertices: usize,
    pub slots: usize,
    /// Slots that are not empty.
    pub edges: usize,
    /// Rows of the inputs.
    pub rows: usize,
    /// Vertices that pull.
    pub readers: usize,
    pub numbers: Numbers<'a>,
}

impl Graphs {
    /// Checks and levels graphs.
    pub fn new(description: &Description) -> Result<Self, Refused> {
        check_offsets(description)?;
        let graphs = description.first_vertex.len() - 1;
        let mut made = Self {
            labels: vec![],
            starts: memory(graphs + 1)?,
            segments: vec![],
            numbers: Kept::new(description)?,
            levels: 0,
        };
        let mut scratch = levels::Scratch::default();
        let mut start = Start::default();
        for graph in 0..graphs {
            made.starts.push(start);
            let of_graph = |its: Refused| Refused { graph: (!its.lacks_memory).then_some(graph), ..its };
            start = scratch.add(description, graph, &mut made).map_err(of_graph)?;
        }
        made.starts.push(start);
        Ok(made)
    }

    /// The number of slots of a segment's vertices.
    pub(crate) fn slots_of(&self, segment: &Segment) -> usize {
        self.labels[segment.label as usize].slots as usize
    }

    /// One of the graphs.
    pub(crate) fn graph(&self, number: usize) -> Graph<'_> {
        let (start, end) = (self.starts[number], self.starts[number + 1]);
        let (vertices, edges) = (end.vertices - start.vertices, end.edges - start.edges);
        let (slots, rows) = (end.slots - start.slots, end.rows - start.rows);
        let readers = end.number - start.number - (3 * vertices + slots + edges + rows);
        Graph {
            segments: &self.segments[start.segment..end.segment],
            vertices,
            slots,
            edges,
            rows,
            readers,
            numbers: self.numbers.parts(start.number..end.number, [vertices, slots, edges, rows]),
        }
    }

    /// The number of graphs.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of a graph's vertices.
    pub fn vertices(&self, graph: usize) -> usize {
        self.starts[graph + 1].vertices - self.starts[graph].vertices
    }

    /// The number of a graph's slots, empty ones too.
    pub fn slots(&self, graph: usize) -> usize {
        self.starts[graph + 1].slots - self.starts[graph].slots
    }

    /// The number of rows that a graph has of each input: one more than the largest that a vertex pulls.
    pub fn rows(&self, graph: usize) -> usize {
        self.starts[graph + 1].rows - self.starts[graph].rows
    }

    /// The number of levels of the highest graph.
    pub fn levels(&self) -> usize {
        self.levels as usize
    }

    /// The level of each vertex of a graph.
    pub fn levels_of(&self, graph: usize) -> Vec<usize> {
        let graph = self.graph(graph);
        let mut levels = vec![0; graph.vertices];
        let mut sorted = 0..graph.vertices;
        for segment in graph.segments {
            let of_segment = sorted.by_ref().take(segment.count as usize);
            of_segment.for_each(|place| levels[graph.numbers.vertex(place)] = segment.level as usize);
        }
        levels
    }
}

/// Memory for `count` numbers, or a refusal: graphs may take much.
fn memory<T>(count: usize) -> Result<Vec<T>, Refused> {
    let mut made = Vec::new();
    made.try_reserve_exact(count).map_err(|_| no_memory(count)).map(|()| made)
}

fn no_memory(count: usize) -> Refused {
    Refused { graph: None, why: format!("no memory for {count} numbers of the graphs"), lacks_memory: true }
}

/// The arrays fit together, so that graphs are in range.
fn check_offsets(description: &Description) -> Result<(), Refused> {
    let refused = |graph, why: String| Err(Refused { graph, ..why.into() });
    let rising = |name: &str, offsets: &[i64], end: usize| -> Result<(), String> {
        match offsets {
            [0, ..] => {}
            [] => return Err(format!("{name} is empty; it has one number more than it counts")),
            [first, ..] => return Err(format!("{name} begins with {first}, not with 0")),
        }
        if let Some(place) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            let (before, behind) = (offsets[place], offsets[place + 1]);
            return Err(format!("{name} falls from {before} to {behind} behind place {place}; offsets rise"));
        }
        match offsets[offsets.len() - 1] {
            last if last as u64 == end as u64 => Ok(()),
            last => Err(format!("{name} ends with {last}, not with {end}")),
        }
    };
    let vertices = description.first_child.len().saturating_sub(1);
    let checked = rising("firstChild", description.first_child, description.children.len())
        .and_then(|()| rising("firstVertex", description.first_vertex, vertices));
    if let Err(why) = checked {
        return refused(None, why);
    }
    let counts = [("kinds", description.kinds.map(<[_]>::len)), ("rows", description.rows.map(<[_]>::len))];
    for (name, count) in counts {
        if let Some(count) = count.filter(|count| *count != vertices) {
            return refused(None, format!("{name} has {count} numbers for {vertices} vertices"));
        }
    }
    for (graph, ends) in description.first_vertex.windows(2).enumerate() {
        match ends[1] - ends[0] {
            0 => return refused(Some(graph), "it has no vertices; at least one is accepted".into()),
            count if count as usize > MOST_VERTICES => {
                return refused(Some(graph), format!("it has {count} vertices; at most {MOST_VERTICES} are accepted"));
            }
            _ => {}
        }
    }
    if u32::try_from(description.children.len().max(vertices)).is_err() {
        return refused(None, format!("{} slots; at most {} are accepted", description.children.len(), u32::MAX));
    }
    Ok(())
}
