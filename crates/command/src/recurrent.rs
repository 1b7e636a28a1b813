//! Recurrent networks in inference: results, and their table.

pub mod description;
pub mod training;

use serde_json::{Value, json};
use tuning::family::{Time, times_json};

use crate::decisions::Fields;
use crate::quantity::{self, ratio};
use crate::table::{Side, Table};

/// The name of cuDNN in the database and in reports.
const CUDNN: &str = "cuDNN";
/// The unit of times in reports.
const STEP: &str = "step_ms";

/// Milliseconds as microseconds.
fn microseconds(time: Option<f64>) -> String {
    time.map_or_else(String::new, |time| quantity::digits(1e3 * time))
}

/// The result for one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The network, for people.
    pub network: String,
    /// The text that identifies the network.
    pub spec: String,
    /// cuDNN, or the configuration of our kernels that runs the network.
    pub chosen: String,
    pub why: String,
    /// The performance model's first choice.
    pub first: Option<String>,
    pub step_times: Vec<Time>,
}

impl Decision {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let network = fields.text("rnn")?.to_owned();
        Ok(Self {
            spec: fields.0.get("spec").and_then(Value::as_str).unwrap_or(&network).to_owned(),
            network,
            chosen: fields.text("chosen")?.to_owned(),
            why: fields.text("why")?.to_owned(),
            first: fields.0.get("first").and_then(Value::as_str).map(str::to_owned),
            step_times: fields.timings("times", STEP)?,
        })
    }

    pub fn to_json(&self) -> Value {
        json!({
            "rnn": self.network, "spec": self.spec, "chosen": self.chosen, "why": self.why, "first": self.first,
            "times": times_json(&self.step_times, STEP), "first_over_best": self.first_over_best(),
        })
    }

    /// Milliseconds per time step.
    fn time(&self, what: &str) -> Option<f64> {
        self.step_times.iter().find(|known| known.what == what)?.time
    }

    /// The time of the model's first choice, as a multiple of our fastest configuration's time.
    pub fn first_over_best(&self) -> Option<f64> {
        let ours = self.step_times.iter().filter(|known| known.what != CUDNN).filter_map(|known| known.time);
        let best = ours.min_by(f64::total_cmp).filter(|best| *best > 0.0)?;
        Some(self.time(self.first.as_ref()?)? / best)
    }
}

/// A heading, a table of networks, and the quality of the model's first choices.
pub fn text_of(decisions: &[Decision], width: usize) -> String {
    let networks = quantity::counted(decisions.len(), "recurrent network");
    let mut table = Table::new(&[
        ("network", Side::Left),
        ("runs by", Side::Left),
        ("step µs", Side::Right),
        ("cuDNN", Side::Right),
        ("ratio", Side::Right),
        ("first choice", Side::Right),
        ("why", Side::Left),
    ])
    .optional([5, 6]);
    for decision in decisions {
        let (time, cudnn) = (decision.time(&decision.chosen), decision.time(CUDNN));
        table.row(vec![
            decision.network.clone(),
            decision.chosen.clone(),
            microseconds(time),
            microseconds(cudnn),
            cudnn.zip(time).map_or_else(String::new, |(cudnn, time)| ratio(cudnn, time)),
            decision.first_over_best().map_or_else(String::new, |over| format!("{over:.2}×")),
            decision.why.clone(),
        ]);
    }
    format!("{networks}\n\n{}{}", table.lines(width), summary(decisions))
}

fn summary(decisions: &[Decision]) -> String {
    let ours = decisions.iter().filter(|decision| decision.chosen != CUDNN).count();
    let mut text = format!("\n{ours} of {} run on kernels of ours.\n", decisions.len());
    let over: Vec<f64> = decisions.iter().filter_map(Decision::first_over_best).collect();
    if let Some(most) = over.iter().copied().max_by(f64::total_cmp) {
        let mean = (over.iter().map(|over| over.ln()).sum::<f64>() / over.len() as f64).exp();
        text += &format!(
            "The model's first choice took {mean:.2} times the time of the best configuration that was timed, at most \
             {most:.2} times.\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_time(what: &str, time: impl Into<Option<f64>>) -> Time {
        Time { what: what.into(), time: time.into() }
    }

    #[test]
    fn a_table_says_what_was_chosen_and_how_good_the_first_choice_was() {
        let timed = Decision {
            network: "LSTM 5→64".into(),
            spec: "a".into(),
            chosen: "grid u8".into(),
            why: "timed in place".into(),
            first: Some("block u64".into()),
            step_times: vec![
                step_time(CUDNN, 0.01),
                step_time("block u64", 0.005),
                step_time("grid u8", 0.004),
                step_time("grid u4", None),
            ],
        };
        let refused = Decision {
            network: "GRU 5→64".into(),
            spec: "b".into(),
            chosen: CUDNN.into(),
            why: "no compiler".into(),
            first: None,
            step_times: Vec::new(),
        };
        assert_eq!((timed.first_over_best(), refused.first_over_best()), (Some(1.25), None));
        let text = text_of(&[timed, refused], usize::MAX);
        let row = text.lines().find(|line| line.starts_with("LSTM")).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["LSTM", "5→64", "grid", "u8", "4.00", "10.0", "2.50×", "1.25×", "timed", "in", "place"]
        );
        assert!(text.contains("no compiler") && text.contains("1 of 2 run on kernels of ours"), "{text}");
        assert!(text.contains("The model's first choice took 1.25 times"), "{text}");
    }
}
