//! The choice between cuDNN and our kernels: timed in the program's own calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::fitted::Fitted;
use super::record::FAMILY;
use super::report;
use super::subject::Normalization;
use gpu::background::{Queue, compiling};
use guest::determinism;
use guest::settings::{self, Norm};
use tuning::allowance;
use tuning::family::Time;
use tuning::registry::Registry;
use tuning::turns::{MARGIN, Step, Turns};

/// Calls that cuDNN answers before kernels are compiled: short programs are left alone.
const UNTOUCHED: usize = 16;
/// The number of our kernels among the candidates of a trial; the other is cuDNN.
pub const OURS: usize = 1;
/// cuDNN's name in the database and in reports.
pub const CUDNN: &str = "cuDNN";
/// The reported reason if the database made the choice.
const KNOWN: &str = "known from before";

/// The key of a state: calls with equal keys are timed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The device's number.
    device: i32,
    subject: Normalization,
}

/// Programs whose shapes never repeat must not fill the memory. Whatever is forgotten is asked of the database again.
static STATES: Registry<Key, State> = Registry::new(1 << 12, |_| false);
static QUEUE: Queue = Queue::new("batch normalization runs as it did");

/// Which implementation answers a pass's calls.
pub struct State {
    key: Key,
    course: Mutex<Course>,
    /// The least known milliseconds of a call, as bits of a number; 0 while none is known.
    usual: AtomicU64,
}

/// The progress of the choice. The lock is not held across calls that may block.
enum Course {
    /// The database was not asked yet.
    New,
    /// The database knows nothing; cuDNN has answered this many calls.
    Untouched(usize),
    /// Somebody asks the database or loads our kernels; cuDNN answers meanwhile. Whatever fails or panics there leaves it
    /// so.
    Loading,
    /// Candidates are timed: cuDNN and [`OURS`].
    Trying { turns: Turns, ours: Arc<Fitted> },
    /// Decided; `None` stands for cuDNN.
    Settled(Option<Arc<Fitted>>),
}

/// The choice for a call.
pub enum Run {
    Cudnn,
    Ours(Arc<Fitted>),
    /// The candidate of this number, between time marks. The kernels are ours, for [`OURS`].
    Timed(usize, Arc<Fitted>),
}

impl From<Option<Arc<Fitted>>> for Run {
    fn from(chosen: Option<Arc<Fitted>>) -> Self {
        chosen.map_or(Self::Cudnn, Self::Ours)
    }
}

impl State {
    /// The state of a pass on the calling thread's device.
    pub fn of(subject: &Normalization) -> Arc<Self> {
        let key = Key { device: cudnn::device().ordinal(), subject: *subject };
        let make = || Self { key, course: Mutex::new(Course::New), usual: AtomicU64::new(0) };
        STATES.state(&key, make)
    }

    /// Decides what answers the next call. During a capture nothing is compiled or timed.
    pub fn decide(self: &Arc<Self>, is_capturing: bool) -> Run {
        allowance::of_process().executed(f64::from_bits(self.usual.load(Ordering::Relaxed)));
        let mut course = self.course.lock();
        match &mut *course {
            // Results have the same bits each time: times choose nothing, whenever they were taken.
            _ if !is_forced() && determinism::is_asked() => Run::Cudnn,
            Course::Settled(chosen) => chosen.clone().into(),
            _ if is_capturing => Run::Cudnn,
            Course::Loading => Run::Cudnn,
            Course::New => {
                *course = Course::Loading;
                drop(course);
                self.begin()
            }
            Course::Untouched(calls) => {
                *calls += 1;
                // Kernels that are there already cost nothing.
                let is_due = *calls > UNTOUCHED || Fitted::is_loaded(&self.key.subject);
                if is_due && allowance::of_process().explores() {
                    *course = Course::Loading;
                    drop(course);
                    self.load_later(Self::try_ours);
                }
                Run::Cudnn
            }
            Course::Trying { turns, ours } => {
                let step = turns.step_as_permitted();
                if let Some(least) = turns.best() {
                    self.usual.store(least.to_bits(), Ordering::Relaxed);
                }
                match step {
                    Step::Run(index) => Run::Timed(index, ours.clone()),
                    Step::Wait => Run::Cudnn,
                    Step::Over => {
                        let times = times(ours, &turns.times());
                        let chosen = are_ours_faster(ours, &times).then(|| ours.clone());
                        *course = Course::Settled(chosen.clone());
                        drop(course);
                        let (state, name) = (self.clone(), name(chosen.as_deref()));
                        QUEUE.later(cudnn::device(), self.key.device, move || {
                            // What failed here may run in the next process.
                            if times.iter().all(|time| time.time.is_some()) {
                                state.keep(&times);
                            }
                            state.report(&name, "timed in place", &times);
                        });
                        chosen.into()
                    }
                }
            }
        }
    }

