//! Recurrent networks: reading the description of one, and showing results as a table.

use std::path::Path;

use recurrent::StepTime;
use recurrent::inference::Inference;
use serde_json::{Value, json};

use crate::decisions::Fields;
use crate::quantity::{self, ratio};
use crate::table::{Side, Table};

/// The name of cuDNN in the database and in reports.
const CUDNN: &str = "cuDNN";

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
    pub step_times: Vec<StepTime>,
}

impl Decision {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let times = fields.0.get("times").and_then(Value::as_array).ok_or("times is missing, or no list")?;
        let step_time = |value: &Value| {
            let fields = Fields::of(value)?;
            let time = fields.0.get("step_ms").filter(|time| !time.is_null()).map(|_| fields.time("step_ms"));
            Ok::<_, String>(StepTime { what: fields.text("what")?.to_owned(), time: time.transpose()? })
        };
        let network = fields.text("rnn")?.to_owned();
        Ok(Self {
            spec: fields.0.get("spec").and_then(Value::as_str).unwrap_or(&network).to_owned(),
            network,
            chosen: fields.text("chosen")?.to_owned(),
            why: fields.text("why")?.to_owned(),
            first: fields.0.get("first").and_then(Value::as_str).map(str::to_owned),
            step_times: times.iter().map(step_time).collect::<Result<_, _>>()?,
        })
    }

    pub fn to_json(&self) -> Value {
        let times = self.step_times.iter().map(|StepTime { what, time }| json!({ "what": what, "step_ms": time }));
        json!({
            "rnn": self.network, "spec": self.spec, "chosen": self.chosen, "why": self.why, "first": self.first,
            "times": times.collect::<Vec<_>>(), "first_over_best": self.first_over_best(),
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
    let digits = |time: Option<f64>| time.map_or_else(String::new, |time| quantity::digits(1e3 * time));
    for decision in decisions {
        let (time, cudnn) = (decision.time(&decision.chosen), decision.time(CUDNN));
        table.row(vec![
            decision.network.clone(),
            decision.chosen.clone(),
            digits(time),
            digits(cudnn),
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

/// A network that trains on our kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The network, for people.
    pub network: String,
    /// The text that identifies the network.
    pub spec: String,
    /// The configurations of the kernels that run its recurrences, `step`, or `cuDNN`.
    pub forward: String,
    pub backward: String,
}

impl Trained {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let [network, spec, forward, backward] =
            ["rnn", "spec", "forward", "backward"].map(|name| fields.text(name).map(str::to_owned));
        Ok(Self { network: network?, spec: spec?, forward: forward?, backward: backward? })
    }

    pub fn to_json(&self) -> Value {
        let Self { network, spec, forward, backward } = self;
        json!({ "rnn": network, "spec": spec, "forward": forward, "backward": backward })
    }
}

/// A heading, and a table of networks that train.
pub fn trained_text_of(networks: &[Trained], width: usize) -> String {
    let mut table = Table::new(&[("network", Side::Left), ("forward by", Side::Left), ("backward by", Side::Left)]);
    for Trained { network, forward, backward, .. } in networks {
        table.row(vec![network.clone(), forward.clone(), backward.clone()]);
    }
    let heading = quantity::counted(networks.len(), "recurrent network");
    let ours = networks.iter().filter(|network| network.forward != CUDNN).count();
    format!("{heading} trained, {ours} on kernels of ours\n\n{}", table.lines(width))
}

/// Reads the value of `--rnn`: a file, or a description in words.
pub fn read(text: &str) -> Result<Vec<Inference>, String> {
    let file = Path::new(text);
    if !text.contains('=') {
        let content = crate::text::read(file)?;
        let networks = parse(&content).map_err(|why| format!("{text}: {why}"))?;
        return if networks.is_empty() { Err(format!("{text}: no recurrent network is in it")) } else { Ok(networks) };
    }
    words(text.split_whitespace().map(str::to_owned).collect())
}

/// Reads a JSON array of networks, or one JSON object per line; lines about other subjects are skipped.
fn parse(text: &str) -> Result<Vec<Inference>, String> {
    let mut networks = Vec::new();
    let mut add = |value: &Value, at: &str| {
        let read = of_json(value).map_err(|why| format!("{at}: {why}"))?;
        for network in read {
            if !networks.contains(&network) {
                networks.push(network);
            }
        }
        Ok::<_, String>(())
    };
    match serde_json::from_str(text) {
        Ok(Value::Array(values)) => {
            for (number, value) in (1..).zip(&values) {
                add(value, &format!("network {number}"))?;
            }
        }
        Ok(value) => add(&value, "network 1")?,
        Err(_) => {
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
                let value = serde_json::from_str(line).map_err(|error| format!("line {number}: no JSON: {error}"))?;
                add(&value, &format!("line {number}"))?;
            }
        }
    }
    Ok(networks)
}

/// The networks of an object whose keys are those of a network's text. A report's line of another event has none.
fn of_json(value: &Value) -> Result<Vec<Inference>, String> {
    let fields = Fields::of(value)?;
    match fields.0.get("event").and_then(Value::as_str) {
        Some("rnn") => return Ok(vec![Inference::from_spec(fields.text("spec")?)?]),
        Some(_) => return Ok(Vec::new()),
        None => {}
    }
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(yes) => Ok(if *yes { "yes" } else { "no" }.to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("{other} is no text, number, true or false")),
    };
    let mut all = vec![fields.text("cell")?.to_owned()];
    for (key, value) in fields.0.iter().filter(|(key, _)| *key != "cell") {
        let value = match value {
            Value::Array(values) => values.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(","),
            value => text(value)?,
        };
        all.push(format!("{key}={value}"));
    }
    words(all)
}

/// The keys of a network's text, in order, with their defaults: PyTorch's own choices.
const KEYS: [(&str, Option<&str>); 13] = [
    ("input", None),
    ("hidden", None),
    ("layers", Some("1")),
    ("directions", Some("1")),
    ("bias", Some("double")),
    ("type", Some("float")),
    ("math", Some("default")),
    ("algorithm", Some("standard")),
    ("layout", Some("sequence-major")),
    ("padded", Some("yes")),
    ("batch", Some("1")),
    ("steps", None),
    ("full", Some("yes")),
];

/// The networks that a cell and some keys describe, one for each batch in the list.
fn words(words: Vec<String>) -> Result<Vec<Inference>, String> {
    let (mut cell, mut given): (Option<String>, Vec<(String, String)>) = (None, Vec::new());
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => {
                let known = KEYS.iter().any(|(known, _)| *known == key);
                if !known {
                    let keys: Vec<_> = KEYS.iter().map(|(key, _)| *key).collect();
                    return Err(format!("{key:?} is not known: a network has a cell and {}", keys.join(", ")));
                }
                if given.iter().any(|(other, _)| other == key) {
                    return Err(format!("{key} is given twice"));
                }
                given.push((key.to_owned(), value.to_owned()));
            }
            None if cell.is_none() => cell = Some(word),
            None => return Err(format!("key=value is expected where {word:?} stands")),
        }
    }
    let cell = cell.ok_or("the cell is missing: LSTM, GRU, tanh or ReLU")?;
    let value = |key: &str| given.iter().find(|(given, _)| given == key).map(|(_, value)| value.as_str());
    let text = |batch: &str| {
        let mut text = cell.clone();
        for (key, default) in KEYS {
            let value = match key {
                "batch" => Some(batch),
                // As wide as the states by default.
                "input" => value("input").or(value("hidden")),
                key => value(key).or(default),
            };
            let value = value.ok_or_else(|| format!("{key} is missing"))?;
            text += &format!(" {key}={value}");
        }
        Ok::<_, String>(text)
    };
    value("batch").unwrap_or("1").split(',').map(|batch| Inference::from_spec(&text(batch)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_objects_say_the_same() {
        let [one, ten] = [1, 10].map(|batch| {
            let text = "LSTM input=256 hidden=256 layers=2 directions=1 bias=double type=half math=default \
                        algorithm=standard layout=sequence-major padded=yes batch=1 steps=100 full=yes";
            Inference { batch, ..Inference::from_spec(text).unwrap() }
        });
        let expected = Ok(vec![one.clone(), ten]);
        assert_eq!(read("LSTM hidden=256 layers=2 type=half steps=100 batch=1,10"), expected);
        let object = r#"{"cell":"LSTM","hidden":256,"layers":2,"type":"half","steps":100,"batch":[1,10]}"#;
        assert_eq!(parse(object), expected);
        assert_eq!(parse(&format!("[{object},\n{object}]")), expected);
        assert_eq!(parse(&format!("{object}\n{object}\n")), expected);
        let report = format!(
            "{{\"event\":\"asked\"}}\n{{\"event\":\"rnn\",\"spec\":\"{}\"}}\n{{\"event\":\"kept\"}}\n",
            one.spec()
        );
        assert_eq!(parse(&report), Ok(vec![one]));
        let object = r#"{"cell":"GRU","hidden":8,"steps":4,"full":false,"padded":true}"#;
        assert_eq!(parse(object), read("GRU hidden=8 steps=4 full=no"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("hidden=5 steps=4", "the cell is missing"),
            ("LSTM hidden=5", "steps is missing"),
            ("LSTM steps=4", "input is missing"),
            ("LSTM hidden=5 steps=4 widht=3", "\"widht\" is not known"),
            ("LSTM hidden=5 steps=4 hidden=6", "hidden is given twice"),
            ("LSTM GRU hidden=5 steps=4", "where \"GRU\" stands"),
            ("LSTM hidden=5 steps=4 batch=1,,2", "batch is \"\""),
            ("LSTM hidden=5 steps=4 type=int8", "type is \"int8\""),
            ("/no/such.json", "/no/such.json"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        for (text, why) in [
            ("[{\"cell\":\"LSTM\",\"hidden\":5,\"steps\":{}}]", "network 1: {} is no text"),
            ("{\"cell\":\"LSTM\"}\n{", "line 1: "),
            ("{}", "cell is missing"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    fn step_time(what: &str, time: impl Into<Option<f64>>) -> StepTime {
        StepTime { what: what.into(), time: time.into() }
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
