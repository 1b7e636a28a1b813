//! The contestant of a network's training: its kernels in the three calls of a pass.

use std::fmt;
use std::sync::Arc;

use serde_json::json;

use crate::configuration::Configuration;
use crate::fit;
use crate::kernels::Engine;
use crate::network::inference::Inference;
use crate::network::record::{self, FAMILY};
use crate::network::subject::{CALLS, Call, Subject};
use crate::steps;
use crate::training::compute::known::KnownNetwork;
use crate::training::compute::shape::Shape;
use guest::settings::{self, RnnTraining};
use tuning::contest::{Contest, Contestant, Times};
use tuning::family::{Entries, Family, times_json};

/// A network that trains on batches of one shape, on a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub device: i32,
    pub subject: Inference,
}

/// The contest of a network.
pub type TrainingContest = Contest<TrainingContestant>;

/// A network that trains, and its kernels.
pub struct TrainingContestant {
    pub key: Key,
    pub known: Arc<KnownNetwork>,
    /// The recurrences forward and back.
    pub shapes: [Arc<Shape>; 2],
}

/// The name of our products for the gradients of weights.
const PRODUCTS: &str = "products";

impl TrainingContestant {
    /// The recurrences of a call; the gradients of weights have none.
    fn shape(&self, call: usize) -> Option<&Shape> {
        self.shapes.get(call).map(|shape| &**shape)
    }

    fn needs_shape(&self, call: usize) -> Result<&Shape, String> {
        self.shape(call).ok_or_else(|| format!("call {call} has no recurrences"))
    }
}

/// For people.
impl fmt::Display for TrainingContestant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "training of {}", self.key.subject)
    }
}

impl Contestant for TrainingContestant {
    type Kernel = Arc<Engine>;
    type Choice = Configuration;

    const FAMILY: Family = FAMILY;
    const CALLS: usize = CALLS.len();
    /// One launch a time step, and the products.
    const RUNS_WITHOUT: bool = true;
    const TIMES_AGAIN: bool = false;
    const KEEPS_FAILURES: bool = true;
    const FORCED: &'static str = "the model's first choice";

    fn is_forced(&self) -> bool {
        settings::get().rnn_training == RnnTraining::Force
    }

    fn device(&self) -> i32 {
        self.key.device
    }

    /// The key's steps are rounded up to a power of two: a call has at least half as many.
    fn units(&self) -> f64 {
        self.key.subject.steps as f64 / 2.0
    }

    /// Two recurrences in each pass.
    fn launches(&self) -> u64 {
        let Inference { network, steps, .. } = &self.key.subject;
        (2 * steps * network.pseudo_layers()) as u64
    }

    fn spec(&self, call: usize) -> String {
        Subject::of_call(&self.key.subject, CALLS[call]).spec()
    }

    fn choices(&self, call: usize) -> &[Configuration] {
        self.shape(call).map_or(&[], Shape::configurations)
    }

    /// One launch a time step is another candidate, if more than one is to be tried.
    fn has_others(&self) -> bool {
        settings::get().rnn_top_k != 1
    }

    fn named(&self, call: usize, names: &[&str]) -> Vec<Option<Configuration>> {
        self.shape(call).map_or_else(|| vec![None; names.len()], |shape| record::named(&shape.problem, names))
    }

    fn name(&self, call: usize, configuration: Option<&Configuration>) -> String {
        match configuration {
            Some(configuration) => configuration.to_string(),
            None if call == Call::Weights as usize => PRODUCTS.to_owned(),
            None => steps::NAME.to_owned(),
        }
    }

    fn choice(kernel: &Arc<Engine>) -> &Configuration {
        kernel.configuration()
    }

    fn is_compiled(&self, call: usize, configuration: &Configuration) -> bool {
        self.shape(call).is_some_and(|shape| Engine::is_compiled(&shape.problem, configuration))
    }

    fn compile(&self, call: usize, configuration: &Configuration) -> Result<(), String> {
        settings::fault_point("rnn-training-load");
        Engine::compile(&self.needs_shape(call)?.problem, configuration)
    }

    fn load(&self, call: usize, configuration: &Configuration) -> Result<Arc<Engine>, String> {
        Engine::load(&self.needs_shape(call)?.problem, *configuration)
    }

    fn compile_others(&self) -> Result<(), String> {
        KnownNetwork::compile(&self.key.subject.network)
    }

    fn load_others(&self) -> Result<(), String> {
        self.known.engine(&self.key.subject.network).map(|_| ()).map_err(ToOwned::to_owned)
    }

    fn decided(&self, names: &[String], why: &str, times: &Times) {
        let Key { device, subject } = &self.key;
        let [forward, backward] = [Call::Forward, Call::Data].map(|call| &names[call as usize]);
        log::info!("{self}: forward {forward}, backward {backward}: {why}");
        guest::report::write(|| {
            let [forward_times, data, weights] = times.each_ref().map(|times| times_json(times, "step_ms"));
            json!({
                "event": "rnn-training", "rnn": subject.to_string(), "spec": subject.spec(), "device": device,
                "forward": forward, "backward": backward, "why": why,
                "times": { "forward": forward_times, "data": data, "weights": weights },
            })
        });
    }

    fn gave_up(&self, why: &str) {
        let then = if self.is_forced() { "" } else { " until cuDNN runs it" };
        log::warn!("{self} failed on a persistent kernel: {why}; each time step is a launch from now on{then}");
    }

    fn learn(entries: &Entries) {
        fit::learn(entries);
    }
}