    /// Begins with the first call: by force, or by what the database knows.
    fn begin(self: &Arc<Self>) -> Run {
        if is_forced() {
            let loaded = compiling::now(|| Fitted::load(&self.key.subject));
            return match self.loaded(loaded) {
                Some(ours) => {
                    self.settle(Some(ours.clone()), "UCUDNN_NORM=force", &[]);
                    Run::Ours(ours)
                }
                None => Run::Cudnn,
            };
        }
        let subject = &self.key.subject;
        let ours = Fitted::name_for(subject);
        let known = FAMILY.entries().map(|entries| entries.times(&subject.spec())).unwrap_or_default();
        match ours.and_then(|ours| recall(&ours, &known)) {
            None => self.enter(Course::Untouched(1)),
            Some(false) => self.settle(None, KNOWN, &known),
            Some(true) if Fitted::is_compiled(subject) => {
                let loaded = compiling::now(|| Fitted::load(subject));
                let ours = self.loaded(loaded);
                if let Some(ours) = &ours {
                    self.settle(Some(ours.clone()), KNOWN, &known);
                }
                return ours.into();
            }
            Some(true) => self.load_later(move |state, ours| state.settle(Some(ours), KNOWN, &known)),
        }
        Run::Cudnn
    }

    /// Compiles and loads our kernels in the background, and hands them on. Without a thread to do so, cuDNN stays.
    fn load_later(self: &Arc<Self>, then: impl FnOnce(&Self, Arc<Fitted>) + Send + 'static) {
        let state = self.clone();
        QUEUE.later(cudnn::device(), self.key.device, move || {
            let subject = &state.key.subject;
            // The program's launches do not wait for compiling, as they do for loading. If it fails, loading says why.
            let _ = Fitted::compile(subject);
            let Some(loaded) = compiling::gently(|| Fitted::load(subject)) else { return };
            if let Some(ours) = state.loaded(loaded) {
                then(&state, ours);
            }
        });
    }

    /// Returns our kernels if they are loaded. Else cuDNN answers from now on.
    fn loaded(&self, loaded: Result<Fitted, String>) -> Option<Arc<Fitted>> {
        match loaded {
            Ok(ours) => Some(Arc::new(ours)),
            Err(why) => {
                if is_forced() {
                    warn_once(&self.key.subject, &why);
                }
                self.settle(None, &why, &[]);
                None
            }
        }
    }

    fn try_ours(&self, ours: Arc<Fitted>) {
        self.enter(Course::Trying { turns: Turns::new(2), ours });
    }

    fn settle(&self, chosen: Option<Arc<Fitted>>, why: &str, times: &[Time]) {
        self.report(&name(chosen.as_deref()), why, times);
        self.enter(Course::Settled(chosen));
    }

    fn enter(&self, next: Course) {
        let before = std::mem::replace(&mut *self.course.lock(), next);
        drop(before);
    }

    fn report(&self, chosen: &str, why: &str, times: &[Time]) {
        report::decided(self.key.device, &self.key.subject, chosen, why, times);
    }

    fn keep(&self, times: &[Time]) {
        if let Some(entries) = FAMILY.entries() {
            entries.keep(&self.key.subject.spec(), times);
        }
    }

    /// Records the outcome of a timed call, if the trial still runs.
    pub fn with_turns(&self, tell: impl FnOnce(&mut Turns)) {
        if let Course::Trying { turns, .. } = &mut *self.course.lock() {
            tell(turns);
        }
    }

    /// Our kernels failed: cuDNN answers from now on.
    pub fn give_up(&self, why: &str) {
        warn_once(&self.key.subject, why);
        self.settle(None, why, &[]);
    }
}

/// The name of our kernels, or cuDNN's for `None`.
fn name(chosen: Option<&Fitted>) -> String {
    chosen.map_or(CUDNN.to_owned(), Fitted::name)
}

/// The times of the candidates of a trial: of cuDNN, and of our kernels.
pub fn times(ours: &Fitted, times: &[Option<f64>]) -> Vec<Time> {
    let names = [CUDNN.to_owned(), ours.name()];
    names.into_iter().zip(times).map(|(what, &time)| Time { what, time }).collect()
}

/// Returns whether our kernels are faster, beyond doubt.
pub fn are_ours_faster(ours: &Fitted, times: &[Time]) -> bool {
    recall(&ours.name(), times).unwrap_or(false)
}

/// Returns whether our kernels are faster, beyond doubt. `None`: the times do not tell.
pub fn recall(ours: &str, times: &[Time]) -> Option<bool> {
    let time = |name: &str| times.iter().find(|time| time.what == name).map(|time| time.time);
    let (cudnn, ours) = (time(CUDNN)??, time(ours)?);
    Some(ours.is_some_and(|ours| ours < MARGIN * cudnn))
}

/// Returns true if our kernels must run wherever they can.
fn is_forced() -> bool {
    settings::get().norm == Norm::Force
}

/// Says why cuDNN answers what our kernels could: once aloud.
fn warn_once(subject: &Normalization, why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let level = if SAID.swap(true, Ordering::Relaxed) { log::Level::Debug } else { log::Level::Warn };
    log::log!(level, "{subject}: cuDNN runs it: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_is_chosen_of_what_is_known() {
        let recalled = |times: &[(&str, Option<f64>)]| {
            let times: Vec<_> = times.iter().map(|&(what, time)| Time { what: what.into(), time }).collect();
            recall("ours", &times)
        };
        assert_eq!(recalled(&[(CUDNN, Some(1.0)), ("ours", Some(0.97))]), Some(true));
        assert_eq!(recalled(&[("ours", Some(0.99)), (CUDNN, Some(1.0))]), Some(false), "not beyond doubt");
        assert_eq!(recalled(&[(CUDNN, Some(1.0)), ("ours", None)]), Some(false), "ours does not run");
        for unknown in [&[][..], &[(CUDNN, Some(1.0))], &[("ours", Some(1.0))], &[(CUDNN, None), ("ours", Some(1.0))]] {
            assert_eq!(recalled(unknown), None);
        }
    }
}
