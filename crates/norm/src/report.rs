//! The decision about a pass: a line of the log, and one of the report (`UCUDNN_REPORT`).

use serde_json::json;

use super::subject::Normalization;
use tuning::family::{Time, times_json};

/// Reports a decision. `device` is its number, `chosen` the name of the implementation.
pub fn decided(device: i32, subject: &Normalization, chosen: &str, why: &str, times: &[Time]) {
    log::info!("{subject}: {chosen}: {why}");
    guest::report::write(|| {
        json!({
            "event": "norm", "norm": subject.to_string(), "spec": subject.spec(), "device": device, "chosen": chosen,
            "why": why, "times": times_json(times, "time_ms"),
        })
    });
}
