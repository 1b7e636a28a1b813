//! What the demo measured: each kernel plain and with the library, and sentences about all of them.

use std::path::{Path, PathBuf};

use serde_json::Value;
use trust::Shown as _;

use crate::decisions::{Decision, Decisions, Fields, Policy};
use crate::part::Part;
use crate::quantity::{bytes, digits, ratio};
use crate::table::{Side, Table};
use crate::text;

/// The results of a demo.
#[derive(Debug)]
pub struct Measured {
    title: String,
    /// The file of the network.
    pub network: PathBuf,
    rows: Vec<Row>,
    total: Row,
    sentences: Vec<String>,
}

/// One kernel, or all of them.
#[derive(Debug)]
struct Row {
    /// The layer and the direction.
    kernel: String,
    plain: Way,
    ours: Way,
    /// How far the results are apart, as a share of plain's.
    difference: f64,
}

/// How a kernel ran.
#[derive(Debug)]
struct Way {
    /// The algorithm, or the division of the mini-batch.
    how: String,
    /// Bytes.
    workspace: usize,
    /// Milliseconds.
    time: f64,
}

impl Measured {
    /// Reads the file that the demo's script wrote.
    pub fn read(file: &Path) -> Result<Self, String> {
        let wrong = |why: String| format!("{}: not a demo's results: {why}", file.shown());
        let value = serde_json::from_str(&text::read(file)?).map_err(|error| wrong(error.to_string()))?;
        Self::of(&value).map_err(wrong)
    }

    fn of(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        let list =
            |name: &str| fields.0.get(name).and_then(Value::as_array).ok_or(format!("{name} is missing, or no list"));
        let sentence = |value: &Value| value.as_str().map(str::to_owned).ok_or("a sentence is no text".to_owned());
        Ok(Self {
            title: fields.text("title")?.to_owned(),
            network: fields.text("network")?.into(),
            rows: list("rows")?.iter().map(Row::of).collect::<Result<_, _>>()?,
            total: Row::of(fields.0.get("total").ok_or("total is missing")?)?,
            sentences: list("sentences")?.iter().map(sentence).collect::<Result<_, _>>()?,
        })
    }

    /// The results as a table.
    pub fn part(&self) -> Part {
        let mut table = Table::new(&[
            ("kernel", Side::Left),
            ("plain", Side::Left),
            ("workspace", Side::Right),
            ("ms", Side::Right),
            ("with us", Side::Left),
            ("workspace", Side::Right),
            ("ms", Side::Right),
            ("gain", Side::Right),
            ("difference", Side::Right),
        ])
        .optional([2, 5, 1]);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        table.total(self.total.cells());
        let notes = self.sentences.iter().map(|sentence| format!("{sentence}\n")).collect::<String>();
        Part { heading: self.title.clone(), table, notes: format!("\n{notes}") }
    }

    /// The kernels as decisions, whose times are those of the program's own calls.
    pub fn decisions(&self) -> Decisions {
        let decision = |row: &Row| {
            let (layer, direction) = row.kernel.rsplit_once(' ').unwrap_or((&row.kernel, ""));
            Decision {
                layer: layer.to_owned(),
                direction: direction.to_owned(),
                problem: String::new(),
                spec: row.kernel.clone(),
                count: 1,
                division: row.ours.how.clone(),
                workspace: row.ours.workspace,
                time: row.ours.time,
                undivided: None,
                plain: Some(row.plain.time),
                plain_workspace: Some(row.plain.workspace),
                offset: None,
            }
        };
        Decisions { policy: Policy::Reuse { limit: None }, rows: self.rows.iter().map(decision).collect() }
    }
}

impl Row {
    fn of(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        let way = |how: &str, workspace: &str, time: &str| {
            let (workspace, time) = (fields.size(workspace)?, fields.time(time)?);
            Ok::<_, String>(Way { how: fields.text(how)?.to_owned(), workspace, time })
        };
        Ok(Self {
            kernel: fields.text("kernel")?.to_owned(),
            plain: way("plain_algorithm", "plain_workspace", "plain_ms")?,
            ours: way("division", "workspace", "ms")?,
            difference: fields.number("difference").ok_or("difference is missing, or no number")?,
        })
    }

    fn cells(&self) -> Vec<String> {
        let Self { kernel, plain, ours, difference } = self;
        vec![
            kernel.clone(),
            plain.how.clone(),
            bytes(plain.workspace),
            digits(plain.time),
            ours.how.clone(),
            bytes(ours.workspace),
            digits(ours.time),
            ratio(plain.time, ours.time),
            if *difference == 0.0 { "equal".into() } else { format!("{difference:.1e}") },
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::style::plain;

    fn results() -> Value {
        let row = |kernel: &str, plain: f64, ours: f64| {
            json!({
                "kernel": kernel, "plain_algorithm": "GEMM", "plain_workspace": 1024, "plain_ms": plain,
                "division": "2×8[FFT]", "workspace": 2048, "ms": ours, "difference": 1e-7,
            })
        };
        json!({
            "title": "a net, batch 16", "network": "net.csv", "sentences": ["It is faster."],
            "rows": [row("conv1 F", 8.0, 4.0), row("conv1 BD", 1.0, 2.0)], "total": row("all", 9.0, 6.0),
        })
    }

    #[test]
    fn a_table_has_both_sides() {
        let measured = Measured::of(&results()).unwrap();
        let text = plain(&measured.part().text(usize::MAX));
        assert!(text.starts_with("a net, batch 16\n\nkernel "), "{text}");
        assert!(
            text.contains("conv1 F   GEMM    1.00 KiB  8.00  2×8[FFT]   2.00 KiB  4.00  2.00×      1.0e-7\n"),
            "{text}"
        );
        assert!(text.contains("0.50×") && text.contains("1.50×") && text.ends_with("\n\nIt is faster.\n"), "{text}");
        let narrow = measured.part().text(60);
        assert!(!narrow.contains("KiB") && narrow.contains("2×8[FFT]"), "{narrow}");
    }

    #[test]
    fn layers_have_plain_times_beside_ours() {
        let decisions = Measured::of(&results()).unwrap().decisions();
        let names: Vec<_> = decisions.rows.iter().map(Decision::name).collect();
        assert_eq!(names, ["conv1 F", "conv1 BD"]);
        assert_eq!(decisions.beside_plain(), Some((6.0, 9.0)));
    }

    #[test]
    fn what_is_missing_is_named() {
        for name in ["title", "network", "sentences", "rows", "total"] {
            let mut value = results();
            value.as_object_mut().unwrap().remove(name);
            let why = Measured::of(&value).unwrap_err();
            assert!(why.starts_with(&format!("{name} is missing")), "{why}");
        }
        for name in ["kernel", "plain_algorithm", "workspace", "ms", "difference"] {
            let mut value = results();
            value["rows"][1].as_object_mut().unwrap().remove(name);
            let why = Measured::of(&value).unwrap_err();
            assert!(why.starts_with(&format!("{name} is missing")), "{why}");
        }
    }
}
