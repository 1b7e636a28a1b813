//! Says what was chosen, why, and what it saves: a log line, and a line in the report if there is one.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::cudnn::algorithm::Algorithm;
use crate::cudnn::convolution::Direction;
use crate::exec::Plan;
use crate::plan::{Configuration, MicroConfiguration};
use crate::report::{merged, write};
use crate::tune::subject::Subject;

/// A decision about one kernel.
pub struct Chosen<'a> {
    /// What led to it: `asked` for a query's answer, `ran` for tuning while the program runs.
    pub event: &'static str,
    /// The limit in bytes.
    pub limit: usize,
    pub plan: &'a Plan,
    /// Milliseconds that it takes.
    pub time: f64,
    /// The fastest undivided algorithm within the limit, with its time in milliseconds.
    pub undivided: Option<(MicroConfiguration<Algorithm>, f64)>,
}

/// Reports a decision.
pub fn chosen(chosen: &Chosen) {
    let Chosen { event, limit, plan, time, undivided } = *chosen;
    let kernel = plan.kernel();
    let against = undivided.map_or(String::new(), |(micro, undivided)| {
        let ratio = undivided / time;
        format!("; undivided {} in {undivided:.3} ms, {ratio:.2} times that", Configuration::undivided(micro))
    });
    log::info!("{kernel}: {} in {time:.3} ms and {} bytes of {limit}{against}", plan.configuration(), plan.workspace(),);
    write(|| {
        let [x, w, y] = kernel.dims();
        let parts: Vec<_> = plan.configuration().parts().iter().map(part).collect();
        merged(
            kernel,
            json!({
                "event": event, "x": x, "w": w, "y": y, "limit": limit, "workspace": plan.workspace(),
                "division": plan.configuration().to_string(), "parts": parts, "time_ms": time,
                "undivided": undivided.map(|(micro, _)| micro.algorithm.to_string()),
                "undivided_workspace": undivided.map(|(micro, _)| micro.workspace),
                "undivided_ms": undivided.map(|(_, time)| time),
            }),
        )
    });
}

/// Reports how far a plan's result was from the undivided convolution's (`UCUDNN_CHECK=1`).
pub fn checked<K: Subject>(
    kernel: &K,
    division: &Configuration<K::Algorithm>,
    error: &Result<f64, String>,
    tolerance: f64,
) {
    match error {
        Ok(error) if *error <= tolerance => log::debug!("{kernel}: {division} is off by {error:.1e}"),
        Ok(error) => log::error!(
            "{kernel}: {division} is off by {error:.1e} from the undivided convolution, more than {tolerance:.0e}"
        ),
        Err(why) => log::warn!("{kernel}: not checked: {why}"),
    }
    write(|| {
        merged(
            kernel,
            json!({
                "event": "checked", "division": division.to_string(), "tolerance": tolerance,
                "error": error.as_ref().ok(), "why_not": error.as_ref().err(),
            }),
        )
    });
}

/// One part of a division.
pub fn part<A: Display>((count, micro): &(usize, MicroConfiguration<A>)) -> Value {
    json!({
        "count": count, "batch": micro.batch, "algorithm": micro.algorithm.to_string(),
        "workspace": micro.workspace, "time_ms": micro.time,
    })
}

/// A plan as text, for `ucudnnGetPlanDescription` and people.
pub fn describe(plan: &Plan, reported: usize) -> String {
    let kernel = plan.kernel();
    let what = match kernel.direction {
        Direction::Forward => "Forward",
        Direction::BackwardData => "BackwardData",
        Direction::BackwardFilter => "BackwardFilter",
    };
    format!(
        "{what}: {kernel}\ndivision: {}\nworkspace: {} bytes needed, {reported} reported\ntime: {:.3} ms predicted\n",
        plan.configuration(),
        plan.workspace(),
        plan.configuration().time(),
    )
}
