//! The decision about a network: a line of the log, and one of the report (`UCUDNN_REPORT`).

use serde_json::json;

use super::choice;
use super::configuration::Configuration;
use super::kernels::Engine;
use crate::inference::Inference;
use tuning::family::{Time, times_json};

/// A decision.
pub struct Decision<'a> {
    /// The device's number.
    pub device: i32,
    pub inference: &'a Inference,
    /// `None` stands for cuDNN.
    pub chosen: Option<&'a Engine>,
    /// The model's first choice.
    pub first: Option<&'a Configuration>,
    pub why: &'a str,
    pub times: &'a [Time],
}

/// Reports a decision.
pub fn decided(decision: &Decision) {
    let Decision { device, inference, chosen, first, why, times } = decision;
    let chosen = choice::name(chosen.map(Engine::configuration));
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
