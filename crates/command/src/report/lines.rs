//! The lines of a report, which a run wrote to `UCUDNN_REPORT`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use convolution::problem::any::AnyProblem;
use serde_json::Value;

use super::steps::{OfProcesses, Steps};
use crate::contests::{Contest, Contested};
use crate::decisions::{Choice, Decision, Decisions, Division, Fields, Policy};
use crate::division_text;
use crate::output;
use crate::sets::{Group, front, within};
use crate::times::Kind;
use crate::vertex_net::VertexNet;
use trust::Shown as _;

/// The contents of a report, with the last decision on each convolution problem.
#[derive(Debug, Default)]
pub struct Report {
    /// Decisions by problem, in the order of their first lines, with the limit of each.
    pub reused: Vec<(Decision, Option<usize>)>,
    /// The last division, if there was any.
    pub divided: Option<Divided>,
    /// The number of times that a network was divided.
    pub divisions: usize,
    /// The desirable sets.
    pub desirable: Vec<DesirableSet>,
    /// The measured micro-configurations.
    pub timed: Vec<Timed>,
    /// Convolutions compared with their undivided results, and how many of these exceeded the tolerance.
    pub checked: (usize, usize),
    /// Calls watched in the arena, and how many of these wrote outside their segments.
    pub kept: (usize, usize),
    /// Recurrent networks and batch normalizations, in the order of their first lines.
    pub contests: Vec<Contest>,
    /// Operation graphs with a normalization that cuDNN runs: their names, and why.
    pub graphs: Vec<(String, String)>,
    /// Nets of vertex functions on a device.
    pub nets: Vec<VertexNet>,
    /// The programs' steps.
    pub steps: OfProcesses,
    /// How often each problem, by text and limit, was being explored when the report was written.
    pub exploring: HashMap<(String, Option<usize>), usize>,
    /// The number of processes that handed every call to cuDNN (`UCUDNN=off`).
    pub switched_off: usize,
    /// The number of lines with events unknown to this version.
    pub unknown: usize,
}

/// A network's division.
#[derive(Debug)]
pub struct Divided {
    pub decisions: Decisions,
    /// Bytes of the arena.
    pub arena: usize,
    /// The number of layers without a segment, which run their fallback without workspace.
    pub ready: usize,
}

/// A problem's desirable set.
#[derive(Clone, Debug, PartialEq)]
pub struct DesirableSet {
    pub problem: String,
    pub spec: String,
    /// Workspace ascending.
    pub points: Vec<Choice>,
}

/// A measured micro-configuration.
#[derive(Debug)]
pub struct Timed {
    pub spec: String,
    pub batch: usize,
    pub algorithm: String,
    pub workspace: usize,
    pub time: f64,
}

/// The most unreadable lines of a report that are named.
const MOST_NAMED: usize = 8;

/// Reads a report's text. Names an unreadable line on standard error and skips it: a run that was killed, or is still
/// writing, leaves half a line. `Err` if no line can be read.
pub fn parse(file: &Path, text: &str) -> Result<Report, String> {
    let mut report = Report::default();
    let mut read = 0;
    let mut wrong = Vec::new();
    let cut_off = if text.ends_with('\n') { None } else { text.lines().count().checked_sub(1) };
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = format!("{}:{}", file.shown(), index + 1);
        let value = serde_json::from_str::<Value>(line);
        let taken = match &value {
            Err(_) if cut_off == Some(index) => {
                Err("half a line, of a run that was killed or is still writing".to_owned())
            }
            Err(error) => Err(format!("column {}: not a JSON object: {error}", error.column())),
            Ok(value) => report.take(value),
        };
        match taken {
            Ok(()) => read += 1,
            Err(why) => wrong.push(format!("{at}: {why}")),
        }
    }
    if read == 0 {
        return Err(match wrong.first() {
            None => format!("{}: empty; nothing was decided, or the run has not come to it yet", file.shown()),
            Some(first) => no_report(file, text, first),
        });
    }
    for why in wrong.iter().take(MOST_NAMED) {
        output::tell(&format!("{why}; left out"));
    }
    if let Some(more @ 1..) = wrong.len().checked_sub(MOST_NAMED) {
        output::tell(&format!("{}: {more} more lines are left out", file.shown()));
    }
    Ok(report)
}

/// The error for a file without a single readable line: its kind if that is known, and the expected contents.
fn no_report(file: &Path, text: &str, first: &str) -> String {
    let whole = serde_json::from_str::<Value>(text);
    if whole.is_ok_and(|whole| whole.get("plans").is_some()) {
        return format!("{}: a plan (`ucudnn plan --json`), which `ucudnn plot` draws; not a report", file.shown());
    }
    let expected = "expected the lines that a run writes to UCUDNN_REPORT, each an object with an \"event\"";
    format!("{}: not a report: {expected}. The first line: {first}", file.shown())
}

