//! Times a pass ahead of time, on our own handle and data (`ucudnn tune --norm`). Programs recall the result.

use std::sync::atomic::AtomicBool;

use cudnn_abi::CUDNN_STATUS_SUCCESS;

use super::calls;
use super::contestant::NormContestant;
use super::data::Data;
use super::eligible;
use super::shape::Cut;
use super::subject::Normalization;
use tuning::contest::ahead::Candidates;
use tuning::contest::recall::{self, Recalled};
use tuning::contest::trial::Candidate;
use tuning::contest::turns::{Started, Trial};
use tuning::contest::{Contestant, Times};
use tuning::family::Time;

/// A pass to time.
pub struct Job<'a> {
    pub subject: &'a Normalization,
    /// The device's number.
    pub device: i32,
    /// The most bytes of the device's memory that timing may take.
    pub bytes: usize,
    /// Setting this stops the timing soon after; nothing is stored then.
    pub stop: &'a AtomicBool,
    /// Called after each execution, with an upper bound of those that remain.
    pub progress: &'a dyn Fn(usize),
}

/// The result of a timing.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The faster one: our kernels' name, or `cuDNN`.
    pub chosen: String,
    /// The time of each.
    pub times: Vec<Time>,
}

/// Times cuDNN and our kernels, and stores the times. A pass that the database knows is not timed again. `Err` gives
/// the reason why there is nothing to time.
pub fn tune(job: &Job) -> Result<Found, String> {
    let device = cudnn::device();
    let _entered = device.enter(job.device).ok_or_else(|| format!("device {} is not there", job.device))?;
    let subject = job.subject;
    if subject.pass.row().kept > 0 {
        eligible::is_reduced(&subject.planes)?;
    }
    let contestant = NormContestant::new(job.device, subject);
    let candidates = Candidates::load(&contestant, 0)?;
    let found = |recalled: Recalled<Cut>| {
        let chosen = recalled.names(&contestant).swap_remove(0);
        Found { chosen, times: recalled.times.into_iter().next().unwrap_or_default() }
    };
    if let Some(recalled) = recall::of_database(&contestant) {
        return Ok(found(recalled));
    }
    let data = Data::new(device, subject, job.bytes)?;
    let Job { stop, progress, .. } = *job;
    let trial = Trial { device, stream: data.stream(), stop, progress };
    let times = trial.times(candidates.all.len(), |index, turns| {
        candidates
            .all
            .iter()
            .filter_map(Candidate::kernel)
            .for_each(|ours| contestant.before_timed(ours, trial.stream));
        let started = Started::start(device, trial.stream);
        // SAFETY: `data` and the kernels are made for the subject, and the stream is the handle's.
        let status = unsafe { calls::run(subject.pass, &data, candidates.all[index].kernel(), trial.stream) }?;
        if status != CUDNN_STATUS_SUCCESS {
            return Err(format!("cuDNN refuses it with status {status}"));
        }
        turns.ran(index, 1, started.and_then(|started| started.end(device, trial.stream)));
        Ok(())
    })?;
    let mut all = Times::default();
    all[0] = candidates.times(&contestant, &times);
    recall::keep(&contestant, &all);
    recall::of_times(&contestant, all).map(found).ok_or_else(|| "cuDNN's time is not known".into())
}
