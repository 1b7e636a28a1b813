//! The report (`UCUDNN_REPORT`): one JSON object a line for each event; and the log lines for events of both APIs.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::subject::Subject;
use guest::report::write;
use planner::{Configuration, MicroConfiguration};

/// Adds an event's own values to the fields that identify the problem.
pub fn merged<K: Subject>(problem: &K, event: Value) -> Value {
    let mut line = problem.report();
    if let (Value::Object(line), Value::Object(event)) = (&mut line, event) {
        line.extend(event);
    }
    line
}

/// Reports that executions of a problem begin to try candidates within `limit` bytes. A later line reports the end:
/// [`chosen`] with event `ran`, or [`unchanged`].
pub fn exploring<K: Subject>(problem: &K, limit: usize) {
    log::debug!("{problem}: explored within {limit} bytes from now on");
    write(|| merged(problem, json!({ "event": "exploring", "limit": limit })));
}

/// Reports that exploring has ended: it was given up, or found nothing that runs within `limit` bytes.
pub fn unchanged<K: Subject>(problem: &K, limit: usize) {
    log::debug!("{problem}: nothing was found that runs within {limit} bytes");
    write(|| merged(problem, json!({ "event": "unchanged", "limit": limit })));
}

/// Reports a configuration that needs no trial, and so has no time; with its workspace, the limit
/// and plain cuDNN's workspace, in bytes.
pub fn at_once<K: Subject>(
    problem: &K,
    configuration: &Configuration<K::Algorithm>,
    (workspace, limit, plain): (usize, usize, usize),
) {
    log::info!("{problem}: {configuration} from the first execution on: it is one product");
    write(|| {
        let [x, w, y] = problem.dims();
        let parts: Vec<_> = configuration.parts().iter().map(part).collect();
        let event = json!({
            "event": "ran", "x": x, "w": w, "y": y, "limit": limit, "workspace": workspace,
            "division": configuration.to_string(), "parts": parts, "time_ms": 0.0,
            "undivided": null, "undivided_workspace": null, "undivided_ms": null, "plain_ms": null,
            "plain_workspace": plain,
        });
        merged(problem, event)
    });
}

/// A decision about one convolution problem.
pub struct Chosen<'a, K: Subject> {
    /// The cause: `asked` for a query's answer, `ran` for tuning while the program runs.
    pub event: &'static str,
    pub problem: &'a K,
    pub configuration: &'a Configuration<K::Algorithm>,
    /// The configuration's workspace and its limit, in bytes.
    pub workspace: usize,
    pub limit: usize,
    /// The configuration's time, in milliseconds.
    pub time: f64,
    /// The fastest undivided algorithm within the limit, with its time in milliseconds.
    pub undivided: Option<(MicroConfiguration<K::Algorithm>, f64)>,
    /// The milliseconds of what plain cuDNN runs, and its bytes of workspace, if they are known.
    pub plain: Option<f64>,
    pub plain_workspace: Option<usize>,
}

/// Reports the configuration that was chosen, why, and the time that it saves.
pub fn chosen<K: Subject>(chosen: &Chosen<K>) {
    let Chosen { event, problem, configuration, workspace, limit, time, undivided, plain, plain_workspace } = *chosen;
    let against = undivided.map_or(String::new(), |(micro, undivided)| {
        let ratio = undivided / time;
        format!("; undivided {} in {undivided:.3} ms, {ratio:.2} times that", Configuration::undivided(micro))
    });
    log::info!("{problem}: {configuration} in {time:.3} ms and {workspace} bytes of {limit}{against}");
    write(|| {
        let [x, w, y] = problem.dims();
        let parts: Vec<_> = configuration.parts().iter().map(part).collect();
        merged(
            problem,
            json!({
                "event": event, "x": x, "w": w, "y": y, "limit": limit, "workspace": workspace,
                "division": configuration.to_string(), "parts": parts, "time_ms": time,
                "undivided": undivided.map(|(micro, _)| micro.algorithm.to_string()),
                "undivided_workspace": undivided.map(|(micro, _)| micro.workspace),
                "undivided_ms": undivided.map(|(_, time)| time), "plain_ms": plain,
                "plain_workspace": plain_workspace,
            }),
        )
    });
}

/// Reports how far a plan's result was from the undivided convolution's result (`UCUDNN_CHECK=1`).
pub fn checked<K: Subject>(
    problem: &K,
    division: &Configuration<K::Algorithm>,
    error: &Result<f64, String>,
    tolerance: f64,
) {
    match error {
        Ok(error) if *error <= tolerance => log::debug!("{problem}: {division} is off by {error:.1e}"),
        Ok(error) => log::error!(
            "{problem}: {division} is off by {error:.1e} from the undivided convolution, more than {tolerance:.0e}"
        ),
        Err(why) => log::warn!("{problem}: not checked: {why}"),
    }
    write(|| {
        merged(
            problem,
            json!({
                "event": "checked", "division": division.to_string(), "tolerance": tolerance,
                "error": error.as_ref().ok(), "why_not": error.as_ref().err(),
            }),
        )
    });
}

/// One part of a division as a JSON object.
pub fn part<A: Display>((count, micro): &(usize, MicroConfiguration<A>)) -> Value {
    json!({
        "count": count, "batch": micro.batch, "algorithm": micro.algorithm.to_string(),
        "workspace": micro.workspace, "time_ms": micro.time,
    })
}