impl Report {
    fn take(&mut self, value: &Value) -> Result<(), String> {
        let fields = Fields::of(value)?;
        let event = fields.text("event")?;
        if let Some(kind) = Contested::of_event(event) {
            self.contested(Contest::from_fields(kind, &fields)?);
            return Ok(());
        }
        match event {
            "asked" | "ran" => {
                let decision = Decision::from_json(value)?;
                let limit = fields.optional("limit");
                if event == "ran" {
                    self.explored((decision.spec.clone(), limit));
                }
                put(&mut self.reused, (decision, limit), |(decision, _)| &decision.spec);
            }
            "off" => self.switched_off += 1,
            "began" => {} // the library's version, for people
            "exploring" => {
                *self.exploring.entry((spec(&fields)?, fields.optional("limit"))).or_default() += 1;
            }
            "unchanged" => {
                self.explored((spec(&fields)?, fields.optional("limit")));
            }
            "divided" => {
                let layers = fields.0.get("layers").and_then(Value::as_array).ok_or("layers is missing, or no list")?;
                let rows: Vec<_> = layers.iter().map(Decision::from_json).collect::<Result<_, _>>()?;
                let policy = Policy::Division(Division::from_fields(&fields)?);
                let ready = fields.0.get("ready").and_then(Value::as_array).map_or(0, Vec::len);
                let decisions = Decisions { policy, rows };
                self.divided = Some(Divided { decisions, arena: fields.size("arena")?, ready });
                self.divisions += 1;
            }
            "desirable" => {
                put(&mut self.desirable, desirable_set(&fields)?, |set| &set.spec);
            }
            "timed" => self.timed.push(Timed {
                spec: spec(&fields)?,
                batch: fields.size("batch")?,
                algorithm: fields.text("algorithm")?.to_owned(),
                workspace: fields.size("workspace")?,
                time: fields.time("time_ms")?,
            }),
            // An error that is not a number is written as null, and so is the error of an unchecked result.
            "checked" if fields.0.get("why_not").is_none_or(Value::is_null) => {
                let agrees = fields.number("error").is_some_and(|error| Some(error) <= fields.number("tolerance"));
                self.checked.0 += 1;
                self.checked.1 += usize::from(!agrees);
            }
            "kept" if fields.flag("known") => {
                self.kept.0 += 1;
                self.kept.1 += usize::from(fields.optional("overwritten").is_some());
            }
            "graph" => {
                let [name, why] = ["graph", "why"].map(|key| fields.text(key).map(str::to_owned));
                put(&mut self.graphs, (name?, why?), |(name, _)| name);
            }
            "dynamic" => {
                put(&mut self.nets, VertexNet::from_fields(&fields)?, |net| &net.spec);
            }
            "steps" => self.steps.take(Steps::from_fields(&fields)?),
            // These lines say that nothing could be compared.
            "checked" | "kept" => {}
            // These are for measurements.
            "dynamic-path" | "dynamic-batch" => {}
            // An event of a later version.
            _ => self.unknown += 1,
        }
        Ok(())
    }

    /// Replaces the result for the same subject, or appends the new one.
    fn contested(&mut self, new: Contest) {
        match self.contests.iter_mut().find(|known| known.kind == new.kind && known.spec == new.spec) {
            Some(known) => *known = new,
            None => self.contests.push(new),
        }
    }

    /// Ends one exploration of a problem if it began. Problems that the database knows are not explored.
    fn explored(&mut self, problem: (String, Option<usize>)) {
        if let Some(times) = self.exploring.get_mut(&problem) {
            *times -= 1;
            if *times == 0 {
                self.exploring.remove(&problem);
            }
        }
    }

    /// The last division, then the decisions by problem that it does not include.
    pub fn decisions(&self) -> Vec<Decisions> {
        let mut decisions = Vec::new();
        let mut met = HashSet::new();
        if let Some(divided) = &self.divided {
            let mut divided = divided.decisions.clone();
            for row in &mut divided.rows {
                row.undivided = row.undivided.take().or_else(|| self.undivided(row));
                met.insert(row.spec.clone());
            }
            decisions.push(divided);
        }
        let others: Vec<_> = self.reused.iter().filter(|(decision, _)| !met.contains(&decision.spec)).collect();
        if let Some((_, first)) = others.first() {
            let limit = first.filter(|_| others.iter().all(|(_, limit)| limit == first));
            let rows = others.iter().map(|(decision, _)| decision.clone()).collect();
            decisions.push(Decisions { policy: Policy::Reuse { limit }, rows });
        }
        decisions
    }

