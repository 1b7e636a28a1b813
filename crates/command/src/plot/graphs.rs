//! A batch of input graphs by its levels: the vertices of a level with the same number of slots run together.

use serde_json::Value;
use vertex::graphs::{Description, Graphs, NONE};

use super::svg::{Anchor, FAINT, PALETTE, Picture, Style, heading_width, text_width};
use crate::quantity::counted;

/// The most width of a level.
const WIDTH: f64 = 960.0;
const ROW: f64 = 56.0;
/// The width of a vertex: the most, and the least that is drawn as a vertex.
const CELL: (f64, f64) = (26.0, 5.0);

/// A vertex of the batch.
pub struct Vertex {
    graph: usize,
    /// Its number in the graph.
    number: usize,
    level: usize,
    slots: usize,
    /// The vertices of the batch in its slots, without empty ones.
    children: Vec<usize>,
}

/// Reads and levels the graphs of a file.
pub fn read(text: &str) -> Result<Vec<Vertex>, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let list = |value: &Value, what: String| {
        value
            .as_array()
            .cloned()
            .ok_or_else(|| format!("{what} is no list; {{\"graphs\": [[[], [], [0, 1]]]}} is accepted"))
    };
    let (mut first_vertex, mut first_child, mut children) = (vec![0], vec![0], vec![]);
    for (graph, vertices) in list(&all["graphs"], "\"graphs\"".into())?.iter().enumerate() {
        for (vertex, slots) in list(vertices, format!("graph {graph}"))?.iter().enumerate() {
            let name = format!("graph {graph}: vertex {vertex}");
            for child in list(slots, name.clone())? {
                let number = child.as_i64().and_then(|number| i32::try_from(number).ok());
                children.push(number.ok_or_else(|| format!("{name}: {child} is no number of a vertex"))?);
            }
            first_child.push(children.len() as i64);
        }
        first_vertex.push(first_child.len() as i64 - 1);
    }
    let (first_vertex, first_child, children) = (&first_vertex[..], &first_child[..], &children[..]);
    let description = Description { first_vertex, first_child, children, kinds: None, rows: None };
    let graphs = Graphs::new(&description).map_err(|why| why.to_string())?;
    if graphs.count() == 0 {
        return Err("it has no graphs".into());
    }
    let mut batch = vec![];
    for (graph, first) in first_vertex[..graphs.count()].iter().enumerate() {
        let first = *first as usize;
        for (number, level) in graphs.levels_of(graph).into_iter().enumerate() {
            let slots = &children[first_child[first + number] as usize..first_child[first + number + 1] as usize];
            let there = slots.iter().filter(|child| **child != NONE).map(|child| first + *child as usize);
            batch.push(Vertex { graph, number, level, slots: slots.len(), children: there.collect() });
        }
    }
    Ok(batch)
}

/// Draws the levels from the lowest, at the bottom, up. Of a large batch, a level is a bar.
pub fn draw(title: &str, batch: &[Vertex]) -> String {
    let levels = batch.iter().map(|vertex| vertex.level + 1).max().unwrap_or(0);
    let graphs = batch.iter().map(|vertex| vertex.graph + 1).max().unwrap_or(0);
    let mut kinds: Vec<usize> = batch.iter().map(|vertex| vertex.slots).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kind_of = |slots: usize| kinds.iter().position(|kind| *kind == slots).unwrap_or(0);
    let colour = |kind: usize| PALETTE[kind % PALETTE.len()];
    // The rows of the batch: by level, then by kind, then in the graphs' order.
    let mut rows: Vec<Vec<usize>> = vec![vec![]; levels];
    batch.iter().enumerate().for_each(|(place, vertex)| rows[vertex.level].push(place));
    rows.iter_mut().for_each(|row| row.sort_by_key(|place| batch[*place].slots));
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1);
    let cell = (WIDTH / widest as f64).min(CELL.0);
    let has_vertices = cell >= CELL.1;

    let lines = [
        format!(
            "{}, {}, {}: each level runs behind the one below it",
            counted(graphs, "graph"),
            counted(batch.len(), "vertex").replace("vertexs", "vertices"),
            counted(levels, "level")
        ),
        "The vertices of one colour in a level are neighbours in memory and run together.".to_owned(),
    ];
    let label = |level: usize| format!("level {level}: {}", rows[level].len());
    let labels = (0..levels).map(|level| text_width(&label(level), 11.0)).fold(0.0, f64::max);
    let left = 16.0 + labels + 16.0;
    let width = (left + cell * widest as f64 + 16.0).max(heading_width(title, &lines));
    let mut picture = Picture::default();
    let mut top = picture.heading(title, &lines) + 8.0;
    let name = |slots: usize| if slots == 0 { "no slots: leaves".into() } else { counted(slots, "slot") };
    let entries: Vec<_> = kinds.iter().enumerate().map(|(kind, slots)| (colour(kind), name(*slots))).collect();
    top += picture.legend(16.0, top, width - 32.0, &entries) + 16.0;

    let middle = left + cell * widest as f64 / 2.0;
    let y = |level: usize| top + ROW * (levels - 1 - level) as f64 + ROW / 2.0;
    let mut at = vec![(0.0, 0.0); batch.len()];
    for (level, row) in rows.iter().enumerate() {
        let first = middle - cell * row.len() as f64 / 2.0;
        row.iter()
            .enumerate()
            .for_each(|(place, vertex)| at[*vertex] = (first + cell * (place as f64 + 0.5), y(level)));
        picture.text(16.0, y(level) + 4.0, &label(level), Style::SMALL.at(Anchor::Start));
    }
    if has_vertices {
        for (place, vertex) in batch.iter().enumerate() {
            for child in &vertex.children {
                picture.line([at[place].0, at[place].1, at[*child].0, at[*child].1], FAINT, 0.6);
            }
        }
        for (place, vertex) in batch.iter().enumerate() {
            let Vertex { graph, number, slots, .. } = vertex;
            let says = format!("graph {graph}, vertex {number}: {}", name(*slots));
            picture.dot(at[place].0, at[place].1, (cell * 0.42).min(9.0), colour(kind_of(*slots)), &says);
        }
    } else {
        for (level, row) in rows.iter().enumerate() {
            let mut x = middle - cell * row.len() as f64 / 2.0;
            for (kind, slots) in kinds.iter().enumerate() {
                let count = row.iter().filter(|place| batch[**place].slots == *slots).count();
                if count > 0 {
                    let says = format!("level {level}: {count} with {}", name(*slots));
                    picture.bar([x, y(level) - 14.0, cell * count as f64, 28.0], colour(kind), &says);
                }
                x += cell * count as f64;
            }
        }
    }
    picture.finish(width, top + ROW * levels as f64 + 8.0, title)
}
