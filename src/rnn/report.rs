//! What was decided about a network: a line of the log, and one of the report (`UCUDNN_REPORT`).

use std::fmt;

use cudnn_abi::*;
use serde_json::json;

use super::kernels::Engine;
use super::page::{Key, Timed};
use crate::report;

/// A decision.
pub struct Decision<'a> {
    pub key: &'a Key,
    /// cuDNN where there is none.
    pub chosen: Option<&'a Engine>,
    pub why: &'a str,
    pub times: &'a [Timed],
}

/// Reports a decision.
pub fn decided(decision: &Decision) {
    let Decision { key, chosen, why, times } = decision;
    let name = chosen.map_or("cuDNN".to_owned(), |engine| engine.configuration().to_string());
    log::info!("{key}: {name}: {why}");
    report::write(|| {
        let Key { device, network, layout, batch, steps, is_full } = key;
        let times: Vec<_> = times.iter().map(|(name, time)| json!({ "what": name, "step_ms": time })).collect();
        json!({
            "event": "rnn", "rnn": key.to_string(), "device": device, "cell": cell(network.cell),
            "type": data_type(network.data_type), "input": network.input, "hidden": network.hidden,
            "layers": network.layers, "directions": network.directions(), "layout": layout, "batch": batch,
            "steps": steps, "full": is_full, "chosen": name, "why": why, "times": times,
        })
    });
}

impl fmt::Display for Key {
    /// Such as `LSTM 5→64 ×2 layers, float, batch 4, up to 128 steps`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { network, batch, steps, .. } = self;
        let directions = if network.directions() > 1 { ", both directions" } else { "" };
        let (cell, data_type) = (cell(network.cell), data_type(network.data_type));
        let (input, hidden, layers) = (network.input, network.hidden, network.layers);
        write!(f, "{cell} {input}→{hidden} ×{layers}{directions}, {data_type}, batch {batch}, up to {steps} steps")
    }
}

fn cell(cell: cudnnRNNMode_t) -> &'static str {
    match cell {
        CUDNN_RNN_RELU => "ReLU",
        CUDNN_RNN_TANH => "tanh",
        CUDNN_GRU => "GRU",
        _ => "LSTM",
    }
}

fn data_type(data_type: cudnnDataType_t) -> &'static str {
    match data_type {
        CUDNN_DATA_HALF => "half",
        CUDNN_DATA_BFLOAT16 => "bfloat16",
        _ => "float",
    }
}
