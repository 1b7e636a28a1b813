//! Recurrent networks in training: results, and their table.

use serde_json::{Value, json};
use tuning::family::{Time, times_json};

use super::{CUDNN, STEP, microseconds};
use crate::decisions::Fields;
use crate::quantity::{self, ratio};
use crate::table::{Side, Table};

/// The calls of a pass, as a report names them.
const CALLS: [&str; 3] = ["forward", "data", "weights"];

/// The result for one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The network, for people.
    pub network: String,
    /// The text that identifies the network.
    pub spec: String,
    /// The configurations of the kernels that run its recurrences, `step`, or `cuDNN`.
    pub forward: String,
    pub backward: String,
    pub why: String,
    /// Of each call; empty where the program does not make it.
    pub times: [Vec<Time>; 3],
}

impl Decision {
    /// Reads a report's line. `Err` names the part that is wrong.
    pub fn from_fields(fields: &Fields) -> Result<Self, String> {
        let text = |name| fields.text(name).map(str::to_owned);
        let calls = Fields::of(fields.0.get("times").ok_or("times is missing")?)?;
        let [forward, data, weights] = CALLS.map(|call| calls.timings(call, STEP));
        Ok(Self {
            network: text("rnn")?,
            spec: text("spec")?,
            forward: text("forward")?,
            backward: text("backward")?,
            why: text("why")?,
            times: [forward?, data?, weights?],
        })
    }

    pub fn to_json(&self) -> Value {
        let Self { network, spec, forward, backward, why, times } = self;
        let times: serde_json::Map<_, _> =
            CALLS.iter().zip(times).map(|(&call, times)| (call.to_owned(), times_json(times, STEP).into())).collect();
        json!({
            "rnn": network, "spec": spec, "forward": forward, "backward": backward, "why": why, "times": times,
            "step_ms": self.time(self.is_ours()), "cudnn_step_ms": self.time(false),
        })
    }

    fn is_ours(&self) -> bool {
        self.forward != CUDNN
    }

    /// Milliseconds per time step: the sum of all calls that were timed, by cuDNN or by the fastest of ours.
    fn time(&self, is_ours: bool) -> Option<f64> {
        let fastest = |times: &&Vec<Time>| {
            let timed = times.iter().filter(|known| (known.what != CUDNN) == is_ours).filter_map(|known| known.time);
            timed.min_by(f64::total_cmp)
        };
        let made: Vec<_> = self.times.iter().filter(|times| !times.is_empty()).collect();
        let times: Option<Vec<f64>> = made.iter().map(fastest).collect();
        times.filter(|times| !times.is_empty()).map(|times| times.iter().sum())
    }
}

/// A heading, and a table of networks.
pub fn text_of(decisions: &[Decision], width: usize) -> String {
    let mut table = Table::new(&[
        ("network", Side::Left),
        ("forward by", Side::Left),
        ("backward by", Side::Left),
        ("step µs", Side::Right),
        ("cuDNN", Side::Right),
        ("ratio", Side::Right),
        ("why", Side::Left),
    ])
    .optional([6]);
    for decision in decisions {
        let (time, cudnn) = (decision.time(decision.is_ours()), decision.time(false));
        table.row(vec![
            decision.network.clone(),
            decision.forward.clone(),
            decision.backward.clone(),
            microseconds(time),
            microseconds(cudnn),
            cudnn.zip(time).map_or_else(String::new, |(cudnn, time)| ratio(cudnn, time)),
            decision.why.clone(),
        ]);
    }
    let networks = quantity::counted(decisions.len(), "recurrent network");
    let ours = decisions.iter().filter(|decision| decision.is_ours()).count();
    format!("{networks} in training, {ours} on kernels of ours\n\n{}", table.lines(width))
}
