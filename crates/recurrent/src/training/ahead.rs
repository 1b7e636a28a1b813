//! Times a network's training ahead of time, on our own handle and data (`ucudnn tune --rnn`). Programs recall the result.

use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudnn_abi::*;

use super::calls::{data_by_us, forward_by_us, weights_by_us};
use super::course::Course;
use super::data::DataCall;
use super::decision;
use super::pass::{Pass, TOO_LARGE};
use super::recall::{self, Recalled, Times};
use super::runner::Runner;
use super::text;
use super::trial::{CALLS, Call, Candidate};
use super::weights::WeightsCall;
use crate::ahead::Job;
use crate::call::Call as ForwardCall;
use crate::choice::CUDNN;
use crate::configuration::Configuration;
use crate::eligible::takes;
use crate::kernels::Engine;
use crate::memory::Memory;
use crate::sequences::{Sequences, Sizes, data, refused};
use crate::side_by_side;
use gpu::Buffer;
use tuning::family::Time;
use tuning::turns::{self, Started, Timed};

/// The result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What is fastest in all: the configurations of our kernels that run the recurrences, `step`, or `cuDNN`.
    pub forward: String,
    pub backward: String,
    /// The time of each candidate: of forward, the gradients of data and those of weights.
    pub times: Times,
}

impl From<Recalled> for Found {
    fn from(Recalled { is_ours, configurations, times, .. }: Recalled) -> Self {
        let [forward, backward] = decision::chosen(is_ours, configurations.each_ref().map(Option::as_ref));
        Self { forward, backward, times }
    }
}

/// The candidates of a call.
struct Contest {
    call: Call,
    candidates: Vec<Candidate<Arc<Engine>>>,
    /// The names of configurations that could not be loaded.
    failed: Vec<String>,
}

/// Times the three calls of a training pass by cuDNN, by the `UCUDNN_RNN_TOP_K` configurations that the model ranks best,
/// and by one launch a time step; stores the times. A network that the database already knows is not timed again. `Err`
/// gives the reason why the network cannot be timed.
pub fn tune(job: &Job) -> Result<Found, String> {
    let device = cudnn::device();
    let _entered = device.enter(job.device).ok_or_else(|| format!("device {} is not there", job.device))?;
    // This check comes before memory is allocated.
    takes(&job.network.network, &data(job.network))?;
    let sequences = Sequences::new(device, job.network)?;
    // SAFETY: `sequences` owns the handle and the descriptors.
    let pass = unsafe { Pass::of(sequences.handle.raw(), sequences.rnn.raw(), sequences.x.raw()) }?;
    let course = pass.course(true);
    let known = recall::of_database(&course).filter(|known| known.weighs == [true; 3]);
    if let Some(known) = known {
        return Ok(known.into());
    }
    let buffers = Buffers::new(&sequences, &pass)?;
    let contests = contests(&course, job)?;
    let timing = Timing { pass: &pass, course: &course, sequences: &sequences, buffers: &buffers, contests: &contests };
    let mut behind: usize = contests.iter().map(Contest::executions).sum();
    let mut times = Times::default();
    for (contest, times) in contests.iter().zip(&mut times) {
        behind -= contest.executions();
        let progress = |remaining| (job.progress)(behind + remaining);
        let trial = turns::Trial { device, stream: sequences.stream.raw(), stop: job.stop, progress: &progress };
        let found = trial.times(contest.candidates.len(), |index, turns| {
            turns.ran(index, pass.data.steps, timing.time(contest, &contest.candidates[index])?);
            Ok(())
        })?;
        *times = contest.step_times(&found);
    }
    recall::keep(&course, &times);
    let found = recall::of_times(&course, times).map(Found::from).ok_or("cuDNN's time is not known")?;
    decision::report_chosen(
        &course,
        [found.forward.clone(), found.backward.clone()],
        "timed ahead of time",
        &found.times,
    );
    Ok(found)
}

impl Contest {
    fn executions(&self) -> usize {
        turns::executions(self.candidates.len())
    }

    fn name(&self, candidate: &Candidate<Arc<Engine>>) -> String {
        match candidate {
            Candidate::Cudnn => CUDNN.to_owned(),
            Candidate::Ours(kernel) => text::candidate(self.call, kernel.as_deref().map(Engine::configuration)),
        }
    }

