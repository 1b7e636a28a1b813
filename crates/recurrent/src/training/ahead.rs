//! Times a network's training ahead of time, on our own handle and data (`ucudnn tune --rnn`). Programs recall the result.

use std::ptr::{null, null_mut};
use std::sync::Arc;

use cudnn_abi::*;

use super::calls::{data_by_us, forward_by_us, weights_by_us};
use super::contestant::TrainingContestant;
use super::course;
use crate::configuration::Configuration;
use crate::inference::ahead::Job;
use crate::kernels::{self, Engine};
use crate::network::call::Call as ForwardCall;
use crate::network::eligible::takes;
use crate::network::sequences::{Buffers, Sequences, data, refused};
use crate::network::subject::{CALLS, Call};

use crate::training::compute::known::KnownNetwork;
use crate::training::compute::pass::Pass;
use crate::training::compute::runner::{NotRun, Outcome, Runner};

use cudnn::arguments::{Promised, RnnBackwardData, RnnBackwardWeights};
use cudnn::owned::OwnedRnn;
use cudnn::rnn::Network;
use gpu::Buffer;
use gpu::background::compiling;
use tuning::contest::ahead::Candidates;
use tuning::contest::recall::{self, Recalled};
use tuning::contest::trial::{self, Candidate};
use tuning::contest::turns::{self, Started, Timed};
use tuning::contest::{Contestant, Times};

/// The result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The names of the fastest for the recurrences: a configuration of our kernels, `step`, or `cuDNN`.
    pub forward: String,
    pub backward: String,
    /// The time of each candidate: of forward, the gradients of data and those of weights.
    pub times: Times,
}

impl Found {
    fn of(contestant: &TrainingContestant, recalled: Recalled<Configuration>) -> Self {
        let mut names = recalled.names(contestant).into_iter();
        let [forward, backward] = [names.next(), names.next()].map(Option::unwrap_or_default);
        Self { forward, backward, times: recalled.times }
    }
}

/// Times the three calls of a training pass by cuDNN, by the `UCUDNN_RNN_TOP_K` configurations that the model ranks best
/// forward and as many back, and by one launch a time step; stores the times. A network that the database already knows is
/// not timed again. `Err` gives the reason why the network cannot be timed.
pub fn tune(job: &Job) -> Result<Found, String> {
    let device = cudnn::device();
    let _entered = device.enter(job.device).ok_or_else(|| format!("device {} is not there", job.device))?;
    // This check comes before memory is allocated.
    takes(&job.network.network, &data(job.network))?;
    let sequences = Sequences::new(device, job.network)?;
    let back = OwnedRnn::new(&sequences.handle, &going_back(&job.network.network)).map_err(refused)?;
    // SAFETY: `sequences` owns the handle and the descriptors.
    let pass = unsafe { Pass::of(sequences.handle.raw(), sequences.rnn.raw(), sequences.x.raw()) }?;
    let contest = course::of(&pass, true);
    let contestant = &contest.contestant;
    if let Some(known) = contest.recall().filter(|known| known.weighs == [true; 3]) {
        return Ok(Found::of(contestant, known));
    }
    let memory = Memory::new(&sequences, &back, &pass)?;
    let all = candidates(contestant, job)?;
    let mut timing = Timing { pass: &pass, sequences: &sequences, back: &back, memory: &memory, earlier: Vec::new() };
    let mut left: usize = all.iter().map(|candidates| turns::executions(candidates.all.len())).sum();
    let mut times = Times::default();
    for ((candidates, times), call) in all.iter().zip(&mut times).zip(CALLS) {
        left -= turns::executions(candidates.all.len());
        let progress = |remaining| (job.progress)(left + remaining);
        let trial = turns::Trial { device, stream: sequences.stream.raw(), stop: job.stop, progress: &progress };
        let found = trial.times(candidates.all.len(), |index, turns| {
            match timing.time(call, &candidates.all[index]) {
                Ok(timed) => turns.ran(index, pass.data.steps, timed),
                Err(Failure::Kernel(why)) => {
                    log::info!("{contestant}: a candidate failed: {why}");
                    turns.failed(index);
                }
                Err(Failure::Network(why)) => return Err(why),
            }
            Ok(())
        })?;
        timing.earlier.push((call, fastest(candidates, &found)));
        *times = candidates.times(contestant, &found);
    }
    recall::keep(contestant, &times);
    // The database may know of more candidates, among which programs choose.
    let recalled = contest.recall().or_else(|| recall::of_times(contestant, times));
    let found = Found::of(contestant, recalled.ok_or("cuDNN's time is not known")?);
    contestant.decided(&[found.forward.clone(), found.backward.clone()], "timed ahead of time", &found.times);
    Ok(found)
}

