//! The choice between cuDNN and our kernels, for all families of subjects that are timed whole: in the program's own
//! calls, each of which has the right result.
//!
//! A contest begins with the subject's first pass. It asks the database. Where that knows nothing, our kernels are
//! compiled in the background, and a trial times them and cuDNN in turns. The winner runs from then on, and the
//! database keeps the times.
//!
//! | file | contents |
//! | --- | --- |
//! | [`turns`] | the times of candidates in turns |
//! | [`trial`] | the candidates of each call of a pass, and the verdict |
//! | `deciding` | the decision who runs the next pass and each of its calls |
//! | [`recall`] | the result in the database |
//! | `compiling` | a contest's candidates, compiled in the background |
//! | [`compiler`] | the thread that compiles, and the order in which contests have their turns |
//! | [`ahead`] | the candidates of a call ahead of time |

pub mod ahead;
pub mod compiler;
mod compiling;
mod deciding;
pub mod recall;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod turns;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::database::TuningLock;
use crate::elsewhere::Elsewhere;
use crate::family::{Entries, Family, Time};
use gpu::Stream;
use recall::Recalled;
use trial::{Made, Trial, Verdict};

/// cuDNN's name in the database and in reports.
pub const CUDNN: &str = "cuDNN";
/// The most calls of a pass.
pub const MOST_CALLS: usize = 3;
/// The times of each call's candidates.
pub type Times = [Vec<Time>; MOST_CALLS];

/// The object of a contest: a subject on a device, which cuDNN or our kernels run. `Display` is for people.
pub trait Contestant: fmt::Display + Send + Sync + Sized + 'static {
    /// One of our kernels, loaded. Clones share it.
    type Kernel: Clone + Send + Sync + 'static;
    /// The identity of one of our kernels, among those that can run a call.
    type Choice: Clone + PartialEq + Send + Sync + 'static;

    /// The family in the database.
    const FAMILY: Family;
    /// The calls of a pass, at most [`MOST_CALLS`]. Call 0 begins it, and decides for all.
    const CALLS: usize;
    /// Our side runs each call without a persistent kernel too. That is a candidate of its own.
    const RUNS_WITHOUT: bool;
    /// Once the last candidate is compiled, all are timed again in turns. Otherwise a candidate that comes later is timed
    /// alone.
    const TIMES_AGAIN: bool;
    /// Candidates that failed in a trial are kept without a time, and not tried in the next process.
    const KEEPS_FAILURES: bool;
    /// The reported reason if our first choice runs because the settings force it.
    const FORCED: &'static str;

    /// Returns whether our kernels run wherever they can.
    fn is_forced() -> bool;

    /// The device's number.
    fn device(&self) -> i32;

    /// The least units of work of a call. Times are divided by the units of work.
    fn units(&self) -> f64;

    /// About how many launches of a pass wait for each other.
    fn launches(&self) -> u64;

    /// The text of a call in the database.
    fn spec(&self, call: usize) -> String;

    /// Our kernels to try for a call, the one that is probably best first.
    fn choices(&self, call: usize) -> &[Self::Choice];

    /// Our kernels with these names; `None` for an unknown name.
    fn named(&self, call: usize, names: &[&str]) -> Vec<Option<Self::Choice>>;

    /// The name of one of our kernels; for `None`, the name of our side without a kernel ([`Self::RUNS_WITHOUT`]).
    fn name(&self, call: usize, choice: Option<&Self::Choice>) -> String;

    /// The identity of a loaded kernel.
    fn choice(kernel: &Self::Kernel) -> &Self::Choice;

    /// Returns whether our kernels are loaded already, so that a trial costs no compilation.
    fn is_loaded(&self) -> bool {
        false
    }

    /// Returns whether a kernel is on disk, compiled for the device.
    fn is_compiled(&self, call: usize, choice: &Self::Choice) -> bool;

    /// Compiles a kernel, so that loading is quick.
    fn compile(&self, call: usize, choice: &Self::Choice) -> Result<(), String>;

    /// Compiles and loads a kernel on the calling thread's device. `Err` says why it does not run there.
    fn load(&self, call: usize, choice: &Self::Choice) -> Result<Self::Kernel, String>;

    /// Compiles the other kernels that our side needs, which are no choices.
    fn compile_others(&self) -> Result<(), String> {
        Ok(())
    }

    /// Loads the other kernels that our side needs. `Err` says why our side cannot run.
    fn load_others(&self) -> Result<(), String> {
        Ok(())
    }

    /// Prepares the stream for a call that is timed.
    fn before_timed(&self, _ours: &Self::Kernel, _stream: Stream) {}

    /// Reports a decision: the name of each call's implementation, the reason, and the times.
    fn decided(&self, names: &[String], why: &str, times: &Times);

    /// Our kernels failed: says why, the first time.
    fn gave_up(&self, why: &str);

    /// New times were kept: a performance model may learn from them.
    fn learn(_entries: &Entries) {}
}

/// A contest.
pub struct Contest<C: Contestant> {
    pub contestant: C,
    state: Mutex<State<C>>,
    /// Held while our kernels are loaded because the settings force them: other threads wait for the outcome.
    loading: Mutex<()>,
    /// How often the program made each call.
    made: [AtomicU64; MOST_CALLS],
    /// The least known milliseconds of a unit of each call, as bits of a number; 0 while none is known.
    usual: [AtomicU64; MOST_CALLS],
    elsewhere: Elsewhere,
    /// Our kernels failed once.
    is_broken: AtomicBool,
}

