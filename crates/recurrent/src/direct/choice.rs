//! Chooses the kernels of a network: those that the program names, or the fastest of the model's best by their times on
//! the device.

use std::convert::Infallible;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudnn_abi::*;

use super::Refusal;
use super::description::{WeightSpace, data_of};
use crate::configuration::{Configuration, Problem};
use crate::fit;
use crate::inference::run::Work;
use crate::input::Preparation;
use crate::kernels::{self, Engine, problem};
use crate::network::memory::Memory;
use crate::network::temporary::Temporary;
use crate::recurrence::Recurrent;
use crate::steps::{self, Steps};
use cudnn::rnn::{Data, Network};
use gpu::Buffer;
use guest::determinism;
use guest::settings;
use tuning::contest::turns::{Started, Trial};

/// The most time steps of a timed execution: enough to tell configurations apart, with little scratch memory.
const TIMED_STEPS: usize = 32;

/// Loaded kernels, and the name of their configuration.
pub struct Candidate {
    pub engine: Arc<dyn Recurrent>,
    pub configuration: String,
}

/// Chooses the kernels for data up to this size, on the calling thread's device. Timing allocates and frees scratch.
pub fn choose(
    network: &Network,
    data: &Data,
    weights: &WeightSpace,
    wanted: Option<&str>,
) -> Result<Candidate, Refusal> {
    let unknown = || Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, "the device does not say what it has");
    let makings = Makings::of(network, data).ok_or_else(unknown)?;
    if let Some(text) = wanted {
        return makings.named(text);
    }
    let best = makings.best();
    let problem = &makings.problem;
    let sources = kernels::sources(problem.element, &[(problem, &best)]);
    let Ok(()) = cudnn::device().compile_all(&sources, |_| Ok::<_, Infallible>(()));
    let mut why = String::new();
    let mut load = |kind| makings.load(kind).inspect_err(|error| why = error.clone()).ok();
    let mut candidates: Vec<_> = best.into_iter().map(Kind::Persistent).filter_map(&mut load).collect();
    // `Steps` needs no space on chip. It also competes, since large batches may reuse weights better with it.
    if candidates.len() != 1 {
        candidates.extend(load(Kind::Steps));
    }
    let fastest = match candidates.len() {
        0 => return Err(Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why)),
        1 => 0,
        // Deterministic: the same kernels each time.
        _ if determinism::is_asked() => 0,
        _ => fastest(network, data, weights, &candidates).unwrap_or_else(|why| {
            log::warn!("the model's first choice runs an RNN: {why}");
            0
        }),
    };
    Ok(candidates.swap_remove(fastest))
}

/// A way to run a recurrence.
enum Kind {
    Persistent(Configuration),
    Steps,
}

/// The problem that kernels are made for.
struct Makings {
    problem: Problem,
    allows_tf32: bool,
}

impl Makings {
    fn of(network: &Network, data: &Data) -> Option<Self> {
        let allows_tf32 = network.math_type != CUDNN_FMA_MATH;
        Some(Self { problem: problem(network, data.batch(), data.steps)?, allows_tf32 })
    }

    /// The configurations that the model ranks best.
    fn best(&self) -> Vec<Configuration> {
        fit::model().ranked(&self.problem, settings::get().rnn_top_k)
    }

    /// Loads the kernels that the program names.
    fn named(&self, text: &str) -> Result<Candidate, Refusal> {
        let unsupported = |why| Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why);
        if text == steps::NAME {
            return self.load(Kind::Steps).map_err(unsupported);
        }
        let bad = |why: String| Refusal::new(CUDNN_STATUS_BAD_PARAM, format!("{why}, and not {:?}", steps::NAME));
        let configuration: Configuration = text.parse().map_err(bad)?;
        if !configuration.fits(&self.problem) {
            return Err(unsupported(format!("{text:?} does not fit the network, or the device")));
        }
        self.load(Kind::Persistent(configuration)).map_err(unsupported)
    }

    fn load(&self, kind: Kind) -> Result<Candidate, String> {
        match kind {
            Kind::Persistent(configuration) => {
                let engine = Engine::load(&self.problem, configuration)?;
                Ok(Candidate { engine, configuration: configuration.to_string() })
            }
            Kind::Steps => {
                let engine = Arc::new(Steps::load(&self.problem, self.allows_tf32)?);
                Ok(Candidate { engine, configuration: steps::NAME.into() })
            }
        }
    }
}

