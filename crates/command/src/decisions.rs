//! How each convolution problem of a network is run, and at what cost: the common part of reports and plans.
//!
//! A report is the file of `UCUDNN_REPORT`, with one JSON object per line. A plan is the output of
//! `ucudnn plan --json`: one object with `plans`, whose layers have the same keys as a report's lines.

use serde_json::{Map, Value, json};
use tuning::family::Time;

/// The decision on one layer's problem, or on several layers that are alike and run alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The layer's name, or the problem's shapes if it has none.
    pub layer: String,
    /// F, BD or BF.
    pub direction: String,
    /// The problem as text for people.
    pub problem: String,
    /// The problem's full text, equal for equal problems.
    pub spec: String,
    /// The number of layers.
    pub count: usize,
    /// Such as `2×64[FFT]`.
    pub division: String,
    /// Bytes for each layer.
    pub workspace: usize,
    /// Milliseconds for each layer.
    pub time: f64,
    /// The fastest way without division within the same limit, if known.
    pub undivided: Option<Choice>,
    /// Milliseconds by plain cuDNN for each layer, if a run timed it.
    pub plain: Option<f64>,
    /// Bytes of workspace of plain cuDNN for each layer, if a run knew them.
    pub plain_workspace: Option<usize>,
    /// The start of its segment in Workspace Division's arena, in bytes, if it has one.
    pub offset: Option<usize>,
}

/// One way to run a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Such as `2×64[FFT]`, or only the algorithm if undivided.
    pub division: String,
    /// Bytes.
    pub workspace: usize,
    /// Milliseconds.
    pub time: f64,
}

/// The policy behind the decisions.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Workspace Reuse, each problem within `limit` bytes; `None` if limits differ or came from the program.
    Reuse { limit: Option<usize> },
    /// Workspace Division.
    Division(Division),
}

/// The division of a total.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Bytes.
    pub total: usize,
    /// True if layers run one after another and share segments: the total limits each layer, not their sum.
    pub shared: bool,
    /// True if no division is faster.
    pub proven: bool,
    /// How much faster another division may be, as a fraction.
    pub gap: f64,
    /// Milliseconds that solving took.
    pub solve_ms: Option<f64>,
    /// Milliseconds of all layers if each had an equal share of the total.
    pub equal_shares_ms: Option<f64>,
}

impl Division {
    /// Reads an element of a plan or a report's line.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            total: fields.size("total")?,
            shared: fields.flag("one_stream"),
            proven: fields.flag("proven"),
            gap: fields.number("gap").unwrap_or(0.0),
            solve_ms: fields.number("solve_ms"),
            equal_shares_ms: fields.number("equal_shares_ms"),
        })
    }

    /// The distance from the optimum, in words.
    pub fn quality(&self) -> String {
        if self.proven { "proven optimal".into() } else { format!("within {:.2}% of the optimum", self.gap * 100.0) }
    }
}

/// The decisions for a whole network, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    pub policy: Policy,
    pub rows: Vec<Decision>,
}

impl Decisions {
    /// Milliseconds of all layers.
    pub fn time(&self) -> f64 {
        self.rows.iter().map(|row| row.time * row.count as f64).sum()
    }

    /// Milliseconds of all layers undivided; `None` if some time is unknown.
    pub fn undivided_time(&self) -> Option<f64> {
        self.rows.iter().map(|row| Some(row.undivided.as_ref()?.time * row.count as f64)).sum()
    }

    /// Milliseconds of the layers for which plain cuDNN's are known, and plain cuDNN's; `None` if there are none.
    pub fn beside_plain(&self) -> Option<(f64, f64)> {
        let known = self.rows.iter().filter_map(|row| Some((row.time, row.plain?, row.count as f64)));
        known.map(|(time, plain, count)| (time * count, plain * count)).reduce(|a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Bytes of all layers together.
    pub fn workspace(&self) -> usize {
        self.rows.iter().map(|row| row.workspace * row.count).sum()
    }

    /// Bytes by plain cuDNN: of all layers together, and of the one with the largest workspace; `None` if some are unknown.
    pub fn plain_workspace(&self) -> Option<(usize, usize)> {
        let bytes: Vec<_> =
            self.rows.iter().map(|row| Some((row.plain_workspace?, row.count))).collect::<Option<_>>()?;
        let largest = bytes.iter().map(|(bytes, _)| *bytes).max()?;
        Some((bytes.iter().map(|(bytes, count)| bytes * count).sum(), largest))
    }

    /// Bytes of the layer with the largest workspace.
    pub fn largest(&self) -> usize {
        self.rows.iter().map(|row| row.workspace).max().unwrap_or(0)
    }

    /// The number of layers, counted once per direction.
    pub fn layers(&self) -> usize {
        self.rows.iter().map(|row| row.count).sum()
    }

    /// The JSON of an element of a plan's `plans`.
    pub fn to_json(&self) -> Value {
        let mut value = match &self.policy {
            Policy::Reuse { limit } => json!({ "policy": "wr", "limit": limit }),
            Policy::Division(Division { total, shared, proven, gap, solve_ms, equal_shares_ms }) => json!({
                "policy": "wd", "total": total, "one_stream": shared, "proven": proven, "gap": gap,
                "solve_ms": solve_ms, "equal_shares_ms": equal_shares_ms,
            }),
        };
        value["time_ms"] = self.time().into();
        value["undivided_ms"] = self.undivided_time().into();
        value["workspace"] = self.workspace().into();
        value["layers"] = self.rows.iter().map(Decision::to_json).collect();
        value
    }

    /// Reads an element of a plan's `plans`.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        let policy = match fields.text("policy")? {
            "wr" => Policy::Reuse { limit: fields.optional("limit") },
            "wd" => Policy::Division(Division::from_fields(&fields)?),
            other => return Err(format!("policy is {other:?}: it must be wr or wd")),
        };
        let layers = fields.0.get("layers").and_then(Value::as_array).ok_or("layers is missing, or no list")?;
        let rows = layers.iter().map(Decision::from_json).collect::<Result<_, _>>()?;
        Ok(Self { policy, rows })
    }
}

