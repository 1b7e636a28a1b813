//! Time per layer under several policies and limits side by side, as in the paper's Figs. 9 to 11: one bar each, made
//! up of the layer's directions.

use super::scale::Scale;
use super::svg::{self, Anchor, DIRECTIONS, FAINT, GRID, Picture, Style, text_width};
use crate::decisions::{Decisions, shapes};
use crate::quantity;

const PLOT: f64 = 560.0;
const BAR: f64 = 13.0;
const BETWEEN: f64 = 12.0;

/// A run or a plan with its label: one bar of each layer.
pub struct Source {
    pub label: String,
    pub decisions: Decisions,
}

/// A layer with the milliseconds of each direction in each source, summed over all layers that are like it.
struct Layer {
    name: String,
    times: Vec<[f64; 3]>,
}

pub fn draw(title: &str, sources: &[Source]) -> String {
    let layers = layers(sources);
    let total = |index: usize| layers.iter().flat_map(|layer| layer.times[index]).sum::<f64>();
    let totals = sources
        .iter()
        .enumerate()
        .map(|(index, source)| format!("{}: {} in all", source.label, quantity::milliseconds(total(index))));
    let lines: Vec<String> = totals.collect();

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

    let most = layers.iter().flat_map(|layer| &layer.times).map(|times| times.iter().sum()).fold(0.0, f64::max);
    let x = Scale::from_zero(most, (left, left + PLOT));
    for (value, words) in x.ticks(6) {
        picture.line([x.at(value), top - 4.0, x.at(value), bottom], GRID, 1.0);
        for y in [top - 9.0, bottom + 16.0] {
            picture.text(x.at(value), y, &words, Style::SMALL.at(Anchor::Middle));
        }
    }
    for y in [top - 9.0, bottom + 16.0] {
        picture.text(left + PLOT + 40.0, y, "ms", Style::SMALL);
    }
    for (number, layer) in layers.iter().enumerate() {
        let y = top + group * number as f64 + BETWEEN / 2.0;
        let middle = y + BAR * sources.len() as f64 / 2.0;
        picture.text(16.0 + named, middle + 4.0, &layer.name, Style::PLAIN.at(Anchor::End));
        for (index, (times, source)) in layer.times.iter().zip(sources).enumerate() {
            let y = y + BAR * index as f64;
            picture.text(left - 8.0, y + 10.0, &source.label, Style::SMALL.at(Anchor::End));
            let mut at = left;
            for ((name, _, colour), time) in DIRECTIONS.iter().zip(times) {
                let width = x.at(*time) - left;
                let says = format!("{} {name}, {}: {}", layer.name, source.label, quantity::milliseconds(*time));
                picture.bar([at, y, width, BAR - 2.0], colour, &says);
                at += width;
            }
            let sum: f64 = times.iter().sum();
            let sum = if sum > 0.0 { quantity::digits(sum) } else { "–".into() };
            picture.text(at + 6.0, y + 10.0, &sum, Style::SMALL.colour(FAINT));
        }
    }
    picture.finish(width, bottom + 32.0, title)
}

/// The layers of all sources, in the order in which they appear. The three problems of a layer have equal shapes.
/// Layers without distinct names are merged.
fn layers(sources: &[Source]) -> Vec<Layer> {
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
                layers.push(Layer { name: row.layer.clone(), times: vec![[0.0; 3]; sources.len()] });
                layers.len() - 1
            });
            if let Some(direction) = DIRECTIONS.iter().position(|(name, ..)| *name == row.direction) {
                layers[at].times[index][direction] += row.time * row.count as f64;
            }
        }
    }
    layers
}
