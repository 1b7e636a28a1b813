//! The persistent kernels of a training pass's recurrences for batches of one size, as the model ranks them.

use std::sync::Arc;

use once_cell::sync::OnceCell;

use crate::configuration::{Configuration, Problem};
use crate::fit;
use crate::kernels::problem;
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
    /// Ranked once they are asked for: many shapes never are.
    ranked: OnceCell<Vec<Configuration>>,
    /// Whether any persistent kernel keeps R on the chip.
    pub fits: bool,
    /// The most bytes of exchange of any kernel.
    pub exchange_bytes: usize,
    /// The most units that R is dealt out to, with those after the last.
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
    let make = || {
        let space = Configuration::space(&problem);
        let fits = !space.is_empty();
        let exchange_bytes = space.iter().map(|one| one.exchange_bytes(&problem)).max().unwrap_or(0);
        let dealt = space.iter().map(|one| problem.hidden.next_multiple_of(one.dealt_units(problem.hidden)));
        let dealt_units = dealt.max().unwrap_or(problem.hidden);
        Shape { problem, ranked: OnceCell::new(), fits, exchange_bytes, dealt_units }
    };
    SHAPES.state(&key, make)
}

impl Shape {
    /// The best configurations, the model's first choice first.
    pub fn configurations(&self) -> &[Configuration] {
        self.ranked.get_or_init(|| fit::model().ranked(&self.problem, settings::get().rnn_top_k))
    }
}