    fn step_times(&self, times: &[Option<f64>]) -> Vec<Time> {
        let timed = self.candidates.iter().zip(times);
        let timed = timed.map(|(candidate, &time)| Time { what: self.name(candidate), time });
        timed.chain(self.failed.iter().map(|what| Time { what: what.clone(), time: None })).collect()
    }
}

/// Compiles and loads the candidates of all calls.
fn contests(course: &Course, job: &Job) -> Result<[Contest; 3], String> {
    let mut wanted = vec![None];
    for (call, shape) in CALLS.into_iter().zip(&course.shapes) {
        wanted.extend(shape.configurations().iter().map(|&configuration| Some((call, configuration))));
    }
    // cuDNN and what needs no persistent kernel, for each call.
    let executions = turns::executions(wanted.len() - 1 + 2 * CALLS.len());
    let load = |wanted: &Option<(Call, Configuration)>| match *wanted {
        None => course.page.engine(&course.key.subject.network).map(|_| None).map_err(ToOwned::to_owned),
        Some((call, configuration)) => Engine::load(&course.shapes[call as usize].problem, configuration).map(Some),
    };
    let loaded = side_by_side::load(&wanted, load, |remaining| {
        (job.progress)(remaining + executions);
        if job.stop.load(Ordering::Relaxed) { Err("it was stopped") } else { Ok(()) }
    })?;
    let mut contests = CALLS.map(|call| Contest { call, candidates: vec![Candidate::Cudnn], failed: Vec::new() });
    for (wanted, loaded) in wanted.into_iter().zip(loaded) {
        match (wanted, loaded) {
            (Some((call, _)), Ok(Some(kernel))) => {
                contests[call as usize].candidates.push(Candidate::Ours(Some(kernel)));
            }
            (Some((call, configuration)), Err(why)) => {
                log::info!("training of {}: {why}", course.key.subject);
                contests[call as usize].failed.push(configuration.to_string());
            }
            (None, Err(why)) => return Err(why),
            (_, Ok(_)) => {}
        }
    }
    for contest in &mut contests {
        contest.candidates.push(Candidate::Ours(None));
    }
    Ok(contests)
}

/// The memory of a training pass.
struct Buffers {
    x: Buffer,
    dx: Buffer,
    y: Buffer,
    dy: Buffer,
    weights: Buffer,
    dweights: Buffer,
    workspace: Buffer,
    reserve: Buffer,
    /// As cuDNN tells them, with a workspace for our kernels too.
    sizes: Sizes,
    /// The size of a reserve of ours.
    our_reserve: usize,
}

impl Buffers {
    fn new(sequences: &Sequences, pass: &Pass) -> Result<Self, String> {
        let mut sizes = sequences.sizes(CUDNN_FWD_MODE_TRAINING)?;
        sizes.workspace = sizes.workspace.max(pass.workspace_bytes);
        let our_reserve = pass.layout.our_size(sizes.reserve).ok_or(TOO_LARGE)?;
        Ok(Self {
            x: sequences.buffer(sequences.x_bytes)?,
            dx: sequences.buffer(sequences.x_bytes)?,
            y: sequences.buffer(sequences.y_bytes)?,
            dy: sequences.buffer(sequences.y_bytes)?,
            weights: sequences.buffer(sizes.weights)?,
            dweights: sequences.buffer(sizes.weights)?,
            workspace: sequences.buffer(sizes.workspace)?,
            reserve: sequences.buffer(our_reserve.max(sizes.reserve))?,
            sizes,
            our_reserve,
        })
    }
}

/// A network's passes, in which candidates are timed.
struct Timing<'a> {
    pass: &'a Pass,
    course: &'a Course,
    sequences: &'a Sequences,
    buffers: &'a Buffers,
    contests: &'a [Contest; 3],
}

