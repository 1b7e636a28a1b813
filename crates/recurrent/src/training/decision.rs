//! The decision about a network that trains: a line of the log, one of the report (`UCUDNN_REPORT`), and times for the
//! database.

use std::sync::Arc;

use serde_json::json;

use super::course::{Course, Key};
use super::recall::{self, Times};
use super::text;
use super::trial::{CALLS, Call, Seen, Trial, Verdict};
use crate::choice::CUDNN;
use crate::configuration::Configuration;
use crate::kernels::Engine;
use tuning::family::{Time, times_json};

/// The names of what runs a network's recurrences, forward and back.
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

/// Reports what runs a network's recurrences, forward and back.
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
        let times = contest.candidates.iter().zip(contest.times());
        let times = times.map(|(candidate, time)| Time { what: text::candidate(call, candidate), time });
        let failed = trial.failed.iter().filter(|(of, _)| *of == call);
        let failed = failed.map(|(_, name)| Time { what: name.clone(), time: None });
        if seen[call as usize] == 0 { Vec::new() } else { times.chain(failed).collect() }
    });
    recall::keep(course, &times);
    report(course, &trial.verdict(seen), "timed in place", &times);
}