/// The network as PyTorch mostly asks for it in backward (`get_algo` in RNN.cpp): the algorithm for small states takes
/// fewer units there than in forward.
fn going_back(network: &Network) -> Network {
    let most = if matches!(network.cell, CUDNN_RNN_TANH | CUDNN_RNN_RELU) { 256 } else { 128 };
    let is_too_large = network.algorithm == CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H && network.hidden > most;
    Network { algorithm: if is_too_large { CUDNN_RNN_ALGO_STANDARD } else { network.algorithm }, ..*network }
}

/// Our fastest candidate, or one launch a time step if none has a time.
fn fastest(candidates: &Candidates<TrainingContestant>, times: &[Option<f64>]) -> Candidate<Arc<Engine>> {
    let fastest = trial::fastest(&candidates.all, times, true);
    fastest.map_or(Candidate::Ours(None), |(index, _)| candidates.all[index].clone())
}

/// Compiles and loads the candidates of all calls.
fn candidates(contestant: &TrainingContestant, job: &Job) -> Result<Vec<Candidates<TrainingContestant>>, String> {
    let [forward, back] = contestant.shapes.each_ref().map(|shape| (&shape.problem, shape.configurations()));
    let mut sources = kernels::sources(forward.0.element, &[forward, back]);
    sources.extend(KnownNetwork::sources(&contestant.key.subject.network)?);
    // Each call has two more candidates: cuDNN, and our side without a persistent kernel.
    let executions = turns::executions(forward.1.len() + back.1.len() + 2 * CALLS.len());
    cudnn::device().compile_all(&sources, |remaining| {
        (job.progress)(remaining + executions);
        job.goes_on()
    })?;
    compiling::now(|| contestant.load_others())?;
    CALLS.map(|call| Candidates::load(contestant, call as usize)).into_iter().collect()
}

/// The memory of a training pass.
struct Memory {
    /// With a workspace for backward and for our kernels too.
    forward: Buffers,
    dx: Buffer,
    dy: Buffer,
    dweights: Buffer,
    reserve: Buffer,
}

impl Memory {
    fn new(sequences: &Sequences, back: &OwnedRnn, pass: &Pass) -> Result<Self, String> {
        let mut sizes = sequences.sizes(&sequences.rnn, CUDNN_FWD_MODE_TRAINING)?;
        let workspace = sequences.sizes(back, CUDNN_FWD_MODE_TRAINING)?.workspace;
        sizes.workspace = sizes.workspace.max(workspace).max(pass.workspace_bytes);
        sizes.reserve = sizes.reserve.max(pass.layout.bytes());
        Ok(Self {
            forward: sequences.buffers(sizes)?,
            dx: sequences.buffer(sequences.x_bytes)?,
            dy: sequences.filled(sequences.y_bytes)?,
            dweights: sequences.filled(sizes.weights)?,
            reserve: sequences.buffer(sizes.reserve)?,
        })
    }
}

/// A network's passes, in which candidates are timed.
struct Timing<'a> {
    pass: &'a Pass,
    sequences: &'a Sequences,
    /// cuDNN's descriptor for backward.
    back: &'a OwnedRnn,
    memory: &'a Memory,
    /// The calls that were timed, each with our candidate that runs it.
    earlier: Vec<(Call, Candidate<Arc<Engine>>)>,
}

/// Why a candidate was not timed.
enum Failure {
    /// Its kernel cannot be launched.
    Kernel(String),
    /// Nothing can be timed of the network.
    Network(String),
}

