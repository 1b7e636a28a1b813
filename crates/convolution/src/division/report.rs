//! Reports how a network's workspace is divided, and whether calls kept to their segments: a log line, and a line in
//! the report if there is one.

use std::ops::Range;

use serde_json::{Value, json};

use super::problem::{LayerConfiguration, LayerProblem};
use super::solved::{Segment, Solved};
use guest::report::write;

/// Adds the values of one object to another.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// Reports a kernel's desirable set, with times in milliseconds.
pub fn desirable(problem: &LayerProblem, set: &[(LayerConfiguration, f64)]) {
    write(|| {
        let each = |(configuration, time): &(LayerConfiguration, f64)| {
            with(configuration.report(), json!({ "workspace": configuration.workspace(), "time_ms": time }))
        };
        let set: Vec<_> = set.iter().map(each).collect();
        problem.report(json!({ "event": "desirable", "set": set }))
    });
}

/// Reports how a network's workspace is divided.
pub fn divided(solved: &Solved) {
    let Solved { total, one_stream, segments, fallback, time, equal_shares, proven, gap, took } = solved;
    let arena = solved.arena_bytes();
    let bound = if *proven { "the best".into() } else { format!("within {:.2}% of the best", 100.0 * gap) };
    log::info!(
        "Workspace Division: {} layers in {time:.3} ms and {arena} bytes of {total}, {bound}; equal shares of the \
         total would take {equal_shares:.3} ms; solved in {took:.1} ms",
        segments.len() + fallback.len()
    );
    write(|| {
        let segment = |(layer, Segment { problem, configuration, range, time, .. }): &(usize, Segment)| {
            let own = json!({ "layer": layer, "offset": range.start, "workspace": range.len(), "time_ms": time });
            problem.report(with(configuration.report(), own))
        };
        json!({
            "event": "divided", "total": total, "one_stream": one_stream, "arena": arena, "time_ms": time,
            "equal_shares_ms": equal_shares, "proven": proven, "gap": gap, "solve_ms": took,
            "layers": segments.iter().map(segment).collect::<Vec<_>>(),
            "ready": fallback.iter().map(LayerProblem::to_string).collect::<Vec<_>>(),
        })
    });
}

/// Reports whether a call kept to its segment of an arena (`UCUDNN_CHECK=1`).
pub fn kept(problem: &LayerProblem, segment: &Range<usize>, arena: usize, overwritten: Result<Option<usize>, ()>) {
    match overwritten {
        Ok(None) => log::debug!("{problem}: kept to bytes {segment:?} of an arena of {arena}"),
        Ok(Some(at)) => {
            log::error!("{problem}: overwrote byte {at} of an arena of {arena}; its segment is {segment:?}")
        }
        Err(()) => log::warn!("{problem}: the arena cannot be read; whether it kept to its segment is not known"),
    }
    write(|| {
        problem.report(json!({
            "event": "kept", "offset": segment.start, "workspace": segment.len(), "arena": arena,
            "overwritten": overwritten.ok().flatten(), "known": overwritten.is_ok(),
        }))
    });
}
