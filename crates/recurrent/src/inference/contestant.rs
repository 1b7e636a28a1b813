//! The contestant of a network's inference: its kernels, and other facts about the network that calls need.

use std::fmt;
use std::sync::Arc;

use once_cell::sync::OnceCell;

use crate::configuration::{Configuration, Problem};
use crate::fit;
use crate::inference::report;
use crate::kernels::{Engine, problem};
use crate::network::call::Call;
use crate::network::inference::Inference;
use crate::network::record::{self, FAMILY};
use crate::network::room::Room;
use crate::projection;
use crate::training::compute::kernels::{Kernels as Around, source as around};
use cudnn::rnn::Weights;
use gpu::Element;
use gpu::jit::Source;
use guest::settings::{self, Rnn};
use tuning::contest::{Contest, Contestant, Times};
use tuning::family::{Entries, Family};

/// Calls with equal keys are timed together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The device's number.
    pub device: i32,
    pub inference: Inference,
}

/// The contest of a network.
pub type InferenceContest = Contest<InferenceContestant>;

/// A network on batches of one shape, on a device.
pub struct InferenceContestant {
    pub key: Key,
    weights: OnceCell<Option<Vec<Weights>>>,
    /// The memory that cuDNN's calls need.
    pub room: Room,
    ranked: OnceCell<Option<Ranked>>,
    projecting: OnceCell<Option<Projecting>>,
}

/// The kernels of projections.
pub struct Projecting {
    pub kernels: Arc<projection::Kernels>,
    pub around: Arc<Around>,
}

/// The problem of the recurrences, and its best configurations, the model's first choice first.
struct Ranked {
    problem: Problem,
    configurations: Vec<Configuration>,
    most_exchange_bytes: usize,
}

impl InferenceContestant {
    pub fn new(key: Key) -> Self {
        let (weights, ranked, projecting) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { key, weights, room: Room::default(), ranked, projecting }
    }

    /// Where each pseudo layer's weights lie in the weight space; asks cuDNN once. `None`: our kernels do not take this
    /// layout.
    ///
    /// # Safety
    /// The call's handle and descriptor are valid, and the descriptor is for the network in the key.
    pub unsafe fn weights(&self, call: &Call) -> Option<&[Weights]> {
        let space = (call.weight_space, call.weight_space_size);
        let find = || {
            let layers = 0..self.key.inference.network.pseudo_layers();
            // SAFETY: handle, descriptor and space are a call's, of the key's network.
            let of = |layer| unsafe {
                Weights::find(call.handle, call.descriptor, &self.key.inference.network, layer, space)
            };
            layers.map(of).collect::<Option<Vec<_>>>()
        };
        self.weights.get_or_init(find).as_deref()
    }

    /// The best configurations; `None` if there is none.
    fn ranked(&self) -> Option<&Ranked> {
        let rank = || {
            let Inference { network, batch, steps, .. } = &self.key.inference;
            let problem = problem(network, *batch, *steps)?;
            let problem = if network.projects() { problem.of_projected() } else { problem };
            let configurations = fit::model().ranked(&problem, settings::get().rnn_top_k);
            let most_exchange_bytes = problem.most_exchange_bytes();
            (!configurations.is_empty()).then_some(Ranked { problem, configurations, most_exchange_bytes })
        };
        self.ranked.get_or_init(rank).as_ref()
    }

    /// The problem of the recurrences; `None` where our kernels never run the network.
    pub fn problem(&self) -> Option<&Problem> {
        self.ranked().map(|ranked| &ranked.problem)
    }

    /// The most bytes of exchange memory of any candidate; `None` where our kernels never run the network.
    pub fn most_exchange_bytes(&self) -> Option<usize> {
        self.ranked().map(|ranked| ranked.most_exchange_bytes)
    }

    /// The sources of the kernels of projections, if the network has any.
    pub fn projecting_sources(&self) -> Vec<Source> {
        let network = &self.key.inference.network;
        let element = Element::of(network.data_type).filter(|_| network.projects());
        element.map_or_else(Vec::new, |element| vec![projection::source(element), around(element)])
    }