/// Returns the index of the fastest candidate. The data are zeros: times do not depend on values.
fn fastest(network: &Network, most: &Data, weights: &WeightSpace, candidates: &[Candidate]) -> Result<usize, String> {
    let device = cudnn::device();
    let data = data_of(network, most.layout, [most.batch(), most.steps.min(TIMED_STEPS)], None);
    let temporaries =
        candidates.iter().map(|candidate| Temporary::of(network, &data, candidate.engine.exchange_bytes()));
    let temporaries = temporaries.collect::<Option<Vec<_>>>().ok_or("its scratch is too large")?;
    let stream = device.stream().ok_or("there is no stream to time it on")?;
    let scratch = |bytes: usize| -> Result<Buffer, &'static str> {
        let buffer = device.allocate(bytes.next_multiple_of(16)).ok_or("there is no memory to time it in")?;
        let zeroed = (buffer.data(), buffer.bytes());
        let zeros = Preparation { zeroed, lengths: None, starts: None };
        // SAFETY: `zeroed` is all of `buffer`, which is new memory of this device, in a multiple of 16 bytes.
        let is_zero = unsafe { candidates[0].engine.input().prepare(stream.raw(), &zeros) };
        is_zero.map(|()| buffer).map_err(|_| "the memory to time it in is not to be written")
    };
    let row = data.rows() * network.element();
    let (x, y) = (scratch(row * network.input)?, scratch(row * network.layer_input(1))?);
    let weight_space = scratch(weights.bytes)?;
    let workspace = scratch(temporaries.iter().map(|temporary| temporary.bytes).max().unwrap_or(0))?;
    let memory = Memory {
        x: x.data(),
        y: y.data(),
        hx: ptr::null(),
        hy: ptr::null_mut(),
        cx: ptr::null(),
        cy: ptr::null_mut(),
        weight_space: weight_space.data(),
        weight_space_size: weight_space.bytes(),
        workspace: workspace.data(),
        workspace_size: workspace.bytes(),
    };
    let trial = Trial { device, stream: stream.raw(), stop: &AtomicBool::new(false), progress: &|_| () };
    let times = trial.times(candidates.len(), |index, turns| {
        let work = Work {
            network,
            data: &data,
            padding_fill: data.padding_fill,
            memory,
            weights: &weights.places,
            temporary: &temporaries[index],
            engine: &*candidates[index].engine,
            projecting: None,
            stream: stream.raw(),
        };
        let timing = Started::start(device, stream.raw());
        // SAFETY: the buffers are as large as the network and the data require, and live until the stream is done.
        match unsafe { work.launch() } {
            Ok(()) => turns.ran(index, data.steps, timing.and_then(|timing| timing.end(device, stream.raw()))),
            Err(why) => {
                log::info!("{}: {why}", candidates[index].configuration);
                turns.failed(index);
            }
        }
        Ok(())
    });
    // The stream may still use the scratch, which is freed on return.
    device.synchronize(stream.raw());
    let times = times?;
    log::info!("{}", told(network, most, candidates, &times));
    let timed = times.iter().enumerate().filter_map(|(index, time)| Some((index, (*time)?)));
    let best = timed.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index);
    best.ok_or_else(|| "no candidate could be timed".to_owned())
}

/// The log line with all times.
fn told(network: &Network, most: &Data, candidates: &[Candidate], times: &[Option<f64>]) -> String {
    let of = |(candidate, time): (&Candidate, &Option<f64>)| {
        let time = time.map_or_else(|| "none".into(), |milliseconds| format!("{:.3}", milliseconds * 1e3));
        format!("{}: {time}", candidate.configuration)
    };
    let all: Vec<_> = candidates.iter().zip(times).map(of).collect();
    let (hidden, layers, batch) = (network.hidden, network.layers, most.batch());
    format!("an RNN of {hidden} units, {layers} layers and batch {batch}, microseconds a step: {}", all.join(", "))
}
