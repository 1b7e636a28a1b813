//! Batch normalization: reading the description of tensors, and showing results as a table.

use std::path::Path;

use gpu::Element;
use norm::shape::Planes;
use norm::subject::{Normalization, Pass};
use serde_json::{Value, json};
use tuning::family::{Time, times_json};

use crate::decisions::Fields;
use crate::quantity::{self, ratio};
use crate::table::{Side, Table};

/// The name of cuDNN in the database and in reports.
const CUDNN: &str = "cuDNN";

/// The result for one pass over a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The pass and the tensor, for people.
    pub norm: String,
    /// The text that identifies them.
    pub spec: String,
    /// cuDNN, or the name of our kernels.
    pub chosen: String,
    pub why: String,
    pub times: Vec<Time>,
}

impl Decision {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let [norm, spec, chosen, why] =
            ["norm", "spec", "chosen", "why"].map(|key| fields.text(key).map(str::to_owned));
        let times = fields.timings("times", "time_ms")?;
        Ok(Self { norm: norm?, spec: spec?, chosen: chosen?, why: why?, times })
    }

    pub fn to_json(&self) -> Value {
        let Self { norm, spec, chosen, why, times } = self;
        let times = times_json(times, "time_ms");
        json!({ "norm": norm, "spec": spec, "chosen": chosen, "why": why, "times": times })
    }

    /// Milliseconds.
    fn time(&self, what: &str) -> Option<f64> {
        self.times.iter().find(|known| known.what == what)?.time
    }
}

/// A heading, a table, and a summary.
pub fn text_of(decisions: &[Decision], width: usize) -> String {
    let mut table = Table::new(&[
        ("batch normalization", Side::Left),
        ("runs by", Side::Left),
        ("ms", Side::Right),
        ("cuDNN", Side::Right),
        ("ratio", Side::Right),
        ("why", Side::Left),
    ])
    .optional([5]);
    let digits = |time: Option<f64>| time.map_or_else(String::new, quantity::digits);
    for decision in decisions {
        let (time, cudnn) = (decision.time(&decision.chosen), decision.time(CUDNN));
        table.row(vec![
            decision.spec.clone(),
            decision.chosen.clone(),
            digits(time),
            digits(cudnn),
            cudnn.zip(time).map_or_else(String::new, |(cudnn, time)| ratio(cudnn, time)),
            decision.why.clone(),
        ]);
    }
    let ours = decisions.iter().filter(|decision| decision.chosen != CUDNN).count();
    let all = decisions.len();
    format!("Batch normalization\n\n{}\n{ours} of {all} run on kernels of ours.\n", table.lines(width))
}

/// Reads the value of `--norm`: a report, or a tensor in words, of which both passes are meant, in cuDNN's spatial mode.
pub fn read(text: &str) -> Result<Vec<Normalization>, String> {
    let is_tensor = |text: &str| text.split_whitespace().any(|word| word.split('x').all(is_number));
    if !Path::new(text).exists() && is_tensor(text) {
        let planes = planes(text)?;
        return Ok(Pass::ALL.map(|pass| Normalization { pass, is_persistent: false, planes }).to_vec());
    }
    let content = crate::text::read(Path::new(text))?;
    let mut subjects = Vec::new();
    for (number, line) in (1..).zip(content.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let read = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}")).and_then(|value| {
            let fields = Fields::of(&value)?;
            let is_norm = fields.text("event")? == "norm";
            is_norm.then(|| Normalization::from_spec(fields.text("spec")?)).transpose()
        });
        subjects.extend(read.map_err(|why| format!("{text}: line {number}: {why}"))?);
    }
    if subjects.is_empty() { Err(format!("{text}: no batch normalization is in it")) } else { Ok(subjects) }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A tensor such as `128x64x56x56 half`: images, channels, and the sizes of a plane.
fn planes(text: &str) -> Result<Planes, String> {
    let words: Vec<_> = text.split_whitespace().collect();
    let (dims, name) = match words[..] {
        [dims] => (dims, "float"),
        [dims, name] => (dims, name),
        _ => return Err(format!("{text:?}: sizes and a type are expected, as in 128x64x56x56 half")),
    };
    let element = Element::ALL.into_iter().find(|element| element.name() == name);
    let element =
        element.ok_or_else(|| format!("{text:?}: the type is {name:?}; float, half and bfloat16 are accepted"))?;
    let sizes: Result<Vec<usize>, _> = dims.split('x').map(str::parse).collect();
    let sizes = sizes.map_err(|error| format!("{text:?}: {dims:?}: {error}"))?;
    let [images, channels, ref plane @ ..] = sizes[..] else {
        return Err(format!("{text:?}: images and channels are expected at least"));
    };
    let plane = plane.iter().try_fold(1_usize, |plane, &size| plane.checked_mul(size));
    let plane = plane.ok_or_else(|| format!("{text:?}: it is too large"))?;
    Ok(Planes { element, images, channels, plane })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_in_words() {
        let planes = Planes { element: Element::Half, images: 2, channels: 64, plane: 60 };
        let both = Pass::ALL.map(|pass| Normalization { pass, is_persistent: false, planes }).to_vec();
        assert_eq!(read("2x64x3x4x5 half"), Ok(both));
        assert_eq!(read("2x64").unwrap()[0].planes, Planes { element: Element::Float, plane: 1, ..planes });
        for (text, why) in [
            ("2x64 int8", "the type is \"int8\""),
            ("2x64 half half", "sizes and a type are expected"),
            ("half 2x64", "the type is \"2x64\""),
            ("64", "images and channels"),
            ("2x99999999999999999999", "number too large"),
            ("1x1x9999999999x9999999999", "too large"),
            ("/no/such.jsonl", "/no/such.jsonl"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_table_says_what_was_chosen() {
        let time = |what: &str, time| Time { what: what.into(), time };
        let fields = json!({
            "norm": "batch normalization", "spec": "forward half", "chosen": "clusters of 2", "why": "timed in place",
            "times": [{ "what": CUDNN, "time_ms": 0.5 }, { "what": "clusters of 2", "time_ms": 0.2 }],
        });
        let timed = Decision::from_fields(&Fields::of(&fields).unwrap()).unwrap();
        assert_eq!(timed.times, [time(CUDNN, Some(0.5)), time("clusters of 2", Some(0.2))]);
        assert_eq!(timed.to_json(), fields);
        let refused = Decision { chosen: CUDNN.into(), why: "no compiler".into(), times: Vec::new(), ..timed.clone() };
        let text = text_of(&[timed, refused], usize::MAX);
        let row = text.lines().find(|line| line.starts_with("forward half")).unwrap();
        let words = ["forward", "half", "clusters", "of", "2", "0.200", "0.500", "2.50×", "timed", "in", "place"];
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), words);
        assert!(text.contains("no compiler") && text.contains("1 of 2 run on kernels of ours"), "{text}");
    }
}