    /// The problems with their desirable sets, and the kind of all their times: alone, if the run told these of every
    /// micro-batch, else its own. `Err` names a problem without a set.
    pub fn groups(&self) -> Result<(Vec<Group>, Kind), String> {
        let mut groups: Vec<Group> = Vec::new();
        for row in self.decisions().iter().flat_map(|decisions| &decisions.rows) {
            if let Some(known) = groups.iter_mut().find(|known| known.spec == row.spec) {
                known.count += row.count;
                continue;
            }
            let set = self.desirable.iter().find(|set| set.spec == row.spec);
            let set = set.ok_or_else(|| {
                format!("no desirable set of {}; a run under Workspace Division tells them", row.problem)
            })?;
            groups.push(Group {
                layer: row.layer.clone(),
                direction: row.direction.clone(),
                problem: row.problem.clone(),
                spec: row.spec.clone(),
                count: row.count,
                choices: front(set.points.clone()),
                undivided: front(self.tried_undivided(&row.spec, set)),
            });
        }
        let alone: Option<Vec<Group>> = groups.iter().map(|group| self.alone(group)).collect();
        Ok(alone.map_or((groups, Kind::OfRun), |groups| (groups, Kind::Alone)))
    }

    /// The group with the times of micro-batches that ran alone; `None` if the run did not tell all of them.
    fn alone(&self, group: &Group) -> Option<Group> {
        let of_part = |part: &division_text::Part| {
            let is_it = |timed: &&Timed| {
                timed.spec == group.spec && timed.batch == part.size && timed.algorithm == part.algorithm
            };
            Some(self.timed.iter().find(is_it)?.time * part.count as f64)
        };
        let choice = |choice: &Choice| {
            let parts = division_text::parts(&choice.division);
            let time = parts.iter().map(of_part).sum::<Option<f64>>().filter(|_| !parts.is_empty())?;
            Some(Choice { time, ..choice.clone() })
        };
        let choices = group.choices.iter().map(choice).collect::<Option<Vec<_>>>()?;
        let undivided = self.timed_undivided(&group.spec).map(|timed| Choice {
            division: timed.algorithm.clone(),
            workspace: timed.workspace,
            time: timed.time,
        });
        Some(Group { choices: front(choices), undivided: front(undivided.collect()), ..group.clone() })
    }

    /// The undivided ways in a desirable set.
    fn tried_undivided(&self, spec: &str, set: &DesirableSet) -> Vec<Choice> {
        let tried = |Timed { batch, algorithm, .. }: &Timed| {
            let division = format!("1×{batch}[{algorithm}]");
            let point = set.points.iter().find(|point| point.division == division)?;
            Some(Choice { division: algorithm.clone(), ..point.clone() })
        };
        self.timed_undivided(spec).filter_map(tried).collect()
    }

    /// The measured micro-configurations of a problem's whole mini-batch.
    fn timed_undivided(&self, spec: &str) -> impl Iterator<Item = &Timed> {
        // The problem's text includes its mini-batch.
        let batch = AnyProblem::from_spec(spec).ok().map(|problem| problem.batch());
        self.timed.iter().filter(move |timed| timed.spec == spec && Some(timed.batch) == batch)
    }

    /// The fastest measured undivided way to run a division's layer in its segment.
    fn undivided(&self, row: &Decision) -> Option<Choice> {
        within(&front(self.undivided_choices(&row.spec)), row.workspace).cloned()
    }

    /// The measured choices for a problem's whole mini-batch. Times in place are preferred, as for divisions.
    fn undivided_choices(&self, spec: &str) -> Vec<Choice> {
        let points = self.desirable.iter().filter(|set| set.spec == spec).flat_map(|set| &set.points);
        let choice = |Timed { batch, algorithm, workspace, time, .. }: &Timed| {
            let division = format!("1×{batch}[{algorithm}]");
            let in_place = points.clone().find(|tried| tried.division == division).map(|tried| tried.time);
            Choice { division: algorithm.clone(), workspace: *workspace, time: in_place.unwrap_or(*time) }
        };
        self.timed_undivided(spec).map(choice).collect()
    }
}

/// Replaces the element with the same text, or appends the new one.
fn put<T>(elements: &mut Vec<T>, new: T, spec: impl Fn(&T) -> &str) {
    match elements.iter_mut().find(|known| spec(known) == spec(&new)) {
        Some(known) => *known = new,
        None => elements.push(new),
    }
}

fn spec(fields: &Fields) -> Result<String, String> {
    fields.text("spec").or_else(|_| fields.text("kernel")).map(str::to_owned)
}

fn desirable_set(fields: &Fields) -> Result<DesirableSet, String> {
    let set = fields.0.get("set").and_then(Value::as_array).ok_or("set is missing, or no list")?;
    let point = |value: &Value| {
        let fields = Fields::of(value)?;
        let (workspace, time) = (fields.size("workspace")?, fields.time("time_ms")?);
        Ok::<_, String>(Choice { division: fields.text("division")?.to_owned(), workspace, time })
    };
    let mut points: Vec<_> = set.iter().map(point).collect::<Result<_, _>>()?;
    points.sort_by_key(|point| point.workspace);
    Ok(DesirableSet { problem: fields.text("kernel")?.to_owned(), spec: spec(fields)?, points })
}
