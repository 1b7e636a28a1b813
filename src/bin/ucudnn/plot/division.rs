//! How Workspace Division cuts its total among layers, as the paper's Fig. 13: the whole as one strip, and below it each
//! segment with its bytes and its micro-batches.

use super::division_text;
use super::svg::{self, Anchor, FAINT, GRID, INK, PALETTE, Picture, Style, text_width};
use crate::decisions::{Decision, Decisions, Policy};
use crate::quantity;
use crate::report::merged;

const DIRECTIONS: [(&str, &str, &str); 3] = [
    ("F", "forward (F)", PALETTE[0]),
    ("BD", "backward data (BD)", PALETTE[1]),
    ("BF", "backward filter (BF)", PALETTE[2]),
];
const STRIP: f64 = 900.0;
const BARS: f64 = 300.0;
const ROW: f64 = 19.0;

pub fn draw(title: &str, decisions: &Decisions) -> String {
    let Policy::Division { total, proven, gap, .. } = decisions.policy else { return String::new() };
    let (mut segments, none): (Vec<_>, Vec<_>) =
        merged(&decisions.rows).into_iter().partition(|row: &Decision| row.workspace > 0);
    segments.sort_by_key(|row| std::cmp::Reverse(row.workspace * row.count));
    let used: usize = decisions.workspace();
    let optimal =
        if proven { "proven optimal".to_owned() } else { format!("within {:.2}% of the optimum", gap * 100.0) };
    let lines = [
        format!(
            "{} of {} used by {} kernels; {} in all, {optimal}",
            quantity::bytes(used),
            quantity::chosen_bytes(total),
            segments.iter().map(|row| row.count).sum::<usize>(),
            quantity::milliseconds(decisions.time())
        ),
        match none.iter().map(|row| row.count).sum::<usize>() {
            0 => "Every kernel has a segment.".to_owned(),
            1 => "One kernel is as fast without workspace, or has a slower use for it than the others.".to_owned(),
            count => {
                format!("{count} kernels are as fast without workspace, or have a slower use for it than the others.")
            }
        },
    ];
    let colour = |row: &Decision| {
        DIRECTIONS.iter().find(|(name, ..)| *name == row.direction).map_or(PALETTE[7], |(_, _, colour)| *colour)
    };
    let label = |row: &Decision| {
        let each = match row.count {
            _ if row.workspace == 0 => "no workspace".to_owned(),
            1 => quantity::bytes(row.workspace),
            count => format!("{count} × {}", quantity::bytes(row.workspace)),
        };
        format!("{each}, {}, {}", quantity::milliseconds(row.time * row.count as f64), row.division)
    };
    let rows: Vec<&Decision> = segments.iter().chain(&none).collect();
    let named = rows.iter().map(|row| text_width(&row.name(), svg::SIZE)).fold(0.0, f64::max);
    let labelled = rows.iter().map(|row| text_width(&label(row), Style::SMALL.size)).fold(0.0, f64::max);
    let bars = 16.0 + named + 10.0;
    let width = (bars + BARS + 8.0 + labelled + 16.0).max(16.0 + STRIP + 16.0).max(svg::heading_width(title, &lines));

    let mut picture = Picture::default();
    let mut top = picture.heading(title, &lines) + 8.0;
    let mut entries: Vec<_> = DIRECTIONS.iter().map(|(_, words, colour)| (*colour, (*words).to_owned())).collect();
    entries.push((GRID, "not used".to_owned()));
    top += picture.legend(16.0, top, width - 32.0, &entries) + 8.0;

    // The strip, in the network's order.
    let scale = (width - 32.0) / total.max(used).max(1) as f64;
    picture.bar([16.0, top, width - 32.0, 46.0], GRID, "not used");
    let mut at = 16.0;
    for row in decisions.rows.iter().filter(|row| row.workspace > 0) {
        for _ in 0..row.count {
            let wide = row.workspace as f64 * scale;
            let gap = if wide > 3.0 { 1.0 } else { 0.0 };
            picture.bar([at, top, wide - gap, 46.0], colour(row), &format!("{}: {}", row.name(), label(row)));
            let ink = if colour(row) == PALETTE[1] { INK } else { "white" };
            let words = [
                format!("{} {}", row.layer, row.direction),
                quantity::bytes(row.workspace),
                division_text::sizes(&row.division),
            ];
            if words.iter().all(|words| text_width(words, 10.0) + 6.0 <= wide) {
                let style = Style { size: 10.0, ..Style::PLAIN.at(Anchor::Middle).colour(ink) };
                for (line, words) in words.iter().enumerate() {
                    picture.text(at + wide / 2.0, top + 14.0 + 13.0 * line as f64, words, style);
                }
            }
            at += wide;
        }
    }
    top += 62.0;
    picture.text(16.0, top + 4.0, "0", Style::SMALL.colour(FAINT));
    picture.text(width - 16.0, top + 4.0, &quantity::chosen_bytes(total), Style::SMALL.at(Anchor::End));
    top += 22.0;

    let most = segments.iter().map(|row| row.workspace * row.count).max().unwrap_or(1) as f64;
    for (number, row) in rows.iter().enumerate() {
        let y = top + ROW * number as f64;
        picture.text(16.0 + named, y + 12.0, &row.name(), Style::PLAIN.at(Anchor::End));
        let long = BARS * (row.workspace * row.count) as f64 / most;
        picture.bar([bars, y + 1.0, long, 14.0], colour(row), "");
        picture.text(bars + long + 8.0, y + 12.0, &label(row), Style::SMALL.colour(INK));
    }
    picture.finish(width, top + ROW * rows.len() as f64 + 14.0, title)
}
