//! A part of a report: a heading, a table, and sentences about it. A terminal gets it as text, and a page as HTML.

use crate::html::{escaped, paragraphs};
use crate::style::{self, styled};
use crate::table::Table;

pub struct Part {
    pub heading: String,
    pub table: Table,
    /// Below the table, as a terminal gets it.
    pub notes: String,
}

impl Part {
    /// The part for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        format!("{}\n\n{}{}", styled(&self.heading, style::HEADING), self.table.lines(width), self.notes)
    }

    /// The part for a page.
    pub fn html(&self) -> String {
        format!("<h2>{}</h2>\n{}{}", escaped(&self.heading), self.table.html(), paragraphs(&self.notes))
    }
}
