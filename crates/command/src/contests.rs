//! Results of contests between our kernels and what runs without us, and their tables: recurrent networks in inference and in training, and
//! batch and group normalization.

use serde_json::{Map, Value, json};
use tuning::family::{Time, times_json};

use crate::decisions::Fields;
use crate::part::Part;
use crate::quantity::{self, ratio};
use crate::table::{Side, Table};

/// Returns whether a report names cuDNN or a version of PyTorch, and not one of our kernels.
fn is_plain(name: &str) -> bool {
    name == tuning::contest::CUDNN || name.starts_with(norm::subject::PYTORCH)
}
/// The calls of a pass in training, as a report names them.
const CALLS: [&str; 3] = ["forward", "data", "weights"];

/// The kind of a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contested {
    Inference,
    Training,
    Norm,
    /// PyTorch's own depthwise convolutions.
    DepthwiseConvolution,
}

impl Contested {
    pub const ALL: [Self; 4] = [Self::Inference, Self::Training, Self::Norm, Self::DepthwiseConvolution];

    /// The kind that a report's event tells of.
    pub fn of_event(event: &str) -> Option<Self> {
        match event {
            "rnn" => Some(Self::Inference),
            "rnn-training" => Some(Self::Training),
            "norm" => Some(Self::Norm),
            "depthwise" => Some(Self::DepthwiseConvolution),
            _ => None,
        }
    }

    /// The field with the subject, for people.
    fn subject(self) -> &'static str {
        match self {
            Self::Inference | Self::Training => "rnn",
            Self::Norm => "norm",
            Self::DepthwiseConvolution => "depthwise",
        }
    }

    /// The field with milliseconds: of a time step, or of a pass.
    fn unit(self) -> &'static str {
        if self.is_whole() { "time_ms" } else { "step_ms" }
    }

    /// Whether its times are of whole calls, not of time steps.
    fn is_whole(self) -> bool {
        matches!(self, Self::Norm | Self::DepthwiseConvolution)
    }

    /// The fields that name what runs, and the headings of their columns.
    fn runs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Training => &[("forward", "forward by"), ("backward", "backward by")],
            Self::Inference | Self::Norm | Self::DepthwiseConvolution => &[("chosen", "runs by")],
        }
    }

    /// A time in the kind's table.
    fn time(self, time: Option<f64>) -> String {
        let shown = |time| quantity::digits(if self.is_whole() { time } else { 1e3 * time });
        time.map_or_else(String::new, shown)
    }
}

/// The result for one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    pub kind: Contested,
    /// The subject, for people.
    pub name: String,
    /// The text that identifies the subject.
    pub spec: String,
    /// The names of what runs it: cuDNN, PyTorch, or kernels of ours. Training has two, one forward and one backward.
    pub chosen: Vec<String>,
    pub why: String,
    /// The performance model's first choice, in inference.
    pub first: Option<String>,
    /// In training of each call, and empty where the program does not make it.
    pub times: Vec<Vec<Time>>,
}

impl Contest {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(kind: Contested, fields: &Fields) -> Result<Self, String> {
        let text = |field: &str| fields.text(field).map(str::to_owned);
        let name = text(kind.subject())?;
        let times = if kind == Contested::Training {
            let calls = Fields::of(fields.0.get("times").ok_or("times is missing")?)?;
            CALLS.iter().map(|call| calls.timings(call, kind.unit())).collect::<Result<_, _>>()?
        } else {
            vec![fields.timings("times", kind.unit())?]
        };
        Ok(Self {
            kind,
            spec: text("spec").unwrap_or_else(|_| name.clone()),
            name,
            chosen: kind.runs().iter().map(|(field, _)| text(field)).collect::<Result<_, _>>()?,
            why: text("why")?,
            first: fields.0.get("first").and_then(Value::as_str).map(str::to_owned),
            times,
        })
    }

    pub fn to_json(&self) -> Value {
        let times = |times: &Vec<Time>| Value::from(times_json(times, self.kind.unit()));
        let mut fields = json!({ self.kind.subject(): self.name, "spec": self.spec, "why": self.why });
        let runs = self.kind.runs().iter().zip(&self.chosen).map(|((field, _), chosen)| (*field, json!(chosen)));
        let more = match self.kind {
            Contested::Norm | Contested::DepthwiseConvolution => vec![("times", times(&self.times[0]))],
            Contested::Inference => vec![
                ("times", times(&self.times[0])),
                ("first", json!(self.first)),
                ("first_over_best", json!(self.first_over_best())),
            ],
            Contested::Training => {
                let calls: Map<_, _> =
                    CALLS.iter().zip(&self.times).map(|(call, its)| ((*call).to_owned(), times(its))).collect();
                let [step, plain] = [self.time(), self.plain_time()].map(|time| json!(time));
                vec![("times", calls.into()), ("step_ms", step), ("cudnn_step_ms", plain)]
            }
        };
        for (field, value) in runs.chain(more) {
            fields[field] = value;
        }
        fields
    }

