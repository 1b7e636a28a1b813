//! Nets of vertex functions, as reports have them.

use std::fmt::{self, Display, Formatter};

use dynamic::{Executor, Fours, Options, Warpgroups, Without};
use gpu::Element;
use serde_json::{Value, json};
use vertex::function::Net;

use crate::decisions::Fields;

/// A net that a run made on a device.
#[derive(Clone, Debug)]
pub struct VertexNet {
    /// Its sizes, for people.
    name: String,
    /// The canonical text.
    text: String,
    /// How it was made.
    pub options: Options,
    /// The executor.
    pub chosen: String,
    /// The text that identifies the net and how it was made.
    pub spec: String,
}

impl VertexNet {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let name = fields.text("type")?;
        let element = Element::ALL.into_iter().find(|element| element.name() == name);
        let options = Options {
            element: element.ok_or_else(|| format!("type is {name:?}; float, half and bfloat16 are accepted"))?,
            is_training: fields.flag("training"),
            tf32: fields.flag("tf32"),
            warpgroups: Warpgroups::Many,
            fours: Fours::Many,
            is_static: fields.flag("static"),
            without: Without::Nothing,
            executor: Executor::Auto,
        };
        let [name, text, chosen] = ["net", "text", "chosen"].map(|key| fields.text(key).map(str::to_owned));
        let mut net = Self { name: name?, text: text?, options, chosen: chosen?, spec: String::new() };
        net.spec = format!("{net}\n{}", net.text);
        Ok(net)
    }

    pub fn to_json(&self) -> Value {
        let Options { element, is_training, tf32, is_static, .. } = self.options;
        json!({
            "net": self.name, "type": element.name(), "tf32": tf32, "training": is_training, "static": is_static,
            "chosen": self.chosen, "text": self.text,
        })
    }

    /// Makes the net of the text.
    pub fn net(&self) -> Result<Net, String> {
        Net::new(self.text.parse()?).map_err(|why| why.to_string())
    }
}

impl Display for VertexNet {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Options { element, is_training, tf32, is_static, .. } = self.options;
        write!(to, "{}, {}", self.name, if tf32 { "TF32" } else { element.name() })?;
        for (is_so, word) in [(!is_training, "inference"), (is_static, "static")] {
            if is_so {
                write!(to, ", {word}")?;
            }
        }
        Ok(())
    }
}
