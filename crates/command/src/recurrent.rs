//! Recurrent networks in words, in JSON, and in a run's report.

use std::fmt;
use std::path::Path;

use recurrent::network::inference::Inference;
use serde_json::Value;

use crate::decisions::Fields;

/// A network to time.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub network: Inference,
    /// Its training, or else its inference.
    pub trains: bool,
}

/// For people.
impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { network, trains } = self;
        write!(f, "{network}{}", if *trains { ", training" } else { "" })
    }
}

/// Reads the value of `--rnn`: a file, or a description in words.
pub fn read(text: &str) -> Result<Vec<Described>, String> {
    let file = Path::new(text);
    if !text.contains('=') {
        let content = crate::text::read(file)?;
        let networks = parse(&content).map_err(|why| format!("{text}: {why}"))?;
        return if networks.is_empty() { Err(format!("{text}: no recurrent network is in it")) } else { Ok(networks) };
    }
    words(text.split_whitespace().map(str::to_owned).collect())
}

/// Reads a JSON array of networks, or one JSON object per line; lines about other subjects are skipped.
fn parse(text: &str) -> Result<Vec<Described>, String> {
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
fn of_json(value: &Value) -> Result<Vec<Described>, String> {
    let fields = Fields::of(value)?;
    let of_event = |trains| Ok(vec![Described { network: Inference::from_spec(fields.text("spec")?)?, trains }]);
    match fields.0.get("event").and_then(Value::as_str) {
        Some("rnn") => return of_event(false),
        Some("rnn-training") => return of_event(true),
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
const KEYS: [(&str, Option<&str>); 14] = [
    ("input", None),
    ("hidden", None),
    (PROJECTION, None),
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

/// The key that is in a network's text only if the network has a projection.
const PROJECTION: &str = "projection";

/// The key that is not of the network's text.
const TRAINING: &str = "training";

/// The networks that a cell and some keys describe, one for each batch in the list.
fn words(words: Vec<String>) -> Result<Vec<Described>, String> {
    let (mut cell, mut given): (Option<String>, Vec<(String, String)>) = (None, Vec::new());
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => {
                let keys: Vec<_> = KEYS.iter().map(|(key, _)| *key).chain([TRAINING]).collect();
                if !keys.contains(&key) {
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
            if key == PROJECTION && [None, value("hidden")].contains(&value(key)) {
                continue;
            }
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
    let trains = match value(TRAINING).unwrap_or("no") {
        "yes" => true,
        "no" => false,
        other => return Err(format!("{TRAINING} is {other:?}: it must be yes or no")),
    };
    let described = |batch: &str| Ok(Described { network: Inference::from_spec(&text(batch)?)?, trains });
    value("batch").unwrap_or("1").split(',').map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_objects_say_the_same() {
        let [one, ten] = [1, 10].map(|batch| {
            let text = "LSTM input=256 hidden=256 layers=2 directions=1 bias=double type=half math=default \
                        algorithm=standard layout=sequence-major padded=yes batch=1 steps=100 full=yes";
            Described { network: Inference { batch, ..Inference::from_spec(text).unwrap() }, trains: false }
        });
        let expected = Ok(vec![one.clone(), ten]);
        assert_eq!(read("LSTM hidden=256 layers=2 type=half steps=100 batch=1,10"), expected);
        let object = r#"{"cell":"LSTM","hidden":256,"layers":2,"type":"half","steps":100,"batch":[1,10]}"#;
        assert_eq!(parse(object), expected);
        assert_eq!(parse(&format!("[{object},\n{object}]")), expected);
        assert_eq!(parse(&format!("{object}\n{object}\n")), expected);
        let report = format!(
            "{{\"event\":\"asked\"}}\n{{\"event\":\"rnn\",\"spec\":\"{0}\"}}\n{{\"event\":\"kept\"}}\n\
             {{\"event\":\"rnn-training\",\"spec\":\"{0}\"}}\n",
            one.network.spec()
        );
        let training = Described { trains: true, ..one.clone() };
        assert_eq!(parse(&report), Ok(vec![one, training.clone()]));
        assert_eq!(read("LSTM hidden=256 layers=2 type=half steps=100 training=yes"), Ok(vec![training.clone()]));
        assert_eq!(parse(&object.replace("[1,10]", "1,\"training\":true")), Ok(vec![training.clone()]));
        assert_eq!(training.to_string(), format!("{}, training", training.network));
        let [projected] = &read("LSTM hidden=8 projection=3 steps=4").unwrap()[..] else { panic!() };
        assert_eq!((projected.network.network.hidden, projected.network.network.projection), (8, 3));
        assert_eq!(read("LSTM hidden=8 projection=8 steps=4"), read("LSTM hidden=8 steps=4"));
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
            ("LSTM hidden=5 projection=x steps=4", "projection is \"x\""),
            ("LSTM hidden=5 steps=4 type=int8", "type is \"int8\""),
            ("LSTM hidden=5 steps=4 training=maybe", "training is \"maybe\": it must be yes or no"),
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
}