    pub fn is_ours(&self) -> bool {
        !is_plain(&self.chosen[0])
    }

    /// Milliseconds by what runs: in training, by the fastest that was timed on that side.
    fn time(&self) -> Option<f64> {
        match self.kind {
            Contested::Training => self.fastest(self.is_ours()),
            Contested::Inference | Contested::Norm | Contested::DepthwiseConvolution => self.time_of(&self.chosen[0]),
        }
    }

    /// Milliseconds by cuDNN, or by PyTorch's own kernels.
    fn plain_time(&self) -> Option<f64> {
        self.fastest(false)
    }

    fn time_of(&self, what: &str) -> Option<f64> {
        self.times.iter().flatten().find(|known| known.what == what)?.time
    }

    /// The sum over all timed calls. Each counts with its fastest time, by our kernels or without them.
    fn fastest(&self, is_ours: bool) -> Option<f64> {
        let fastest = |times: &Vec<Time>| {
            let timed = times.iter().filter(|known| is_plain(&known.what) != is_ours).filter_map(|known| known.time);
            timed.min_by(f64::total_cmp)
        };
        let made = self.times.iter().filter(|times| !times.is_empty());
        let times: Vec<f64> = made.map(fastest).collect::<Option<_>>()?;
        (!times.is_empty()).then(|| times.iter().sum())
    }

    /// The time of the model's first choice, as a multiple of our fastest configuration's time.
    fn first_over_best(&self) -> Option<f64> {
        let best = self.fastest(true).filter(|best| *best > 0.0)?;
        Some(self.time_of(self.first.as_ref()?)? / best)
    }
}

/// The parts of all kinds that are there.
pub fn parts_of(contests: &[Contest]) -> Vec<Part> {
    let of_kind = |kind: Contested| contests.iter().filter(|contest| contest.kind == kind).collect::<Vec<_>>();
    let texts = Contested::ALL.into_iter().map(|kind| (kind, of_kind(kind))).filter(|(_, its)| !its.is_empty());
    texts.map(|(kind, its)| part_of(kind, &its)).collect()
}

/// A heading, a table, and a summary.
fn part_of(kind: Contested, contests: &[&Contest]) -> Part {
    let (subject, time) = match kind {
        Contested::Norm => ("normalization", "ms"),
        Contested::DepthwiseConvolution => ("depthwise convolution", "ms"),
        Contested::Inference | Contested::Training => ("network", "step µs"),
    };
    let mut columns = vec![(subject, Side::Left)];
    columns.extend(kind.runs().iter().map(|(_, heading)| (*heading, Side::Left)));
    let plain = if kind.is_whole() { "plain" } else { "cuDNN" };
    columns.extend([(time, Side::Right), (plain, Side::Right), ("ratio", Side::Right)]);
    let optional = columns.len();
    columns.extend((kind == Contested::Inference).then_some(("first choice", Side::Right)));
    columns.push(("why", Side::Left));
    let mut table = Table::new(&columns).optional(optional..columns.len());
    for contest in contests {
        let (time, plain) = (contest.time(), contest.plain_time());
        let mut row = vec![if kind.is_whole() { contest.spec.clone() } else { contest.name.clone() }];
        row.extend(contest.chosen.iter().cloned());
        row.extend([kind.time(time), kind.time(plain)]);
        row.push(plain.zip(time).map_or_else(String::new, |(plain, time)| ratio(plain, time)));
        let over = || contest.first_over_best().map_or_else(String::new, |over| format!("{over:.2}×"));
        row.extend((kind == Contested::Inference).then(over));
        row.push(contest.why.clone());
        table.row(row);
    }
    let (all, ours) = (contests.len(), contests.iter().filter(|contest| contest.is_ours()).count());
    let networks = quantity::counted(all, "recurrent network");
    let run = format!("\n{ours} of {all} run on kernels of ours.\n");
    let (heading, notes) = match kind {
        Contested::Inference => (networks, run + &first_choices(contests)),
        Contested::Training => (format!("{networks} in training, {ours} on kernels of ours"), String::new()),
        Contested::Norm => ("Normalization".into(), run),
        Contested::DepthwiseConvolution => ("PyTorch's own depthwise convolutions".into(), run),
    };
    Part { heading, table, notes }
}

