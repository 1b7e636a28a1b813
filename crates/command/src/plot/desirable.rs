//! The desirable set of a convolution problem, as in the paper's Fig. 8: time over workspace, with the division of the
//! mini-batch in each configuration.

use super::scale::Scale;
use super::svg::{self, Anchor, INK, PALETTE, Picture, Style, text_width};
use crate::decisions::{Choice, shapes};
use crate::division_text;
use crate::quantity;
use crate::sets::Group;
use crate::times::Kind;

const LEFT: f64 = 84.0;
const PLOT: f64 = 440.0;
/// The width between the plot and the list of configurations, for the lines that join them.
const LEADERS: f64 = 70.0;
const STRIP: f64 = 130.0;
const ROW: f64 = 20.0;

pub fn draw(group: &Group, times: Kind, title: Option<&str>) -> String {
    let named = group.layer != shapes(&group.problem);
    let title = match title {
        Some(title) => title.to_owned(),
        None if named => format!("Desirable set of {} {}", group.layer, group.direction),
        None => "Desirable set".into(),
    };
    let points = &group.choices;
    let lines = [
        format!("{}; times are {times}", group.problem),
        format!("{} that no other beats in both time and workspace", quantity::counted(points.len(), "configuration")),
    ];
    let divisions: Vec<_> = points.iter().map(|point| division_text::parts(&point.division)).collect();
    let mut algorithms: Vec<&str> = Vec::new();
    for part in divisions.iter().flatten() {
        if !algorithms.contains(&part.algorithm) {
            algorithms.push(part.algorithm);
        }
    }
    let colour = |algorithm: &str| {
        let index = algorithms.iter().position(|known| *known == algorithm).unwrap_or(0);
        PALETTE[index % PALETTE.len()]
    };
    let label = |Choice { division, workspace, time }: &Choice| {
        format!("{}, {}, {division}", quantity::bytes(*workspace), quantity::milliseconds(*time))
    };
    let list = LEFT + PLOT + LEADERS;
    let widest = points.iter().map(|point| text_width(&label(point), svg::SIZE)).fold(0.0, f64::max);
    let width = (list + STRIP + 10.0 + widest + 20.0).max(svg::heading_width(&title, &lines));

    let mut picture = Picture::default();
    let mut top = picture.heading(&title, &lines) + 8.0;
    let entries: Vec<_> = algorithms.iter().map(|algorithm| (colour(algorithm), (*algorithm).to_owned())).collect();
    top += picture.legend(16.0, top, width - 32.0, &entries) + 28.0;
    let height = (ROW * points.len() as f64).max(300.0);
    let bottom = top + height;

    let x = Scale::sizes(points.iter().map(|point| point.workspace), (LEFT + 14.0, LEFT + PLOT - 10.0));
    let y = Scale::times(points.iter().map(|point| point.time), (bottom, top));
    picture.axes([LEFT, LEFT + PLOT, bottom], (&x, 6), (&y, 6), "workspace (a logarithmic scale, and 0)");
    picture.text(LEFT - 8.0, top - 10.0, "time in ms", Style::PLAIN.at(Anchor::End));
    picture.text(list, top - 10.0, "the mini-batch in micro-batches; workspace, time, division", Style::SMALL);

    // The best time within each limit: a step at each point's workspace.
    let mut steps = Vec::new();
    for point in points {
        let (px, py) = (x.at(point.workspace as f64), y.at(point.time));
        if let Some(&(_, before)) = steps.last() {
            steps.push((px, before));
        }
        steps.push((px, py));
    }
    if let Some(&(_, last)) = steps.last() {
        steps.push((LEFT + PLOT, last));
    }
    picture.path(&steps, INK, 1.5, "");

    let spread = height / points.len().max(1) as f64;
    for (number, (point, parts)) in points.iter().zip(&divisions).enumerate() {
        let (px, py) = (x.at(point.workspace as f64), y.at(point.time));
        // The list keeps the points' order, slowest first, so that no lines cross.
        let row = top + spread.min(2.0 * ROW) * number as f64 + ROW / 2.0;
        picture.path(&[(px, py), (LEFT + PLOT + 6.0, py), (list - 8.0, row)], "#b4b8bd", 0.8, "2 3");
        let whole: usize = parts.iter().map(|part| part.count * part.size).sum();
        let mut at = list;
        for part in parts {
            for _ in 0..part.count {
                let width = STRIP * part.size as f64 / whole.max(1) as f64;
                let gap = if width > 4.0 { 1.0 } else { 0.0 };
                picture.bar([at, row - 6.0, width - gap, 12.0], colour(part.algorithm), "");
                at += width;
            }
        }
        picture.text(list + STRIP + 10.0, row + 4.0, &label(point), Style::PLAIN);
    }
    for point in points {
        picture.dot(x.at(point.workspace as f64), y.at(point.time), 4.0, PALETTE[5], &label(point));
    }
    picture.finish(width, bottom + 56.0, &title)
}
