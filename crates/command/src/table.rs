//! Aligned columns for a terminal.

/// The side to which a column's cells are aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A header, rows with one cell per column, and an optional row of totals.
pub struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
    total: Option<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(impl ToString, Side)]) -> Self {
        let columns = columns.iter().map(|(name, side)| (name.to_string(), *side)).collect();
        Self { columns, rows: Vec::new(), total: None }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    pub fn total(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.total = Some(cells);
    }

    /// The lines, each with a newline. Columns that are empty in every row are left out.
    pub fn lines(&self) -> String {
        let filled = |column: usize| self.rows.iter().chain(&self.total).any(|row| !row[column].is_empty());
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&column| filled(column)).collect();
        let cells = |column: usize| self.rows.iter().chain(&self.total).map(move |row| row[column].as_str());
        let width = |column: usize| {
            let header = std::iter::once(self.columns[column].0.as_str());
            header.chain(cells(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = shown.iter().map(|&column| width(column)).collect();
        let line = |cell: &dyn Fn(usize) -> String| {
            let padded = shown.iter().zip(&widths).map(|(&column, &width)| match self.columns[column].1 {
                Side::Left => format!("{:<width$}", cell(column)),
                Side::Right => format!("{:>width$}", cell(column)),
            });
            let line = padded.collect::<Vec<_>>().join("  ");
            format!("{}\n", line.trim_end())
        };
        let rule: String = widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join("  ") + "\n";
        let mut lines = line(&|column| self.columns[column].0.clone()) + &rule;
        lines.extend(self.rows.iter().map(|row| line(&|column| row[column].clone())));
        if let Some(total) = &self.total {
            lines += &rule;
            lines += &line(&|column| total[column].clone());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(&[("kernel", Side::Left), ("none", Side::Left), ("ms", Side::Right)]);
        table.row(vec!["2×64".into(), String::new(), "1.5".into()]);
        table.row(vec!["conv1 F".into(), String::new(), "10.25".into()]);
        table.total(vec!["all".into(), String::new(), "11.75".into()]);
        let expected =
            "kernel      ms\n───────  ─────\n2×64       1.5\nconv1 F  10.25\n───────  ─────\nall      11.75\n";
        assert_eq!(table.lines(), expected);
    }
}