    /// The kernels of projections, loaded on the calling thread's device once; `None` if the network has none.
    pub fn projecting(&self) -> Result<Option<&Projecting>, String> {
        let load = || -> Result<_, String> {
            let network = &self.key.inference.network;
            let Some(element) = Element::of(network.data_type).filter(|_| network.projects()) else { return Ok(None) };
            let kernels = projection::Kernels::load(element).map_err(|error| error.to_string())?;
            Ok(Some(Projecting { kernels, around: Around::load(element)? }))
        };
        // A failure may pass, as for want of memory.
        self.projecting.get_or_try_init(load).map(Option::as_ref)
    }

    fn needs_problem(&self) -> Result<&Problem, String> {
        self.problem().ok_or_else(|| "nothing fits on the device".to_owned())
    }
}

/// For people.
impl fmt::Display for InferenceContestant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.key.inference.fmt(f)
    }
}

impl Contestant for InferenceContestant {
    type Kernel = Arc<Engine>;
    type Choice = Configuration;

    const FAMILY: Family = FAMILY;
    const CALLS: usize = 1;
    const RUNS_WITHOUT: bool = false;
    const TIMES_AGAIN: bool = true;
    const KEEPS_FAILURES: bool = true;
    const FORCED: &'static str = "the model's first choice";

    fn is_forced(&self) -> bool {
        settings::get().rnn == Rnn::Force
    }

    fn device(&self) -> i32 {
        self.key.device
    }

    /// The key's steps are rounded up to a power of two: a call has at least half as many.
    fn units(&self) -> f64 {
        self.key.inference.steps as f64 / 2.0
    }

    /// A network of few rows takes about the same time for each step of each layer.
    fn launches(&self) -> u64 {
        let Inference { network, steps, .. } = &self.key.inference;
        (steps * network.pseudo_layers()) as u64
    }

    fn spec(&self, _call: usize) -> String {
        self.key.inference.spec()
    }

    fn choices(&self, _call: usize) -> &[Configuration] {
        self.ranked().map_or(&[], |ranked| &ranked.configurations)
    }

    fn named(&self, _call: usize, names: &[&str]) -> Vec<Option<Configuration>> {
        self.problem().map_or_else(|| vec![None; names.len()], |problem| record::named(problem, names))
    }

    fn name(&self, _call: usize, configuration: Option<&Configuration>) -> String {
        configuration.map(ToString::to_string).unwrap_or_default()
    }

    fn choice(kernel: &Arc<Engine>) -> &Configuration {
        kernel.configuration()
    }

    fn is_compiled(&self, _call: usize, configuration: &Configuration) -> bool {
        let others = self.projecting_sources();
        self.problem().is_some_and(|problem| Engine::is_compiled(problem, configuration))
            && others.iter().all(|source| cudnn::device().is_compiled(source))
    }

    fn compile(&self, _call: usize, configuration: &Configuration) -> Result<(), String> {
        settings::fault_point("rnn-load");
        let compile = |source| cudnn::device().compile(source).map_err(|error| error.to_string());
        self.projecting_sources().iter().try_for_each(compile)?;
        Engine::compile(self.needs_problem()?, configuration)
    }

    fn load(&self, _call: usize, configuration: &Configuration) -> Result<Arc<Engine>, String> {
        self.projecting()?;
        Engine::load(self.needs_problem()?, *configuration)
    }

    fn decided(&self, names: &[String], why: &str, times: &Times) {
        let Key { device, inference } = &self.key;
        report::decided(*device, inference, (&names[0], self.choices(0).first()), why, &times[0]);
    }

    fn gave_up(&self, why: &str) {
        log::warn!("{self}: our kernels failed: {why}; cuDNN runs it from now on");
    }

    fn learn(entries: &Entries) {
        fit::learn(entries);
    }
}
