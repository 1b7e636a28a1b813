//! The persistent kernel of forward's recurrences for batches of one size: the model's first choice, with steps that
//! save. Where there is none, or its launch fails, the recurrences run one time step after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

use crate::configuration::{Configuration, Problem};
use crate::fit;
use crate::kernels::{Engine, problem};
use crate::recurrence::Recurrent;
use cudnn::rnn::Network;
use gpu::Stream;
use tuning::registry::Registry;

/// The recurrences of a network on a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    /// Without its steps.
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

static SHAPES: Registry<Key, Shape> = Registry::new(1 << 10, |_| false);

/// The shape of a network's forward recurrences, on the calling thread's device. `None`: the device tells too little.
pub fn of(network: &Network, batch: usize, steps: usize) -> Option<Arc<Shape>> {
    let problem = problem(network, batch, steps)?.that_saves();
    let key = Key { device: cudnn::device().ordinal(), problem: Problem { steps: 0, ..problem } };
    let make = || Shape {
        problem,
        configuration: fit::model().ranked(&problem, 1).first().copied(),
        engine: OnceCell::new(),
        is_broken: AtomicBool::new(false),
    };
    Some(SHAPES.state(&key, make))
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
    pub fn engine(&self) -> Option<&dyn Recurrent> {
        let engine = self.engine.get()?.as_deref()?;
        (!self.is_broken.load(Ordering::Relaxed)).then_some(engine as &dyn Recurrent)
    }

    /// The kernel's configuration, if it runs.
    pub fn chosen(&self) -> Option<Configuration> {
        self.engine().and(self.configuration)
    }

    /// A launch failed: the kernel runs no longer.
    pub fn give_up(&self, why: &str) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!(
                "a launch of a persistent kernel in training failed: {why}; each time step is a launch from now on"
            );
        }
    }
}
