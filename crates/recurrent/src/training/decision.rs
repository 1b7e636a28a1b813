//! The decision about a network that trains: a line of the log, one of the report (`UCUDNN_REPORT`), and times for the
//! database.

use std::sync::Arc;

use serde_json::json;

use super::course::{Course, Key};
use super::recall::{self, Times};
use super::text;
use super::trial::{CALLS, Call, Candidate, Seen, Trial, Verdict};
use crate::choice::CUDNN;
use crate::configuration::Configuration;
use crate::kernels::Engine;
use tuning::family::{Time, times_json};

/// The times of a call's candidates, by name. Those that `failed` have none.
pub fn times<'a>(
    call: Call,
    candidates: &[Candidate<Arc<Engine>>],
    times: &[Option<f64>],
    failed: impl Iterator<Item = &'a String>,
) -> Vec<Time> {
    let timed = candidates.iter().zip(times);
    let timed = timed.map(|(candidate, &time)| Time { what: text::candidate(call, candidate), time });
    timed.chain(failed.map(|name| Time { what: name.clone(), time: None })).collect()
}

/// The name of the kernel or of cuDNN, which runs a network's recurrences: forward, and back.
pub fn chosen(is_ours: bool, configurations: [Option<&Configuration>; 2]) -> [String; 2] {
    [Call::Forward, Call::Data].map(|call| match is_ours {
        true => text::ours(call, configurations[call as usize]),
        false => CUDNN.to_owned(),
    })
}

/// Reports a decision of this process.
pub fn report(course: &Course, verdict: &Verdict<Arc<Engine>>, why: &str, times: &Times) {
    let configurations = verdict.kernels.each_ref().map(|kernel| kernel.as_deref().map(Engine::configuration));
    report_chosen(course, chosen(verdict.is_ours, configurations), why, times);
}

/// Reports a decision by the names of [`chosen`].
pub fn report_chosen(course: &Course, [forward, backward]: [String; 2], why: &str, times: &Times) {
    let Key { device, subject } = &course.key;
    log::info!("training of {subject}: forward {forward}, backward {backward}: {why}");
    guest::report::write(|| {
        let [forward_times, data, weights] = times.each_ref().map(|times| times_json(times, "step_ms"));
        json!({
            "event": "rnn-training", "rnn": subject.to_string(), "spec": subject.spec(), "device": device,
            "forward": forward, "backward": backward, "why": why,
            "times": { "forward": forward_times, "data": data, "weights": weights },
        })
    });
}

/// Reports and stores the outcome of a trial.
pub fn keep(course: &Course, trial: &Trial<Arc<Engine>>, seen: &Seen) {
    let times: Times = CALLS.map(|call| {
        let contest = &trial.contests()[call as usize];
        let failed = trial.failed.iter().filter(|(of, _)| *of == call).map(|(_, name)| name);
        match seen[call as usize] {
            0 => Vec::new(),
            _ => self::times(call, &contest.candidates, &contest.times(), failed),
        }
    });
    recall::keep(course, &times);
    report(course, &trial.verdict(seen), "timed in place", &times);
}