impl Timing<'_> {
    /// Times a candidate of a call, after the pass's earlier calls on the same side.
    fn time(&self, call: Call, candidate: &Candidate<Arc<Engine>>) -> Result<Option<Timed>, Failure> {
        for (earlier, ours) in &self.earlier {
            let its = if candidate.is_ours() { ours } else { candidate };
            match self.run(*earlier, its) {
                // One launch a time step has taken the kernel's place.
                Ok(()) | Err(Failure::Kernel(_)) => {}
                network => network?,
            }
        }
        let (device, stream) = (cudnn::device(), self.sequences.stream.raw());
        // Each call begins on an idle device. After queued work its launches would cost nothing, and longer work would
        // hide more of them.
        if !device.synchronize(stream) {
            return Err(Failure::Network("the device failed".into()));
        }
        let started = Started::start(device, stream);
        self.run(call, candidate)?;
        Ok(started.and_then(|started| started.end(device, stream)))
    }

    /// Runs a call by a candidate.
    fn run(&self, call: Call, candidate: &Candidate<Arc<Engine>>) -> Result<(), Failure> {
        let pass = self.pass;
        match candidate {
            Candidate::Cudnn => {
                let status = match call {
                    Call::Forward => self.forward().by_cudnn(),
                    Call::Data => self.data().by_cudnn(),
                    Call::Weights => self.weights().by_cudnn(),
                };
                if status == CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(Failure::Network(refused(status))) }
            }
            Candidate::Ours(kernel) => {
                let outcome = Outcome::default();
                let runner = Runner { kernel: kernel.as_deref(), outcome: &outcome };
                let ran = match call {
                    Call::Forward => forward_by_us(pass, &self.forward(), &runner),
                    Call::Data => data_by_us(pass, &self.data(), &runner),
                    Call::Weights => weights_by_us(pass, &self.weights()),
                };
                ran.map_err(|why| Failure::Network(why.to_string()))?;
                match outcome.not_run() {
                    Some(NotRun::Failed(why)) => Err(Failure::Kernel(why.clone())),
                    _ => Ok(()),
                }
            }
        }
    }

    fn forward(&self) -> ForwardCall {
        let Memory { forward, reserve, .. } = self.memory;
        self.sequences.forward(CUDNN_FWD_MODE_TRAINING, forward, (reserve.data(), forward.sizes.reserve))
    }

    fn data(&self) -> Promised<RnnBackwardData> {
        let Self { sequences, back, memory, .. } = *self;
        let call = RnnBackwardData {
            handle: sequences.handle.raw(),
            descriptor: back.raw(),
            device_lengths: null(),
            y_descriptor: sequences.y.raw(),
            y: memory.forward.y.data(),
            dy: memory.dy.data(),
            x_descriptor: sequences.x.raw(),
            dx: memory.dx.data(),
            h_descriptor: sequences.states[0].raw(),
            hx: null(),
            dhy: null(),
            dhx: null_mut(),
            c_descriptor: sequences.states[1].raw(),
            cx: null(),
            dcy: null(),
            dcx: null_mut(),
            weight_space_size: memory.forward.sizes.weights,
            weight_space: memory.forward.weights.data(),
            workspace_size: memory.forward.sizes.workspace,
            workspace: memory.forward.workspace.data(),
            reserve_size: memory.forward.sizes.reserve,
            reserve: memory.reserve.data(),
        };
        // SAFETY: `sequences`, `back` and `memory` own the descriptors and the memory, made for one network.
        unsafe { Promised::new(call) }
    }

    fn weights(&self) -> Promised<RnnBackwardWeights> {
        let Self { sequences, back, memory, .. } = *self;
        let call = RnnBackwardWeights {
            handle: sequences.handle.raw(),
            descriptor: back.raw(),
            mode: CUDNN_WGRAD_MODE_ADD,
            device_lengths: null(),
            x_descriptor: sequences.x.raw(),
            x: memory.forward.x.data(),
            h_descriptor: sequences.states[0].raw(),
            hx: null(),
            y_descriptor: sequences.y.raw(),
            y: memory.forward.y.data(),
            weight_space_size: memory.forward.sizes.weights,
            dweights: memory.dweights.data(),
            workspace_size: memory.forward.sizes.workspace,
            workspace: memory.forward.workspace.data(),
            reserve_size: memory.forward.sizes.reserve,
            reserve: memory.reserve.data(),
        };
        // SAFETY: `sequences`, `back` and `memory` own the descriptors and the memory, made for one network.
        unsafe { Promised::new(call) }
    }
}
