//! Times a network's inference ahead of time, on our own handle and data (`ucudnn tune --rnn`). Programs recall the
//! result.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::choice;
use super::eligible::takes;
use super::forward::workspace_size;
use super::registry;
use super::sequences::{Sequences, data, refused};
use super::state::NOTHING_FITS;
use crate::inference::Inference;
use tuning::family::Time;
use tuning::turns::{self, Trial};

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
    if registry::state(&job.network.network, &shape).first_choice().is_none() {
        return Err(NOTHING_FITS.into());
    }
    let sequences = Sequences::new(device, job.network)?;
    let mode = CUDNN_FWD_MODE_INFERENCE;
    let mut sizes = sequences.sizes(&sequences.rnn, mode)?;
    // SAFETY: `sequences` owns the handle and the descriptors.
    let ours = unsafe { workspace_size(sequences.rnn.raw(), sequences.x.raw()) };
    sizes.workspace = sizes.workspace.max(ours);
    let buffers = sequences.buffers(sizes)?;
    let call = sequences.forward(mode, &buffers, (null_mut(), 0));
    // SAFETY: `sequences` and `buffers` own the call's handle, descriptors and memory, made for one network, and outlive
    // `running`.
    let running = unsafe { call.running() }?;
    let state = &running.state;
    let first = state.first_choice().map(ToString::to_string);
    if let Some(recalled) = state.recalled() {
        let chosen = choice::name(recalled.chosen.as_ref());
        return Ok(Found { chosen, first, step_times: recalled.step_times.clone() });
    }
    // One source is no candidate's, and cuDNN has none: as many sources as candidates.
    let mut sources = None;
    let candidates = state.candidates(|remaining| {
        let candidates = *sources.get_or_insert(remaining + 1);
        (job.progress)(remaining + turns::executions(candidates));
        job.goes_on()
    })?;
    let Job { stop, progress, .. } = *job;
    let trial = Trial { device, stream: sequences.stream.raw(), stop, progress };
    let times = trial.times(candidates.engines.len(), |index, turns| {
        // SAFETY: `running` holds a valid call. `sequences` and `buffers` own its memory and descriptors.
        let (ran, timed) = unsafe { running.measure(candidates.engines[index].as_deref()) };
        match ran {
            Ok(CUDNN_STATUS_SUCCESS) => turns.ran(index, running.case.data.steps, timed),
            Ok(status) => return Err(refused(status)),
            Err(_) => turns.failed(index),
        }
        Ok(())
    })?;
    state.found(&candidates, &times, "timed ahead of time");
    let chosen = candidates.fastest(&times);
    let chosen = choice::name(chosen.as_deref().map(super::kernels::Engine::configuration));
    Ok(Found { chosen, first, step_times: candidates.step_times(&times) })
}
