//! Workspace Division against Workspace Reuse at equal totals, as in the paper's Fig. 12: time of the network over the
//! workspace of all its layers.

use super::scale::Scale;
use super::svg::{self, Anchor, PALETTE, Picture, Style, text_width};
use crate::quantity;

/// A curve with its name and its points (bytes, milliseconds), totals ascending.
pub struct Curve {
    pub name: String,
    pub points: Vec<(usize, f64)>,
}

const LEFT: f64 = 84.0;
const PLOT: f64 = 640.0;
const HEIGHT: f64 = 380.0;
/// Each curve's colour and dashes: the dashes distinguish curves without colours.
const LOOKS: [(&str, &str); 3] = [(PALETTE[5], ""), (PALETTE[0], "7 3"), (PALETTE[7], "2 3")];

pub fn draw(title: &str, lines: &[String], curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut picture = Picture::default();
    let top = picture.heading(title, lines) + 28.0;
    let bottom = top + HEIGHT;
    let x = Scale::sizes(points().map(|(total, _)| *total), (LEFT + 6.0, LEFT + PLOT - 6.0));
    let y = Scale::times(points().map(|(_, time)| *time), (bottom, top));
    picture.axes([LEFT, LEFT + PLOT, bottom], (&x, 8), (&y, 7), "workspace of all layers together");
    picture.text(LEFT - 8.0, top - 12.0, "ms", Style::PLAIN.at(Anchor::End));

    // Names stand at their curves' ends, moved apart where the ends meet.
    let mut ends: Vec<(usize, f64)> =
        curves.iter().enumerate().filter_map(|(index, curve)| Some((index, y.at(curve.points.last()?.1)))).collect();
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut lowest = top - 18.0;
    let rows: Vec<(usize, f64, f64)> = ends
        .into_iter()
        .map(|(index, end)| {
            lowest = (lowest + 18.0).max(end);
            (index, end, lowest)
        })
        .collect();
    let down = (lowest - bottom).max(0.0);
    let names = LEFT + PLOT + 30.0;
    let mut width = svg::heading_width(title, lines);
    for (index, end, row) in rows.into_iter().rev() {
        let (curve, (colour, dash)) = (&curves[index], LOOKS[index % LOOKS.len()]);
        let row = row - down;
        let drawn: Vec<_> = curve.points.iter().map(|(total, time)| (x.at(*total as f64), y.at(*time))).collect();
        picture.path(&drawn, colour, 2.0, dash);
        for (total, time) in &curve.points {
            let says = format!("{}: {} in {}", curve.name, quantity::milliseconds(*time), quantity::bytes(*total));
            picture.dot(x.at(*total as f64), y.at(*time), 3.5, colour, &says);
        }
        picture.path(&[(LEFT + PLOT, end), (names - 6.0, row)], colour, 0.8, "");
        picture.text(names, row + 4.0, &curve.name, Style::PLAIN.colour(colour));
        width = width.max(names + text_width(&curve.name, svg::SIZE) + 16.0);
    }
    picture.finish(width, bottom + 56.0, title)
}
