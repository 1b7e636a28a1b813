//! The steps of a run's programs: how long one takes now, and how long it would take plain.

use serde_json::{Value, json};

use crate::decisions::Fields;
use crate::part::Part;
use crate::quantity::{self, counted, digits, ratio};
use crate::table::{Side, Table};

/// Alike steps of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    process: usize,
    /// The rank of the process in its job, if it is one of several.
    rank: Option<usize>,
    /// The number of the sequence of calls among those of the process: training and validation have two.
    sequence: usize,
    /// The calls of a step.
    calls: usize,
    /// Those of them by our plans and kernels.
    ours: usize,
    /// Those of these whose time beside plain's is known.
    judged: usize,
    steps: usize,
    /// Milliseconds of a step.
    time: f64,
    /// The milliseconds that a step takes less than plain, by the times of trials.
    saved: f64,
}

impl Steps {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let count = |name: &str| fields.optional(name).ok_or_else(|| format!("{name} is missing, or no number"));
        Ok(Self {
            process: count("process")?,
            rank: fields.optional("rank"),
            sequence: count("sequence")?,
            calls: count("calls")?,
            ours: count("ours")?,
            judged: count("judged")?,
            steps: count("steps")?,
            time: fields.time("step_ms")?,
            saved: fields.number("saved_ms").ok_or("saved_ms is missing, or no number")?,
        })
    }

    /// Returns whether it is of the same process. Processes of several machines may have one number, but not one rank.
    fn is_of(&self, other: &Self) -> bool {
        (self.process, self.rank) == (other.process, other.rank)
    }

    fn whole(&self) -> f64 {
        self.time * self.steps as f64
    }

    /// Milliseconds of a step by plain cuDNN; `None` if it is not known what any call saves.
    fn plain(&self) -> Option<f64> {
        (self.judged > 0).then_some((self.time + self.saved).max(0.0))
    }

    fn to_json(&self) -> Value {
        json!({
            "process": self.process, "rank": self.rank, "calls": self.calls, "ours": self.ours, "judged": self.judged,
            "steps": self.steps, "step_ms": self.time, "plain_ms": self.plain(),
        })
    }
}

/// The last steps of each process, in the sequence of calls of which alike steps took longest.
#[derive(Debug, Default)]
pub struct OfProcesses(Vec<(Steps, f64)>);

impl OfProcesses {
    /// Takes a line: it replaces the last one of its sequence.
    pub fn take(&mut self, new: Steps) {
        let is_it = |known: &&mut (Steps, f64)| known.0.is_of(&new) && known.0.sequence == new.sequence;
        match self.0.iter_mut().find(is_it) {
            Some((known, most)) => {
                *most = most.max(new.whole());
                *known = new;
            }
            None => {
                let whole = new.whole();
                self.0.push((new, whole));
            }
        }
    }

    /// Those to show, by rank.
    fn shown(&self) -> Vec<&Steps> {
        let is_most = |(steps, most): &&(Steps, f64)| {
            let others = self.0.iter().filter(|(other, _)| other.is_of(steps) && other.sequence != steps.sequence);
            others.clone().all(|(_, other)| other <= most)
        };
        let mut shown: Vec<_> = self.0.iter().filter(is_most).map(|(steps, _)| steps).collect();
        shown.sort_by_key(|steps| steps.rank);
        shown
    }

    pub fn to_json(&self) -> Value {
        self.shown().into_iter().map(Steps::to_json).collect()
    }

    /// A heading, a table, and how its figures were come by; `None` where no steps could be told.
    pub fn part(&self) -> Option<Part> {
        let shown = self.shown();
        let first = shown.first()?;
        let mut table = Table::new(&[
            ("process", Side::Left),
            ("calls", Side::Right),
            ("by our plans", Side::Right),
            ("steps", Side::Right),
            ("ms", Side::Right),
            ("plain ms", Side::Right),
            ("gain", Side::Right),
        ]);
        for steps in &shown {
            let process = match steps.rank {
                Some(rank) => format!("rank {rank}"),
                None if shown.len() > 1 => steps.process.to_string(),
                None => String::new(),
            };
            let plain = steps.plain();
            table.row(vec![
                process,
                steps.calls.to_string(),
                steps.ours.to_string(),
                steps.steps.to_string(),
                digits(steps.time),
                plain.map_or_else(String::new, digits),
                plain.map_or_else(String::new, |plain| ratio(plain, steps.time)),
            ]);
        }
        let heading = match (&shown[..], first.plain()) {
            ([_], Some(plain)) => {
                format!("A step of the program: {} → {}", digits(plain), quantity::milliseconds(first.time))
            }
            ([_], None) => format!("A step of the program: {}", quantity::milliseconds(first.time)),
            _ => "A step of each process".into(),
        };
        Some(Part { heading, table, notes: notes(&shown) })
    }
}

