//! A pass as a contestant: our kernels against cuDNN, or against PyTorch's own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

use super::fitted::Fitted;
use super::kernels::PAUSE;
use super::record::FAMILY;
use super::report;
use super::shape::Cut;
use super::subject::{Normalization, Plain};
use gpu::Stream;
use guest::settings::{self, Norm, Torch};
use tuning::allowance;
use tuning::contest::{Contest, Contestant, Times};
use tuning::family::Family;
use tuning::registry::Registry;

/// A pass on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The device's number.
    device: i32,
    subject: Normalization,
}

/// Programs whose shapes never repeat must not fill the memory. Whatever is forgotten is asked of the database again.
static CONTESTS: Registry<Key, Contest<NormContestant>> = Registry::new(1 << 12, |_| false);

/// The contest of a pass on the calling thread's device.
pub fn contest(subject: &Normalization) -> Arc<Contest<NormContestant>> {
    let key = Key { device: cudnn::device().ordinal(), subject: *subject };
    CONTESTS.state(&key, || Contest::new(NormContestant::new(key.device, subject)))
}

/// A pass on a device, and how our kernels cut its tensor.
pub struct NormContestant {
    device: i32,
    subject: Normalization,
    /// One, or none if the device has no room for our kernels.
    cuts: OnceCell<Vec<Cut>>,
}

impl NormContestant {
    /// A pass on the calling thread's device, whose number is `device`.
    pub fn new(device: i32, subject: &Normalization) -> Self {
        Self { device, subject: *subject, cuts: OnceCell::new() }
    }
}

impl fmt::Display for NormContestant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.subject.fmt(f)
    }
}

impl Contestant for NormContestant {
    type Kernel = Arc<Fitted>;
    type Choice = Cut;

    const FAMILY: Family = FAMILY;
    const CALLS: usize = 1;
    const RUNS_WITHOUT: bool = false;
    const TIMES_AGAIN: bool = false;
    /// A launch that failed here may run in the next process.
    const KEEPS_FAILURES: bool = false;
    const FORCED: &'static str = "it is forced";

    fn is_forced(&self) -> bool {
        match self.subject.plain {
            Plain::Spatial | Plain::Persistent => settings::get().norm == Norm::Force,
            Plain::Native => settings::get().torch == Torch::Force,
        }
    }

    fn plain(&self) -> &'static str {
        self.subject.plain.name()
    }

    fn device(&self) -> i32 {
        self.device
    }

    fn units(&self) -> f64 {
        1.0
    }

    fn launches(&self) -> u64 {
        1
    }

    fn spec(&self, _call: usize) -> String {
        self.subject.spec()
    }

    fn choices(&self, _call: usize) -> &[Cut] {
        self.cuts.get_or_init(|| Fitted::cut(&self.subject).into_iter().collect())
    }

    fn named(&self, _call: usize, names: &[&str]) -> Vec<Option<Cut>> {
        let named = |name: &&str| self.choices(0).iter().copied().find(|cut| cut.to_string() == **name);
        names.iter().map(named).collect()
    }

    fn name(&self, _call: usize, cut: Option<&Cut>) -> String {
        cut.map(Cut::to_string).unwrap_or_default()
    }

    fn choice(kernel: &Arc<Fitted>) -> &Cut {
        &kernel.cut
    }

    fn is_loaded(&self) -> bool {
        Fitted::is_loaded(&self.subject)
    }

    fn is_compiled(&self, _call: usize, _cut: &Cut) -> bool {
        Fitted::is_compiled(&self.subject)
    }

    fn compile(&self, _call: usize, _cut: &Cut) -> Result<(), String> {
        Fitted::compile(&self.subject)
    }

    fn load(&self, _call: usize, cut: &Cut) -> Result<Arc<Fitted>, String> {
        Fitted::load(&self.subject, *cut).map(Arc::new)
    }

    /// Lets the device wait, so that no candidate's time contains the time of its launch.
    fn before_timed(&self, ours: &Arc<Fitted>, stream: Stream) {
        if ours.engine.pause(stream) {
            allowance::of_process().explored(1e3 * PAUSE.as_secs_f64());
        }
    }

    fn decided(&self, names: &[String], why: &str, times: &Times) {
        report::decided(self.device, &self.subject, &names[0], why, &times[0]);
    }

    /// Logs why our kernels do not run calls that they could run: the first time as a warning.
    fn gave_up(&self, why: &str) {
        static SAID: AtomicBool = AtomicBool::new(false);
        let level = if SAID.swap(true, Ordering::Relaxed) { log::Level::Debug } else { log::Level::Warn };
        log::log!(level, "{self}: {} runs it: {why}", self.plain());
    }
}
