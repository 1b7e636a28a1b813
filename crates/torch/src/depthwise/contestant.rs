//! A convolution by channel as a contestant: our engine against PyTorch's own kernel.

use std::fmt;
use std::sync::Arc;

use once_cell::sync::OnceCell;
use serde_json::json;

use super::subject::Subject;
use convolution::engines::{Alone, Convolution, Plan};
use gpu::Device;
use guest::settings::{self, Torch};
use norm::subject::pytorch;
use tuning::contest::{Contest, Contestant, Times};
use tuning::family::{Family, times_json};
use tuning::registry::Registry;

/// The most workspace of a filter's gradient, in bytes: for sums of parts, which are floats.
const MOST_WORKSPACE: usize = 16 << 20;
/// Our engine's name in the database and in reports.
const OURS: &str = "by channel";

/// PyTorch's own depthwise convolutions among the database's families. The unit of work is a call.
pub const FAMILY: Family = Family { name: "depthwise", version: kernels::convolution::VERSION };

/// A convolution on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The device's number.
    device: i32,
    subject: Subject,
}

/// Whatever is forgotten is asked of the database again.
static CONTESTS: Registry<Key, Contest<DepthwiseContestant>> = Registry::new(1 << 12, |_| false);

/// The contest of a convolution on the calling thread's device. `Err` if we have no engine for it.
pub fn contest(subject: Subject) -> Result<Arc<Contest<DepthwiseContestant>>, &'static str> {
    let key = Key { device: cudnn::device().ordinal(), subject };
    let contest = CONTESTS.state(&key, || Contest::new(DepthwiseContestant { key, engine: OnceCell::new() }));
    contest.contestant.engine().map(|_| contest.clone())
}

pub struct DepthwiseContestant {
    key: Key,
    engine: OnceCell<Option<Alone>>,
}

/// The identity of our engine: there is one for each convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OurEngine;

/// Our engine, ready to run.
#[derive(Clone)]
pub struct Ready {
    pub of: Convolution,
    pub plan: Arc<dyn Plan>,
}

impl DepthwiseContestant {
    fn engine(&self) -> Result<&Alone, &'static str> {
        let make = || Alone::by_channel(cudnn::device(), &self.key.subject.of, MOST_WORKSPACE);
        self.engine.get_or_init(make).as_ref().ok_or("no engine of ours computes it")
    }
}

impl fmt::Display for DepthwiseContestant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Subject { of, is_of_volumes } = self.key.subject;
        let Convolution { direction, images, inputs, x, filter, element, .. } = of;
        let sizes = |[slices, rows, columns]: [usize; 3]| match is_of_volumes {
            true => format!("{slices} × {rows} × {columns}"),
            false => format!("{rows} × {columns}"),
        };
        write!(
            f,
            "{direction} of {images} images of {inputs} channels of {} in {}, each with filters of {}, of PyTorch's own",
            sizes(x),
            element.name(),
            sizes(filter)
        )
    }
}

impl Contestant for DepthwiseContestant {
    type Kernel = Ready;
    type Choice = OurEngine;

    const FAMILY: Family = FAMILY;
    const CALLS: usize = 1;
    const RUNS_WITHOUT: bool = false;
    const TIMES_AGAIN: bool = false;
    /// A launch that failed here may run in the next process.
    const KEEPS_FAILURES: bool = false;
    const FORCED: &'static str = "it is forced";

    fn is_forced(&self) -> bool {
        settings::get().torch == Torch::Force
    }

    fn plain(&self) -> &'static str {
        pytorch()
    }

    fn device(&self) -> i32 {
        self.key.device
    }

    fn units(&self) -> f64 {
        1.0
    }

    fn launches(&self) -> u64 {
        1
    }

    fn spec(&self, _call: usize) -> String {
        self.key.subject.to_string()
    }

    fn choices(&self, _call: usize) -> &[OurEngine] {
        if self.engine().is_ok() { &[OurEngine] } else { &[] }
    }

    fn named(&self, call: usize, names: &[&str]) -> Vec<Option<OurEngine>> {
        names.iter().map(|name| self.choices(call).first().copied().filter(|_| *name == OURS)).collect()
    }

    fn name(&self, _call: usize, _choice: Option<&OurEngine>) -> String {
        OURS.to_owned()
    }

    fn choice(_kernel: &Ready) -> &OurEngine {
        &OurEngine
    }

    fn is_compiled(&self, _call: usize, _choice: &OurEngine) -> bool {
        cudnn::device() == Device::Host || self.engine().is_ok_and(|engine| engine.is_compiled(cudnn::device()))
    }

    fn compile(&self, _call: usize, _choice: &OurEngine) -> Result<(), String> {
        if cudnn::device() == Device::Host { Ok(()) } else { self.engine()?.compile(cudnn::device()) }
    }

    fn load(&self, _call: usize, _choice: &OurEngine) -> Result<Ready, String> {
        Ok(Ready { of: self.key.subject.of, plan: self.engine()?.load(cudnn::device())?.into() })
    }

    fn decided(&self, names: &[String], why: &str, times: &Times) {
        log::info!("{self}: {}: {why}", names[0]);
        guest::report::write(|| {
            json!({
                "event": "depthwise", "depthwise": self.to_string(), "spec": self.spec(0), "device": self.key.device,
                "chosen": names[0], "why": why, "times": times_json(&times[0], "time_ms"),
            })
        });
    }

    fn gave_up(&self, why: &str) {
        log::info!("{self}: PyTorch runs it: {why}");
    }
}
