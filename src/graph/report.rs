//! Says what was chosen for an operation graph, and what it saves: a log line, and a line in the report if there is one.

use serde_json::json;

use super::plan::Plan;
use crate::cudnn::graph::EngineConfiguration;
use crate::legacy::report::part;
use crate::plan::{Configuration, MicroConfiguration};
use crate::report::{merged, write};

/// Tuning has ended: `time` is the plan's milliseconds, `undivided` the fastest undivided configuration within the limit
/// with its own.
pub fn chosen(plan: &Plan, limit: usize, time: f64, undivided: Option<(MicroConfiguration<EngineConfiguration>, f64)>) {
    let kernel = plan.kernel();
    let against = undivided.map_or(String::new(), |(micro, undivided)| {
        let ratio = undivided / time;
        format!("; undivided {} in {undivided:.3} ms, {ratio:.2} times that", Configuration::undivided(micro))
    });
    log::info!("{kernel}: {} in {time:.3} ms and {} bytes of {limit}{against}", plan.configuration(), plan.workspace());
    write(|| {
        let parts: Vec<_> = plan.configuration().parts().iter().map(part).collect();
        merged(
            kernel,
            json!({
                "event": "ran", "limit": limit, "workspace": plan.workspace(),
                "division": plan.configuration().to_string(), "parts": parts, "time_ms": time,
                "undivided": undivided.map(|(micro, _)| micro.algorithm.to_string()),
                "undivided_workspace": undivided.map(|(micro, _)| micro.workspace),
                "undivided_ms": undivided.map(|(_, time)| time),
            }),
        )
    });
}
