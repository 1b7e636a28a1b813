//! A report as a page for a browser.

use std::path::Path;

use crate::decisions::{Decision, Decisions};
use crate::html;
use crate::part::Part;
use crate::plot::layers::Measure;
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

/// Pictures of a network: of its layers' times and workspaces, and of how a total is divided.
pub fn pictures(decisions: &Decisions) -> String {
    // In the order of the bars. Times that are not known of every layer would make a sum of some layers.
    let sources = [
        source("plain", decisions, |row| Some(Decision { time: row.plain?, ..row.clone() })),
        source("undivided", decisions, |row| Some(Decision { time: row.undivided.as_ref()?.time, ..row.clone() })),
        source("with us", decisions, |row| Some(row.clone())),
    ];
    let times: Vec<_> = sources.into_iter().flatten().collect();
    let sources = [
        source("plain", decisions, |row| Some(Decision { workspace: row.plain_workspace?, ..row.clone() })),
        source("with us", decisions, |row| Some(row.clone())),
    ];
    let workspaces: Vec<_> = sources.into_iter().flatten().collect();
    let is_any = workspaces.iter().any(|source| source.decisions.largest() > 0);
    let pictures = [
        layers::draw("Time per layer", Measure::Time, &times),
        if is_any { layers::draw("Workspace per layer", Measure::Workspace, &workspaces) } else { String::new() },
        division::draw("Workspace Division", decisions),
    ];
    pictures.iter().map(|picture| figure(picture)).collect()
}

/// A picture in a page; nothing for an empty one.
fn figure(picture: &str) -> String {
    if picture.is_empty() { String::new() } else { format!("<figure>\n{picture}</figure>\n") }
}

/// The layers with other values; `None` if one is not known.
fn source(label: &str, decisions: &Decisions, row: impl Fn(&Decision) -> Option<Decision>) -> Option<layers::Source> {
    let rows = decisions.rows.iter().map(row).collect::<Option<_>>()?;
    let decisions = Decisions { policy: decisions.policy.clone(), rows };
    Some(layers::Source { label: label.into(), decisions })
}
