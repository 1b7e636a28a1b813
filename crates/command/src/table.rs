//! Aligned columns for a terminal, and for a page.

use crate::html::escaped;
use crate::style::{self, styled};

/// The side to which a column's cells are aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A shorter form of a cell.
pub type Shorten = fn(&str) -> String;

/// A header, rows with one cell per column, and an optional row of totals.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    total: Option<Vec<String>>,
    /// Columns that a narrow table does without, in the order in which they go.
    optional: Vec<usize>,
}

struct Column {
    name: String,
    side: Side,
    shorten: Option<Shorten>,
    /// The name in a table without optional columns.
    alone: Option<&'static str>,
}

/// Columns of text are not cut below this many characters while an optional column remains.
const READABLE: usize = 16;
/// No column is cut below this many characters.
const LEAST: usize = 6;
/// Between two columns.
const GAP: &str = "  ";

impl Table {
    pub fn new(columns: &[(impl ToString, Side)]) -> Self {
        let columns = columns
            .iter()
            .map(|(name, side)| Column { name: name.to_string(), side: *side, shorten: None, alone: None })
            .collect();
        Self { columns, rows: Vec::new(), total: None, optional: Vec::new() }
    }

    /// Gives the cells of a column a shorter form, for a table that is too wide.
    pub fn short(mut self, column: usize, shorten: Shorten) -> Self {
        self.columns[column].shorten = Some(shorten);
        self
    }

    /// Gives a column another name for a table that does without optional columns, which explained it.
    pub fn alone(mut self, column: usize, name: &'static str) -> Self {
        self.columns[column].alone = Some(name);
        self
    }

