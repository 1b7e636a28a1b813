//! How Workspace Division divides its total among layers, as in the paper's Fig. 13: the total as one strip, and below
//! it each segment with its bytes and its micro-batches.

use super::svg::{self, Anchor, DIRECTIONS, GRID, INK, PALETTE, Picture, Style, text_width};
use crate::decisions::{Decision, Decisions, Division, Policy, merged};
use crate::division_text;
use crate::quantity;

const STRIP: f64 = 900.0;
const BARS: f64 = 300.0;
const ROW: f64 = 19.0;

pub fn draw(title: &str, decisions: &Decisions) -> String {
    let Policy::Division(division) = &decisions.policy else { return String::new() };
    let (mut segments, none): (Vec<_>, Vec<_>) =
        merged(&decisions.rows).into_iter().partition(|row: &Decision| row.workspace > 0);
    segments.sort_by_key(|row| std::cmp::Reverse(row.workspace * row.count));
    let lines = explanation(division, decisions, &none);
    let rows: Vec<&Decision> = segments.iter().chain(&none).collect();
    let named = rows.iter().map(|row| text_width(&row.name(), svg::SIZE)).fold(0.0, f64::max);
    let labelled = rows.iter().map(|row| text_width(&label(row), Style::SMALL.size)).fold(0.0, f64::max);
    let bars = 16.0 + named + 10.0;
    let width = (bars + BARS + 8.0 + labelled + 16.0).max(16.0 + STRIP + 16.0).max(svg::heading_width(title, &lines));

    let mut picture = Picture::default();
    let mut top = picture.heading(title, &lines) + 8.0;
    let mut entries: Vec<_> = DIRECTIONS.iter().map(|(_, words, colour)| (*colour, (*words).to_owned())).collect();
    if !division.shared {
        entries.push((GRID, "not used".to_owned()));
    }
    top += picture.legend(16.0, top, width - 32.0, &entries) + 8.0;
    if !division.shared {
        top = strip(&mut picture, division, decisions, top, width - 32.0);
    }

    let bytes = |row: &Decision| (row.workspace * if division.shared { 1 } else { row.count }) as f64;
    let most = segments.iter().map(bytes).fold(1.0, f64::max);
    for (number, row) in rows.iter().enumerate() {
        let y = top + ROW * number as f64;
        picture.text(16.0 + named, y + 12.0, &row.name(), Style::PLAIN.at(Anchor::End));
        let long = BARS * bytes(row) / most;
        picture.bar([bars, y + 1.0, long, 14.0], colour(row), "");
        picture.text(bars + long + 8.0, y + 12.0, &label(row), Style::SMALL.colour(INK));
    }
    picture.finish(width, top + ROW * rows.len() as f64 + 14.0, title)
}

fn colour(row: &Decision) -> &'static str {
    DIRECTIONS.iter().find(|(name, ..)| *name == row.direction).map_or(PALETTE[7], |(_, _, colour)| *colour)
}

fn label(row: &Decision) -> String {
    let each = match row.count {
        _ if row.workspace == 0 => "no workspace".to_owned(),
        1 => quantity::bytes(row.workspace),
        count => format!("{count} × {}", quantity::bytes(row.workspace)),
    };
    format!("{each}, {}, {}", quantity::milliseconds(row.time * row.count as f64), row.division)
}

/// The lines below the title.
fn explanation(division: &Division, decisions: &Decisions, none: &[Decision]) -> [String; 2] {
    let without: usize = none.iter().map(|row| row.count).sum();
    let with = quantity::counted(decisions.layers() - without, "kernel");
    let (total, quality) = (quantity::chosen_bytes(division.total), division.quality());
    let time = quantity::milliseconds(decisions.time());
    let first = if division.shared {
        let largest = quantity::bytes(decisions.largest());
        format!("{with} run one after another in {largest} of {total}; {time} in all, {quality}")
    } else {
        let used = quantity::bytes(decisions.workspace());
        format!("{used} of {total} used by {with}; {time} in all, {quality}")
    };
    let second = match without {
        0 => "Every kernel has a segment.".to_owned(),
        1 => "One kernel gets none: it gains nothing from workspace, or less than the others do.".to_owned(),
        n => format!("{n} kernels get none: they gain nothing from workspace, or less than the others do."),
    };
    [first, second]
}

/// Draws the total to scale, with its segments in the network's order. Returns the strip's lower edge.
fn strip(picture: &mut Picture, division: &Division, decisions: &Decisions, top: f64, width: f64) -> f64 {
    const HEIGHT: f64 = 46.0;
    let scale = width / division.total.max(decisions.workspace()).max(1) as f64;
    picture.bar([16.0, top, width, HEIGHT], GRID, "not used");
    let mut at = 16.0;
    for row in decisions.rows.iter().filter(|row| row.workspace > 0) {
        let words = [
            format!("{} {}", row.layer, row.direction),
            quantity::bytes(row.workspace),
            division_text::sizes(&row.division),
        ];
        let wide = row.workspace as f64 * scale;
        let gap = if wide > 3.0 { 1.0 } else { 0.0 };
        let ink = if colour(row) == PALETTE[1] { INK } else { "white" };
        let style = Style { size: 10.0, ..Style::PLAIN.at(Anchor::Middle).colour(ink) };
        for _ in 0..row.count {
            picture.bar([at, top, wide - gap, HEIGHT], colour(row), &format!("{}: {}", row.name(), label(row)));
            if words.iter().all(|words| text_width(words, style.size) + 6.0 <= wide) {
                for (line, words) in words.iter().enumerate() {
                    picture.text(at + wide / 2.0, top + 14.0 + 13.0 * line as f64, words, style);
                }
            }
            at += wide;
        }
    }
    let below = top + HEIGHT + 20.0;
    picture.text(16.0, below, "0", Style::SMALL);
    picture.text(16.0 + width, below, &quantity::chosen_bytes(division.total), Style::SMALL.at(Anchor::End));
    below + 18.0
}
