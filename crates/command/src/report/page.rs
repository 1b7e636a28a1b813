//! A report as a page for a browser.

use std::path::Path;

use crate::decisions::{Decision, Decisions};
use crate::html;
use crate::part::Part;
use crate::plot::{division, layers};
use trust::Shown as _;

/// The whole report as a page.
pub fn of(file: &Path, parts: &[Part], decisions: &[Decisions], notes: &str) -> String {
    html::page(&format!("ucudnn report of {}", file.shown()), &content(parts, decisions, notes))
}

/// A page's content: the tables, and for each network its pictures.
pub fn content(parts: &[Part], decisions: &[Decisions], notes: &str) -> String {
    let tables: String = parts.iter().map(Part::html).collect();
    let pictures: String = decisions.iter().map(pictures).collect();
    tables + &pictures + &html::paragraphs(notes)
}

/// Pictures of a network: of its layers' times, and of how a total is divided.
pub fn pictures(decisions: &Decisions) -> String {
    // In the order of the bars. Times that are not known of every layer would make a sum of some layers.
    let sources = [
        source("plain", decisions, |row| row.plain),
        source("undivided", decisions, |row| Some(row.undivided.as_ref()?.time)),
        source("with us", decisions, |row| Some(row.time)),
    ];
    let sources: Vec<_> = sources.into_iter().flatten().collect();
    figure(&layers::draw("Time per layer", &sources)) + &figure(&division::draw("Workspace Division", decisions))
}

/// A picture in a page; nothing for an empty one.
fn figure(picture: &str) -> String {
    if picture.is_empty() { String::new() } else { format!("<figure>\n{picture}</figure>\n") }
}

/// The layers with other times; `None` if one is not known.
fn source(label: &str, decisions: &Decisions, time: impl Fn(&Decision) -> Option<f64>) -> Option<layers::Source> {
    let row = |row: &Decision| Some(Decision { time: time(row)?, ..row.clone() });
    let rows = decisions.rows.iter().map(row).collect::<Option<_>>()?;
    let decisions = Decisions { policy: decisions.policy.clone(), rows };
    Some(layers::Source { label: label.into(), decisions })
}