    /// Names the columns that a narrow table does without, in the order in which they go.
    pub fn optional(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.optional.extend(columns);
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    pub fn total(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.total = Some(cells);
    }

    /// The lines, each with a newline and of at most `width` characters if that is possible. Columns that are empty in
    /// every row are left out. A line below tells of columns that are left out, and of cells that are cut.
    pub fn lines(&self, width: usize) -> String {
        let filled = |column: usize| self.cells(column).any(|cell| !cell.is_empty());
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(|&column| filled(column)).collect();
        let natural = self.widths(&shown, false);
        if total(&natural) <= width {
            return self.draw(&shown, &natural, false);
        }
        let mut optional = self.optional.iter().filter(|column| shown.contains(column)).copied().collect::<Vec<_>>();
        optional.reverse();
        let mut is_complete = true;
        loop {
            let wanted = self.widths(&shown, true);
            let floor = if optional.is_empty() { LEAST } else { READABLE };
            let widths = self.cut(&shown, &wanted, width, floor);
            if total(&widths) <= width || optional.is_empty() {
                is_complete &= widths == wanted;
                let note = if is_complete { "" } else { "(cut to fit; --wide shows all)\n" };
                return self.draw(&shown, &widths, true) + note;
            }
            let dropped = optional.pop();
            shown.retain(|&column| Some(column) != dropped);
            is_complete = false;
        }
    }

    /// The whole table for a page. Columns that are empty in every row are left out.
    pub fn html(&self) -> String {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|&column| self.cells(column).any(|cell| !cell.is_empty())).collect();
        let row = |tag: &str, cell: &dyn Fn(usize) -> String| {
            let cells = shown.iter().map(|&column| {
                let class = if self.columns[column].side == Side::Right { " class=\"right\"" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", escaped(&cell(column)))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let head = row("th", &|column| self.columns[column].name.clone());
        let rows: String = self.rows.iter().map(|cells| row("td", &|column| cells[column].clone())).collect();
        let total = self.total.as_ref().map_or_else(String::new, |cells| {
            format!("<tfoot>\n{}</tfoot>\n", row("td", &|column| cells[column].clone()))
        });
        format!(
            "<div class=\"wide\"><table>\n<thead>\n{head}</thead>\n<tbody>\n{rows}</tbody>\n{total}</table></div>\n"
        )
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().chain(&self.total).map(move |row| row[column].as_str())
    }

    fn name(&self, column: usize, shown: &[usize]) -> &str {
        let Column { name, alone, .. } = &self.columns[column];
        let is_alone = self.optional.iter().any(|optional| !shown.contains(optional));
        alone.filter(|_| is_alone).unwrap_or(name)
    }

    /// A cell in the form that a table shows.
    fn form(&self, column: usize, cell: &str, is_short: bool) -> String {
        match self.columns[column].shorten.filter(|_| is_short) {
            Some(shorten) => shorten(cell),
            None => cell.to_owned(),
        }
    }

    fn widths(&self, shown: &[usize], is_short: bool) -> Vec<usize> {
        let width = |&column: &usize| {
            let cells = self.cells(column).map(|cell| self.form(column, cell, is_short).chars().count());
            cells.chain([self.name(column, shown).chars().count()]).max().unwrap_or(0)
        };
        shown.iter().map(width).collect()
    }

    /// Narrows columns of text, the widest first, until all fit or none is wider than `floor`.
    fn cut(&self, shown: &[usize], wanted: &[usize], width: usize, floor: usize) -> Vec<usize> {
        let mut widths = wanted.to_vec();
        while total(&widths) > width {
            let is_text = |at: &usize| self.columns[shown[*at]].side == Side::Left && widths[*at] > floor;
            let Some(widest) = (0..widths.len()).filter(is_text).max_by_key(|&at| widths[at]) else { break };
            widths[widest] -= 1;
        }
        widths
    }

    fn draw(&self, shown: &[usize], widths: &[usize], is_short: bool) -> String {
        let line = |cell: &dyn Fn(usize) -> String| {
            let padded = shown.iter().zip(widths).map(|(&column, &width)| {
                let cell = cut(&cell(column), width);
                let room = " ".repeat(width.saturating_sub(cell.chars().count()));
                match self.columns[column].side {
                    Side::Left => style::judged(&cell) + &room,
                    Side::Right => room + &style::judged(&cell),
                }
            });
            let line = padded.collect::<Vec<_>>().join(GAP);
            line.trim_end().to_owned()
        };
        let rule = widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join(GAP);
        let rule = styled(&rule, style::FAINT);
        let header = line(&|column| self.name(column, shown).to_owned());
        let mut lines = vec![styled(&header, style::HEADING), rule.clone()];
        lines.extend(self.rows.iter().map(|row| line(&|column| self.form(column, &row[column], is_short))));
        if let Some(total) = &self.total {
            lines.extend([rule, line(&|column| self.form(column, &total[column], is_short))]);
        }
        lines.join("\n") + "\n"
    }
}

/// The characters of a line with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// The text, or its beginning with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::plain;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(&[("kernel", Side::Left), ("none", Side::Left), ("ms", Side::Right)]);
        table.row(vec!["2×64".into(), String::new(), "1.5".into()]);
        table.row(vec!["conv1 F".into(), String::new(), "10.25".into()]);
        table.total(vec!["all".into(), String::new(), "11.75".into()]);
        let expected =
            "kernel      ms\n───────  ─────\n2×64       1.5\nconv1 F  10.25\n───────  ─────\nall      11.75\n";
        assert_eq!(plain(&table.lines(usize::MAX)), expected);
        assert_eq!(plain(&table.lines(14)), expected);
    }

    #[test]
    fn a_page_has_all_that_is_filled() {
        let mut table = Table::new(&[("kernel", Side::Left), ("none", Side::Left), ("ms", Side::Right)]);
        table.row(vec!["<2×64>".into(), String::new(), "1.5".into()]);
        table.total(vec!["all".into(), String::new(), "1.5".into()]);
        let html = table.html();
        assert!(html.contains("<tr><th>kernel</th><th class=\"right\">ms</th></tr>"), "{html}");
        assert!(html.contains("<tr><td>&lt;2×64&gt;</td><td class=\"right\">1.5</td></tr>"), "{html}");
        assert!(html.contains("<tfoot>\n<tr><td>all</td><td class=\"right\">1.5</td></tr>"), "{html}");
    }

    #[test]
    fn a_table_that_is_too_wide_is_shortened_then_narrowed() {
        let columns = [("kernel", Side::Left), ("algorithm", Side::Left), ("workspace", Side::Right)];
        let mut table =
            Table::new(&columns).short(0, |cell| cell.replace(" pad 0x0", "")).optional([1]).alone(2, "bytes");
        table.row(vec!["1x2x3 pad 0x0".into(), "an algorithm with a long name".into(), "8 MiB".into()]);
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        for width in 20..70 {
            let text = plain(&table.lines(width));
            assert!(
                widest(&text.lines().take(3).map(|line| format!("{line}\n")).collect::<String>()) <= width,
                "{text}"
            );
            let (is_whole, is_shown) = (width >= 55, width >= 35);
            assert_eq!(text.contains("pad 0x0"), is_whole, "{width}\n{text}");
            assert_eq!(text.contains("algorithm"), is_shown, "{width}\n{text}");
            assert_eq!(text.contains("bytes"), !is_shown, "{width}\n{text}");
            assert_eq!(text.contains("--wide"), width < 48, "{width}\n{text}");
        }
    }
}
