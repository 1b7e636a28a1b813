//! Time or workspace per layer under several policies and limits side by side, as in the paper's Figs. 9 to 11: one bar
//! each, made up of the layer's directions.

use super::scale::Scale;
use super::svg::{self, Anchor, DIRECTIONS, FAINT, GRID, Picture, Style, text_width};
use crate::decisions::{Decision, Decisions, shapes};
use crate::quantity;

const PLOT: f64 = 560.0;
const BAR: f64 = 13.0;
const BETWEEN: f64 = 12.0;

/// A run or a plan with its label: one bar of each layer.
pub struct Source {
    pub label: String,
    pub decisions: Decisions,
}

/// What the bars show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Time,
    Workspace,
}

const MEBIBYTE: f64 = (1 << 20) as f64;

impl Measure {
    /// The unit of the axis.
    fn unit(self) -> &'static str {
        match self {
            Self::Time => "ms",
            Self::Workspace => "MiB",
        }
    }

    /// A layer's value, in the unit.
    fn of(self, row: &Decision) -> f64 {
        match self {
            Self::Time => row.time,
            Self::Workspace => row.workspace as f64 / MEBIBYTE,
        }
    }

    /// A value with its unit.
    fn words(self, value: f64) -> String {
        match self {
            Self::Time => quantity::milliseconds(value),
            Self::Workspace => quantity::bytes((value * MEBIBYTE).round() as usize),
        }
    }

    /// The line about a source of which all values are `total`.
    fn sum(self, source: &Source, total: f64) -> String {
        let (label, total) = (&source.label, self.words(total));
        match self {
            Self::Time => format!("{label}: {total} in all"),
            Self::Workspace => {
                let largest = quantity::bytes(source.decisions.largest());
                format!("{label}: {total} if every layer keeps its own, {largest} if all share one")
            }
        }
    }
}

/// A layer with the value of each direction in each source, summed over all layers that are like it.
struct Layer {
    name: String,
    values: Vec<[f64; 3]>,
}

pub fn draw(title: &str, measure: Measure, sources: &[Source]) -> String {
    let layers = layers(measure, sources);
    let total = |index: usize| layers.iter().flat_map(|layer| layer.values[index]).sum::<f64>();
    let lines: Vec<_> = sources.iter().enumerate().map(|(index, source)| measure.sum(source, total(index))).collect();

    let named = layers.iter().map(|layer| text_width(&layer.name, svg::SIZE)).fold(0.0, f64::max);
    let labelled = sources.iter().map(|source| text_width(&source.label, Style::SMALL.size)).fold(0.0, f64::max);
    let left = 16.0 + named + 14.0 + labelled + 10.0;
    let width = (left + PLOT + 90.0).max(svg::heading_width(title, &lines));

    let mut picture = Picture::default();
    let mut top = picture.heading(title, &lines) + 8.0;
    let entries: Vec<_> = DIRECTIONS.iter().map(|(_, words, colour)| (*colour, (*words).to_owned())).collect();
    top += picture.legend(16.0, top, width - 32.0, &entries) + 24.0;
    let group = BAR * sources.len() as f64 + BETWEEN;
    let bottom = top + group * layers.len() as f64;

    let most = layers.iter().flat_map(|layer| &layer.values).map(|values| values.iter().sum()).fold(0.0, f64::max);
    let x = Scale::from_zero(most, (left, left + PLOT));
    for (value, words) in x.ticks(6) {
        picture.line([x.at(value), top - 4.0, x.at(value), bottom], GRID, 1.0);
        for y in [top - 9.0, bottom + 16.0] {
            picture.text(x.at(value), y, &words, Style::SMALL.at(Anchor::Middle));
        }
    }
    for y in [top - 9.0, bottom + 16.0] {
        picture.text(left + PLOT + 40.0, y, measure.unit(), Style::SMALL);
    }
    for (number, layer) in layers.iter().enumerate() {
        let y = top + group * number as f64 + BETWEEN / 2.0;
        let middle = y + BAR * sources.len() as f64 / 2.0;
        picture.text(16.0 + named, middle + 4.0, &layer.name, Style::PLAIN.at(Anchor::End));
        for (index, (values, source)) in layer.values.iter().zip(sources).enumerate() {
            let y = y + BAR * index as f64;
            picture.text(left - 8.0, y + 10.0, &source.label, Style::SMALL.at(Anchor::End));
            let mut at = left;
            for ((name, _, colour), value) in DIRECTIONS.iter().zip(values) {
                let width = x.at(*value) - left;
                let says = format!("{} {name}, {}: {}", layer.name, source.label, measure.words(*value));
                picture.bar([at, y, width, BAR - 2.0], colour, &says);
                at += width;
            }
            let sum: f64 = values.iter().sum();
            let sum = if sum > 0.0 { quantity::digits(sum) } else { "–".into() };
            picture.text(at + 6.0, y + 10.0, &sum, Style::SMALL.colour(FAINT));
        }
    }
    picture.finish(width, bottom + 32.0, title)
}

/// The layers of all sources, in the order in which they appear. The three problems of a layer have equal shapes.
/// Layers without distinct names are merged.
fn layers(measure: Measure, sources: &[Source]) -> Vec<Layer> {
    let mut keys: Vec<(String, String)> = Vec::new();
    let mut layers: Vec<Layer> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        for row in &source.decisions.rows {
            let shapes = shapes(&row.problem);
            let named = row.layer != shapes;
            let same = |(layer, known): &(String, String)| {
                // One source may know names that the other lacks.
                (named && *layer == row.layer) || (*known == shapes && (!named || layer == known))
            };
            let at = keys.iter().position(same).unwrap_or_else(|| {
                keys.push((row.layer.clone(), shapes.clone()));
                layers.push(Layer { name: row.layer.clone(), values: vec![[0.0; 3]; sources.len()] });
                layers.len() - 1
            });
            if let Some(direction) = DIRECTIONS.iter().position(|(name, ..)| *name == row.direction) {
                layers[at].values[index][direction] += measure.of(row) * row.count as f64;
            }
        }
    }
    layers
}