impl Decision {
    /// Reads a report's line or a plan's layer. `Err` names the part that is wrong.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        let problem = fields.text("kernel")?;
        let undivided = fields.0.get("undivided").and_then(Value::as_str).map(|algorithm| {
            let (workspace, time) = (fields.size("undivided_workspace")?, fields.time("undivided_ms")?);
            Ok::<_, String>(Choice { division: algorithm.to_owned(), workspace, time })
        });
        Ok(Self {
            // The library numbers a division's layers; people get shapes, because such a number means nothing to them.
            layer: fields.0.get("layer").and_then(Value::as_str).map_or_else(|| shapes(problem), str::to_owned),
            direction: fields.text("direction")?.to_owned(),
            problem: problem.to_owned(),
            spec: fields.0.get("spec").and_then(Value::as_str).unwrap_or(problem).to_owned(),
            count: fields.optional("count").unwrap_or(1).max(1),
            division: fields.text("division")?.to_owned(),
            workspace: fields.size("workspace")?,
            time: fields.time("time_ms")?,
            undivided: undivided.transpose()?,
            plain: fields.number("plain_ms"),
            plain_workspace: fields.optional("plain_workspace"),
            offset: fields.optional("offset"),
        })
    }

    fn to_json(&self) -> Value {
        let undivided = self.undivided.as_ref();
        json!({
            "layer": self.layer, "direction": self.direction, "kernel": self.problem, "spec": self.spec,
            "count": self.count, "division": self.division, "workspace": self.workspace, "time_ms": self.time,
            "undivided": undivided.map(|u| &u.division), "undivided_workspace": undivided.map(|u| u.workspace),
            "undivided_ms": undivided.map(|u| u.time), "plain_ms": self.plain, "plain_workspace": self.plain_workspace,
            "offset": self.offset,
        })
    }

    /// The layer with its direction, and the number of such layers.
    pub fn name(&self) -> String {
        let count = if self.count > 1 { format!(" ×{}", self.count) } else { String::new() };
        format!("{} {}{count}", self.layer, self.direction)
    }
}

/// Merges layers that are alike and run alike into one row, at the place of the first.
pub fn merged(rows: &[Decision]) -> Vec<Decision> {
    let mut merged: Vec<Decision> = Vec::new();
    for row in rows {
        let same = |known: &&mut Decision| {
            known.spec == row.spec
                && known.layer == row.layer
                && known.division == row.division
                && known.time == row.time
        };
        match merged.iter_mut().find(same) {
            Some(known) => known.count += row.count,
            None => merged.push(Decision { offset: None, ..row.clone() }),
        }
    }
    merged
}

/// A problem's text without its direction, equal for the three problems of a layer.
pub fn shapes(problem: &str) -> String {
    problem.split_once(' ').map_or(problem, |(_, shapes)| shapes).to_owned()
}

/// The members of a JSON object, read by type.
pub struct Fields<'a>(pub &'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub fn of(value: &'a Value) -> Result<Self, String> {
        value.as_object().map(Self).ok_or_else(|| format!("expected an object, not {}", short(value)))
    }

    fn get(&self, name: &str) -> Result<&'a Value, String> {
        self.0.get(name).ok_or_else(|| format!("{name} is missing"))
    }

    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        let value = self.get(name)?;
        value.as_str().ok_or_else(|| format!("{name} is {}: it must be a text", short(value)))
    }

    /// A number of bytes.
    pub fn size(&self, name: &str) -> Result<usize, String> {
        let value = self.get(name)?;
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| format!("{name} is {}: it must be a number of bytes", short(value)))
    }

    /// Milliseconds.
    pub fn time(&self, name: &str) -> Result<f64, String> {
        let value = self.get(name)?;
        let time = value.as_f64().filter(|time| *time >= 0.0);
        time.ok_or_else(|| format!("{name} is {}: it must be milliseconds, 0 or more", short(value)))
    }

    /// A list of times, in milliseconds of this unit; one without them does not run.
    pub fn timings(&self, name: &str, unit: &str) -> Result<Vec<Time>, String> {
        let times =
            self.0.get(name).and_then(Value::as_array).ok_or_else(|| format!("{name} is missing, or no list"))?;
        let time = |value: &Value| {
            let fields = Fields::of(value)?;
            let time = fields.0.get(unit).filter(|time| !time.is_null()).map(|_| fields.time(unit));
            Ok(Time { what: fields.text("what")?.to_owned(), time: time.transpose()? })
        };
        times.iter().map(time).collect()
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn optional(&self, name: &str) -> Option<usize> {
        self.0.get(name).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok())
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 40 { text.chars().take(39).chain(['…']).collect() } else { text }
}