fn notes(shown: &[&Steps]) -> String {
    let mut notes =
        "\nA step is the sequence of calls that a program repeats. Its time is the mean of the steps, by the \
                     host's clock.\n"
            .to_owned();
    let beside_plain: Vec<_> = shown.iter().filter(|steps| steps.plain().is_some()).collect();
    if !beside_plain.is_empty() {
        notes += "Plain's time is an estimate: what our plans and kernels save in a step, by the times of trials, is \
                  added.\n";
    }
    let unknown: usize = beside_plain.iter().map(|steps| steps.ours.saturating_sub(steps.judged)).sum();
    if unknown > 0 {
        let calls = counted(unknown, "call");
        notes += &format!("{calls} by our plans and kernels have no time of plain's, and count as equal.\n");
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::plain;

    fn line(own: Value) -> Value {
        let mut line = json!({
            "process": 7, "rank": null, "sequence": 0, "calls": 20, "ours": 12, "judged": 12, "steps": 64,
            "step_ms": 30.0, "saved_ms": 17.0,
        });
        line.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        line
    }

    fn of(lines: &[Value]) -> OfProcesses {
        let mut all = OfProcesses::default();
        for own in lines {
            all.take(Steps::from_fields(&Fields::of(&line(own.clone())).unwrap()).unwrap());
        }
        all
    }

    #[test]
    fn the_last_steps_of_the_longest_sequence_are_shown() {
        let all = of(&[
            json!({ "step_ms": 47.0, "saved_ms": 0.0, "judged": 0, "steps": 1024 }),
            json!({ "sequence": 1, "calls": 9, "steps": 512, "step_ms": 1.0 }),
            json!({ "steps": 8 }),
        ]);
        let text = plain(&all.part().unwrap().text(usize::MAX));
        assert!(text.starts_with("A step of the program: 47.0 → 30.0 ms\n"), "{text}");
        let row: Vec<_> = text.lines().nth(4).unwrap().split_whitespace().collect();
        assert_eq!(row, ["20", "12", "8", "30.0", "47.0", "1.57×"], "{text}");
        assert!(text.contains("estimate") && !text.contains("process") && !text.contains("count as equal"), "{text}");
        assert_eq!(all.to_json()[0]["plain_ms"], 47.0);
        assert!(OfProcesses::default().part().is_none());
    }

    #[test]
    fn what_is_not_known_of_plain_is_said() {
        let text = |own| plain(&of(&[own]).part().unwrap().text(usize::MAX));
        assert!(text(json!({ "judged": 11 })).contains("\n1 call by our plans"), "{}", text(json!({ "judged": 11 })));
        let nothing = text(json!({ "judged": 0, "saved_ms": 0.0 }));
        assert!(nothing.starts_with("A step of the program: 30.0 ms\n") && !nothing.contains("lain"), "{nothing}");
    }

    #[test]
    fn processes_are_told_apart() {
        let ranks = of(&[json!({ "rank": 1 }), json!({ "rank": 0, "step_ms": 31.0 })]);
        let text = plain(&ranks.part().unwrap().text(usize::MAX));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0] == "A step of each process" && lines[4].starts_with("rank 0 "), "{text}");
        assert!(lines[5].starts_with("rank 1 "), "{text}");
        let two = of(&[json!({}), json!({ "process": 8 })]);
        assert!(plain(&two.part().unwrap().text(usize::MAX)).contains("\n8  "), "two programs in one file");
    }

    #[test]
    fn a_wrong_part_is_named() {
        for (own, why) in [
            (json!({ "steps": null }), "steps is missing, or no number"),
            (json!({ "step_ms": -1.0 }), "step_ms is -1.0: it must be milliseconds"),
            (json!({ "saved_ms": "much" }), "saved_ms is missing, or no number"),
        ] {
            let error = Steps::from_fields(&Fields::of(&line(own)).unwrap()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
