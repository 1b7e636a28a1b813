//! The persistent kernels of a training pass's recurrences for batches of one size: the model's first choice for each of
//! forward and backward. Where there is none, or its launch fails, the recurrences run one time step after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

use crate::compiler::later;
use crate::configuration::{Configuration, Problem};
use crate::fit;
use crate::kernels::{Engine, problem};
use crate::steps::NAME;
use cudnn::rnn::Network;
use gpu::Stream;
use gpu::jit::Error;
use guest::settings::{self, Fault};
use tuning::registry::Registry;

/// The recurrences of a network on a device, in one pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    problem: Problem,
}

/// The persistent kernel of such recurrences.
pub struct Shape {
    problem: Problem,
    configuration: Option<Configuration>,
    engine: OnceCell<Option<Arc<Engine>>>,
    /// A launch failed.
    is_broken: AtomicBool,
}

/// Unloading the kernels of forgotten shapes may wait for the device.
static SHAPES: Registry<Key, Shape> = Registry::new(1 << 10, |_| false).forgetting_by(|forgotten| {
    later(move || drop(forgotten));
});
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
        configuration: fit::model().ranked(&problem, 1).first().copied(),
        engine: OnceCell::new(),
        is_broken: AtomicBool::new(false),
    };
    SHAPES.state(&key, make)
}

impl Shape {
    /// Bytes of exchange of a recurrence.
    pub fn exchange_bytes(&self) -> usize {
        self.configuration.map_or(0, |configuration| configuration.exchange_bytes(&self.problem))
    }

    /// Compiles and loads the kernel, unless that was tried before. Must not happen while the stream is being captured.
    pub fn load(&self, stream: Stream) {
        if self.engine.get().is_none() && !cudnn::device().is_capturing(stream) {
            let load = |configuration| {
                let loaded = Engine::load(&self.problem, configuration);
                loaded.inspect_err(|why| log::info!("training runs one launch a time step: {why}")).ok()
            };
            self.engine.get_or_init(|| self.configuration.and_then(load));
        }
    }

    /// The kernel, if it is loaded and no launch has failed.
    pub fn engine(&self) -> Option<&Engine> {
        let engine = self.engine.get()?.as_deref()?;
        (!self.is_broken.load(Ordering::Relaxed)).then_some(engine)
    }

    /// Launches the kernel by `launch`. Returns whether it was launched: else the kernel runs no longer, and nothing has
    /// begun.
    pub fn launch(&self, engine: &Engine, launch: impl FnOnce(&Engine) -> Result<(), Error>) -> bool {
        let launched = match settings::get().fault {
            Some(Fault::Launch) => Err("UCUDNN_FAULT asked for no launch".to_owned()),
            _ => launch(engine).map_err(|error| error.to_string()),
        };
        launched.inspect_err(|why| self.give_up(why)).is_ok()
    }

    /// The name of what runs: the kernel's configuration, or steps.
    pub fn chosen(&self) -> String {
        self.engine().map_or(NAME.to_owned(), |engine| engine.configuration().to_string())
    }

    /// A launch failed: the kernel runs no longer.
    fn give_up(&self, why: &str) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!(
                "a launch of a persistent kernel in training failed: {why}; each time step is a launch from now on"
            );
        }
    }
}
