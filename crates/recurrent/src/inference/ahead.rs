//! Times a network's inference ahead of time, on our own handle and data (`ucudnn tune --rnn`). Programs recall the
//! result.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use crate::configuration::Configuration;
use crate::inference::forward::workspace_size;
use crate::inference::registry;
use crate::kernels;
use crate::network::eligible::takes;
use crate::network::inference::Inference;
use crate::network::sequences::{Sequences, data, refused};
use tuning::contest::ahead::Candidates;
use tuning::contest::recall::{self, Recalled};
use tuning::contest::trial::Candidate;
use tuning::contest::turns::{self, Started, Trial};
use tuning::contest::{Contestant, Times};
use tuning::family::Time;

/// A network to time.
pub struct Job<'a> {
    /// The network and its batches: each sequence has `steps` time steps, or at most `steps` if the batch is not full.
    pub network: &'a Inference,
    /// The device's number.
    pub device: i32,
    /// Setting this stops the tuning soon after; nothing is stored then.
    pub stop: &'a AtomicBool,
    /// Called after each compilation and execution, with an upper bound of those that remain.
    pub progress: &'a dyn Fn(usize),
}

impl Job<'_> {
    /// `Err` once it was stopped.
    pub fn goes_on(&self) -> Result<(), String> {
        if self.stop.load(Ordering::Relaxed) { Err("it was stopped".into()) } else { Ok(()) }
    }
}

/// The result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The fastest: a configuration of our kernels, or `cuDNN`.
    pub chosen: String,
    /// The configuration that the performance model ranks first.
    pub first: Option<String>,
    /// The time of each candidate.
    pub step_times: Vec<Time>,
}

/// Times cuDNN and the `UCUDNN_RNN_TOP_K` configurations that the model ranks best, and stores the times. A network
/// that the database already knows is not timed again. `Err` gives the reason why the network cannot be timed.
pub fn tune(job: &Job) -> Result<Found, String> {
    let device = cudnn::device();
    let _entered = device.enter(job.device).ok_or_else(|| format!("device {} is not there", job.device))?;
    // These checks come before memory is allocated.
    let shape = data(job.network);
    takes(&job.network.network, &shape)?;
    let contest = registry::contest(&job.network.network, &shape);
    let contestant = &contest.contestant;
    let problem = contestant.problem().ok_or("nothing fits on the device")?;
    let sequences = Sequences::new(device, job.network)?;
    let mode = CUDNN_FWD_MODE_INFERENCE;
    let mut sizes = sequences.sizes(&sequences.rnn, mode)?;
    // SAFETY: `sequences` owns the handle and the descriptors.
    let ours = unsafe { workspace_size(sequences.rnn.raw(), sequences.x.raw()) };
    sizes.workspace = sizes.workspace.max(ours);
    let buffers = sequences.buffers(sizes)?;
    let call = sequences.forward(mode, &buffers, (null_mut(), 0));
    let running = call.running()?;
    let first = contestant.choices(0).first().map(ToString::to_string);
    let found = |recalled: Recalled<Configuration>| {
        let chosen = recalled.names(contestant).swap_remove(0);
        Found { chosen, first: first.clone(), step_times: recalled.times.into_iter().next().unwrap_or_default() }
    };
    if let Some(recalled) = contest.recall() {
        return Ok(found(recalled));
    }
    let configurations = contestant.choices(0);
    // cuDNN is a candidate too.
    let executions = turns::executions(configurations.len() + 1);
    let mut sources = kernels::sources(problem.element, &[(problem, configurations)]);
    sources.extend(contestant.projecting_sources());
    device.compile_all(&sources, |remaining| {
        (job.progress)(remaining + executions);
        job.goes_on()
    })?;
    let candidates = Candidates::load(contestant, 0)?;
    let Job { stop, progress, .. } = *job;
    let trial = Trial { device, stream: sequences.stream.raw(), stop, progress };
    let step_times = trial.times(candidates.all.len(), |index, turns| {
        let started = Started::start(device, trial.stream);
        let ran = match &candidates.all[index] {
            // SAFETY: the engine is a candidate of the contest.
            Candidate::Ours(Some(engine)) => unsafe { running.launch(engine) }.map(|()| CUDNN_STATUS_SUCCESS),
            _ => Ok(call.by_cudnn()),
        };
        let timed = started.and_then(|started| started.end(device, trial.stream));
        match ran {
            Ok(CUDNN_STATUS_SUCCESS) => turns.ran(index, running.case.data.steps, timed),
            Ok(status) => return Err(refused(status)),
            Err(_) => turns.failed(index),
        }
        Ok(())
    })?;
    let mut times = Times::default();
    times[0] = candidates.times(contestant, &step_times);
    recall::keep(contestant, &times);
    // The database may know of more candidates, among which programs choose.
    let recalled = contest.recall().or_else(|| recall::of_times(contestant, times));
    let found = recalled.map(found).ok_or("cuDNN's time is not known")?;
    let times = [found.step_times.clone(), Vec::new(), Vec::new()];
    contestant.decided(std::slice::from_ref(&found.chosen), "timed ahead of time", &times);
    Ok(found)
}