impl Timing<'_> {
    /// Times a candidate of a contest, behind the pass's earlier calls on the same side. `Err` says why the network cannot
    /// be timed.
    fn time(&self, contest: &Contest, candidate: &Candidate<Arc<Engine>>) -> Result<Option<Timed>, String> {
        for earlier in &self.contests[..contest.call as usize] {
            // cuDNN is the first candidate, and ours come in the model's order.
            let side = usize::from(matches!(candidate, Candidate::Ours(_)));
            self.run(earlier, &earlier.candidates[side])?;
        }
        let (device, stream) = (cudnn::device(), self.sequences.stream.raw());
        let started = Started::start(device, stream);
        self.run(contest, candidate)?;
        Ok(started.and_then(|started| started.end(device, stream)))
    }

    /// Runs a call by a candidate.
    fn run(&self, contest: &Contest, candidate: &Candidate<Arc<Engine>>) -> Result<(), String> {
        let Self { pass, course, buffers, .. } = *self;
        // SAFETY: `sequences` and `buffers` own what the calls name, made for one network.
        let status = unsafe {
            match candidate {
                Candidate::Cudnn => {
                    let reserve_size = buffers.sizes.reserve;
                    match contest.call {
                        Call::Forward => self.forward(reserve_size).run_as_asked(),
                        Call::Data => self.data(reserve_size).run_as_asked(),
                        Call::Weights => self.weights(reserve_size).run_as_asked(),
                    }
                }
                Candidate::Ours(kernel) => {
                    let reserve_size = buffers.our_reserve;
                    let runner = Runner { course, kernel: kernel.as_deref() };
                    let ran = match contest.call {
                        Call::Forward => forward_by_us(pass, &self.forward(reserve_size), &runner),
                        Call::Data => data_by_us(pass, &self.data(reserve_size), &runner),
                        Call::Weights => weights_by_us(pass, &self.weights(reserve_size)),
                    };
                    ran.map_err(|why| why.to_string())?;
                    CUDNN_STATUS_SUCCESS
                }
            }
        };
        if course.has_given_up() {
            return Err(format!("{} cannot be launched", contest.name(candidate)));
        }
        if status == CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(refused(status)) }
    }

    fn forward(&self, reserve_size: usize) -> ForwardCall {
        let Self { sequences, buffers, .. } = *self;
        ForwardCall {
            handle: sequences.handle.raw(),
            descriptor: sequences.rnn.raw(),
            mode: CUDNN_FWD_MODE_TRAINING,
            device_lengths: null(),
            x_descriptor: sequences.x.raw(),
            y_descriptor: sequences.y.raw(),
            h_descriptor: sequences.state.raw(),
            c_descriptor: sequences.state.raw(),
            memory: Memory {
                x: buffers.x.data(),
                y: buffers.y.data(),
                hx: null(),
                hy: null_mut(),
                cx: null(),
                cy: null_mut(),
                weight_space: buffers.weights.data(),
                weight_space_size: buffers.sizes.weights,
                workspace: buffers.workspace.data(),
                workspace_size: buffers.sizes.workspace,
            },
            reserve_size,
            reserve: buffers.reserve.data(),
        }
    }

    fn data(&self, reserve_size: usize) -> DataCall {
        let Self { sequences, buffers, .. } = *self;
        DataCall {
            handle: sequences.handle.raw(),
            descriptor: sequences.rnn.raw(),
            device_lengths: null(),
            y_descriptor: sequences.y.raw(),
            y: buffers.y.data(),
            dy: buffers.dy.data(),
            x_descriptor: sequences.x.raw(),
            dx: buffers.dx.data(),
            h_descriptor: sequences.state.raw(),
            hx: null(),
            dhy: null(),
            dhx: null_mut(),
            c_descriptor: sequences.state.raw(),
            cx: null(),
            dcy: null(),
            dcx: null_mut(),
            weight_space_size: buffers.sizes.weights,
            weight_space: buffers.weights.data(),
            workspace_size: buffers.sizes.workspace,
            workspace: buffers.workspace.data(),
            reserve_size,
            reserve: buffers.reserve.data(),
        }
    }

    fn weights(&self, reserve_size: usize) -> WeightsCall {
        let Self { sequences, buffers, .. } = *self;
        WeightsCall {
            handle: sequences.handle.raw(),
            descriptor: sequences.rnn.raw(),
            mode: CUDNN_WGRAD_MODE_ADD,
            device_lengths: null(),
            x_descriptor: sequences.x.raw(),
            x: buffers.x.data(),
            h_descriptor: sequences.state.raw(),
            hx: null(),
            y_descriptor: sequences.y.raw(),
            y: buffers.y.data(),
            weight_space_size: buffers.sizes.weights,
            dweights: buffers.dweights.data(),
            workspace_size: buffers.sizes.workspace,
            workspace: buffers.workspace.data(),
            reserve_size,
            reserve: buffers.reserve.data(),
        }
    }
}
