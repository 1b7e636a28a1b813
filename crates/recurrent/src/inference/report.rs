//! The decision about a network: a line of the log, and one of the report (`UCUDNN_REPORT`).

use serde_json::json;

use crate::configuration::Configuration;
use crate::network::inference::Inference;
use tuning::family::{Time, times_json};

/// Reports a decision: the name of the chosen engine, and the model's first choice.
pub fn decided(
    device: i32,
    inference: &Inference,
    (chosen, first): (&str, Option<&Configuration>),
    why: &str,
    times: &[Time],
) {
    log::info!("{inference}: {chosen}: {why}");
    guest::report::write(|| {
        let Inference { network, layout, batch, steps, is_full } = inference;
        json!({
            "event": "rnn", "rnn": inference.to_string(), "spec": inference.spec(), "device": device,
            "cell": inference.cell(), "type": inference.data_type(), "input": network.input, "hidden": network.hidden,
            "layers": network.layers, "directions": network.directions(), "layout": layout, "batch": batch,
            "steps": steps, "full": is_full, "chosen": chosen, "why": why, "first": first.map(ToString::to_string),
            "times": times_json(times, "step_ms"),
        })
    });
}
