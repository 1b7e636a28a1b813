//! The persistent kernels of a training pass's recurrences for batches of one size, as the model ranks them.

use std::sync::Arc;

use crate::configuration::{Configuration, Problem};
use crate::fit;
use crate::kernels::{Engine, problem};
use cudnn::rnn::Network;
use guest::settings;
use tuning::registry::Registry;

/// The recurrences of a network on a device, in one pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    problem: Problem,
}

/// The kernels of such recurrences.
pub struct Shape {
    pub problem: Problem,
    /// The best configurations, the model's first choice first.
    pub configurations: Vec<Configuration>,
    /// The most bytes of exchange of any kernel.
    pub exchange_bytes: usize,
    /// The most units that R is dealt out to, with those behind the last.
    pub dealt_units: usize,
}

static SHAPES: Registry<Key, Shape> = Registry::new(1 << 10, |_| false);
/// The steps for which the model chooses: the same choice for all batches.
const STEPS: usize = 128;

/// The shapes of a network's recurrences, forward and backward, on the calling thread's device. `None`: the device tells
/// too little.
pub fn of(network: &Network, batch: usize) -> Option<[Arc<Shape>; 2]> {
    let problem = problem(network, batch, STEPS)?;
    Some([problem.of_forward(), problem.of_backward()].map(one))
}

fn one(problem: Problem) -> Arc<Shape> {
    let key = Key { device: cudnn::device().ordinal(), problem };
    let make = || Shape {
        problem,
        configurations: fit::model().ranked(&problem, settings::get().rnn_top_k),
        exchange_bytes: problem.most_exchange_bytes(),
        dealt_units: problem.most_dealt_units(),
    };
    SHAPES.state(&key, make)
}

impl Shape {
    /// Compiles and loads the first kernel that runs on the device. `None`: there is none.
    pub fn load_first(&self) -> Option<Arc<Engine>> {
        let load = |&configuration: &Configuration| {
            let loaded = Engine::load(&self.problem, configuration);
            loaded.inspect_err(|why| log::info!("training does not run on a kernel: {why}")).ok()
        };
        self.configurations.iter().find_map(load)
    }
}