/// The state of a contest. Its lock is not held across calls that may block.
enum State<C: Contestant> {
    /// The database was not asked yet.
    New,
    /// The database knows nothing; cuDNN has had this many passes.
    Untouched(usize),
    /// At this moment, another process was timing the subject. Its result will come by the database.
    Elsewhere(Instant),
    /// The database is being asked, or the kernels that it names are being loaded. After a panic the state stays, and
    /// cuDNN runs.
    Loading,
    Trying(Box<Trying<C>>),
    Settled(Settled<C>),
}

struct Trying<C: Contestant> {
    trial: Trial<C::Kernel>,
    /// Names of kernels that do not load, by call.
    failed: Vec<(usize, String)>,
    /// Keeps other processes from timing the same.
    lock: Option<TuningLock>,
}

/// A decision.
struct Settled<C: Contestant> {
    verdict: Verdict<C::Kernel>,
    /// The calls that the decision takes into account.
    weighs: [bool; MOST_CALLS],
}

/// The decision who runs a call.
pub struct Turn<K> {
    /// The candidate whose time is to be taken.
    index: Option<usize>,
    /// Our side runs it.
    pub is_ours: bool,
    /// Our kernel for it, if our side uses one.
    pub kernel: Option<K>,
    /// Our best kernel, if the call is timed, whichever side runs it.
    timed_beside: Option<K>,
}

impl<K> Turn<K> {
    /// A side, without a kernel and without a time.
    pub fn untimed(is_ours: bool) -> Self {
        Self { index: None, is_ours, kernel: None, timed_beside: None }
    }

    /// Returns whether the call's time is to be taken.
    pub fn is_timed(&self) -> bool {
        self.index.is_some()
    }
}

/// The result of a timed call for its candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The candidate ran: its time counts.
    Ran,
    /// No result: cuDNN refused the call's arguments, or the call's memory has no room for our kernel.
    Nothing,
    /// The call's memory has no room for the candidate. After several such calls, the candidate has failed.
    NoRoom,
    /// The candidate cannot run.
    Failed,
}

impl<C: Contestant> Contest<C> {
    pub fn new(contestant: C) -> Self {
        Self {
            contestant,
            state: Mutex::new(State::New),
            loading: Mutex::new(()),
            made: Default::default(),
            usual: Default::default(),
            elsewhere: Elsewhere::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// How often the program made each call.
    fn made(&self) -> Made {
        std::array::from_fn(|call| self.made[call].load(Ordering::Relaxed))
    }

    /// Returns whether our kernels have failed.
    pub fn has_given_up(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Our kernels failed: from now on cuDNN runs all passes that begin, or our side without persistent kernels if it can
    /// and is forced.
    pub fn give_up(&self, why: &str) {
        if self.is_broken.swap(true, Ordering::Relaxed) {
            return;
        }
        self.contestant.gave_up(why);
        let verdict = Verdict { is_ours: C::RUNS_WITHOUT && C::is_forced(), kernels: Default::default() };
        self.report(&verdict, why, &Times::default());
        self.enter(State::Settled(Settled { verdict, weighs: [true; MOST_CALLS] }));
    }

    /// Enters a state. The old state is dropped in the background: unloading its kernels may wait for the device.
    fn enter(&self, state: State<C>) {
        let before = std::mem::replace(&mut *self.state.lock(), state);
        if matches!(before, State::Trying(_) | State::Settled(_)) {
            compiler::later(move || drop(before));
        }
    }

    /// Reports a verdict, and settles on it.
    fn settle(&self, verdict: Verdict<C::Kernel>, weighs: [bool; MOST_CALLS], why: &str, times: &Times) {
        self.report(&verdict, why, times);
        self.enter(State::Settled(Settled { verdict, weighs }));
    }

    fn report(&self, verdict: &Verdict<C::Kernel>, why: &str, times: &Times) {
        self.contestant.decided(&self.names_of(verdict), why, times);
    }

    fn names_of(&self, verdict: &Verdict<C::Kernel>) -> Vec<String> {
        let choices = verdict.kernels.each_ref().map(|kernel| kernel.as_ref().map(C::choice));
        names(&self.contestant, verdict.is_ours, choices)
    }

    /// Changes the trial, if it still runs.
    fn with_trial(&self, change: impl FnOnce(&mut Trying<C>)) {
        if let State::Trying(trying) = &mut *self.state.lock() {
            change(trying);
        }
    }

    /// The result in the database, if that suffices.
    pub fn recall(&self) -> Option<Recalled<C::Choice>> {
        recall::of_database(&self.contestant)
    }
}

/// The name of each call's implementation: our kernel's name, or cuDNN's.
pub fn names<C: Contestant>(contestant: &C, is_ours: bool, choices: [Option<&C::Choice>; MOST_CALLS]) -> Vec<String> {
    let name = |call: usize| match is_ours {
        true => contestant.name(call, choices[call]),
        false => CUDNN.to_owned(),
    };
    (0..C::CALLS).map(name).collect()
}

/// A shared contest, as background jobs keep it.
type Shared<C> = Arc<Contest<C>>;