/// The quality of the performance model's first choices, in a sentence.
fn first_choices(contests: &[&Contest]) -> String {
    let over: Vec<f64> = contests.iter().filter_map(|contest| contest.first_over_best()).collect();
    let Some(most) = over.iter().copied().max_by(f64::total_cmp) else { return String::new() };
    let mean = (over.iter().map(|over| over.ln()).sum::<f64>() / over.len() as f64).exp();
    format!(
        "The model's first choice took {mean:.2} times the time of the best configuration that was timed, at most \
         {most:.2} times.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::plain;

    fn read(kind: Contested, fields: &Value) -> Contest {
        Contest::from_fields(kind, &Fields::of(fields).unwrap()).unwrap()
    }

    fn words<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
        text.lines().find(|line| line.starts_with(first)).unwrap().split_whitespace().collect()
    }

    #[test]
    fn inference_says_how_good_the_first_choice_was() {
        let times = json!([
            { "what": tuning::contest::CUDNN, "step_ms": 0.01 }, { "what": "block u64", "step_ms": 0.005 },
            { "what": "grid u8", "step_ms": 0.004 }, { "what": "grid u4", "step_ms": null },
        ]);
        let fields = json!({
            "rnn": "LSTM 5→64", "spec": "a", "chosen": "grid u8", "why": "timed in place", "first": "block u64",
            "first_over_best": 1.25, "times": times,
        });
        let timed = read(Contested::Inference, &fields);
        assert_eq!(timed.to_json(), fields);
        let refused = read(
            Contested::Inference,
            &json!({ "rnn": "GRU 5→64", "chosen": tuning::contest::CUDNN, "why": "no compiler", "first": null, "times": [] }),
        );
        assert_eq!((refused.spec.as_str(), refused.first_over_best()), ("GRU 5→64", None));
        let [part] = &parts_of(&[timed, refused])[..] else { panic!("one kind") };
        let text = &plain(&part.text(usize::MAX));
        let row = ["LSTM", "5→64", "grid", "u8", "4.00", "10.0", "2.50×", "1.25×", "timed", "in", "place"];
        assert_eq!(words(text, "LSTM"), row);
        assert!(text.contains("no compiler") && text.contains("1 of 2 run on kernels of ours"), "{text}");
        assert!(text.contains("The model's first choice took 1.25 times"), "{text}");
    }

    #[test]
    fn training_adds_the_calls_up() {
        let times = json!({
            "forward": [{ "what": tuning::contest::CUDNN, "step_ms": 0.01 }, { "what": "grid u8", "step_ms": 0.004 }],
            "data": [{ "what": tuning::contest::CUDNN, "step_ms": 0.02 }, { "what": "step", "step_ms": 0.006 }],
            "weights": [],
        });
        let fields = json!({
            "rnn": "LSTM 5→64", "spec": "a", "forward": "grid u8", "backward": "step", "why": "timed in place",
            "times": times, "step_ms": 0.004 + 0.006, "cudnn_step_ms": 0.01 + 0.02,
        });
        let timed = read(Contested::Training, &fields);
        assert_eq!(timed.to_json(), fields);
        let [part] = &parts_of(&[timed])[..] else { panic!("one kind") };
        let text = &plain(&part.text(usize::MAX));
        let row = ["LSTM", "5→64", "grid", "u8", "step", "10.0", "30.0", "3.00×", "timed", "in", "place"];
        assert_eq!(words(text, "LSTM"), row);
        assert!(text.starts_with("1 recurrent network in training, 1 on kernels of ours"), "{text}");
    }

    #[test]
    fn a_norm_says_what_was_chosen() {
        let fields = json!({
            "norm": "batch normalization", "spec": "forward half", "chosen": "clusters of 2", "why": "timed in place",
            "times": [{ "what": tuning::contest::CUDNN, "time_ms": 0.5 }, { "what": "clusters of 2", "time_ms": 0.2 }],
        });
        let timed = read(Contested::Norm, &fields);
        assert_eq!(timed.to_json(), fields);
        let refused = Contest {
            chosen: vec![tuning::contest::CUDNN.into()],
            why: "no compiler".into(),
            times: vec![vec![]],
            ..timed.clone()
        };
        let [part] = &parts_of(&[timed, refused])[..] else { panic!("one kind") };
        let text = &plain(&part.text(usize::MAX));
        let row = ["forward", "half", "clusters", "of", "2", "0.200", "0.500", "2.50×", "timed", "in", "place"];
        assert_eq!(words(text, "forward half"), row);
        assert!(text.contains("no compiler") && text.contains("1 of 2 run on kernels of ours"), "{text}");
    }
}
