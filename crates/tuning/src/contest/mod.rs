//! The choice between cuDNN and our kernels, for all families of subjects that are timed whole: in the program's own
//! calls, each of which has the right result.
//!
//! A contest begins with the subject's first pass. It asks the database. Where that knows nothing, our kernels are
//! compiled in the background, and a trial times them and cuDNN in turns. The winner runs from then on, and the
//! database keeps the times.
//!
//! | file | contents |
//! | --- | --- |
//! | [`contestant`] | the trait of a contest's object, and names |
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
pub mod contestant;
mod deciding;
pub mod recall;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::database::TuningLock;
use crate::elsewhere::Elsewhere;
use crate::milliseconds::Milliseconds;
pub use contestant::{CUDNN, Contestant, MOST_CALLS, Times};
pub use deciding::Timing;
use guest::summary::Tried;
use recall::Recalled;
use trial::{Made, Trial, Verdict};

/// A contest.
pub struct Contest<C: Contestant> {
    pub contestant: C,
    state: Mutex<State<C>>,
    /// Held while our kernels are loaded because the settings force them: other threads wait for the outcome.
    loading: Mutex<()>,
    /// How often the program made each call.
    made: [AtomicU64; MOST_CALLS],
    /// The least known time of a unit of each call; 0 while none is known.
    usual: [Milliseconds; MOST_CALLS],
    /// The time that the decision saves against cuDNN in a unit of each call; 0 while it is not known.
    saves: [Milliseconds; MOST_CALLS],
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
    _tried: Tried,
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
    /// Our kernel for it, if our side uses one.
    pub kernel: Option<K>,
    /// Our best kernel, if the call is timed, whichever side runs it.
    timed_beside: Option<K>,
}

impl<K> Turn<K> {
    /// A call whose time is not taken.
    pub fn untimed(kernel: Option<K>) -> Self {
        Self { index: None, kernel, timed_beside: None }
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
            saves: Default::default(),
            elsewhere: Elsewhere::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// How often the program made each call.
    fn made(&self) -> Made {
        std::array::from_fn(|call| self.made[call].load(Ordering::Relaxed))
    }

    /// Returns whether our kernels have failed.
    fn has_given_up(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Our kernels failed: from now on cuDNN runs all passes that begin, or our side without persistent kernels if it can
    /// and is forced.
    pub fn give_up(&self, why: &str) {
        if self.is_broken.swap(true, Ordering::Relaxed) {
            return;
        }
        self.contestant.gave_up(why);
        let verdict = Verdict { is_ours: C::RUNS_WITHOUT && self.contestant.is_forced(), kernels: Default::default() };
        self.settle_untimed(verdict, why);
    }

    /// Our side may not run all calls of the subject: cuDNN runs the passes that begin, unless ours are forced.
    pub fn stand_back(&self, why: &str) {
        let is_open = match &*self.state.lock() {
            State::Trying(_) => true,
            State::Settled(settled) => settled.verdict.is_ours,
            _ => false,
        };
        if is_open && !self.contestant.is_forced() {
            self.settle_untimed(Verdict::default(), why);
        }
    }

    /// Goes on to a state. Unloading the kernels of the one before may wait for the device.
    fn enter(&self, state: State<C>) {
        let before = std::mem::replace(&mut *self.state.lock(), state);
        if matches!(before, State::Trying(_) | State::Settled(_)) {
            compiler::later(move || drop(before));
        }
    }

    /// Reports a verdict, and settles on it.
    fn settle(&self, verdict: Verdict<C::Kernel>, weighs: [bool; MOST_CALLS], why: &str, times: &Times) {
        self.note_savings(&verdict, times);
        self.report(&verdict, why, times);
        self.enter(State::Settled(Settled { verdict, weighs }));
    }

    /// The same where nothing was timed.
    fn settle_untimed(&self, verdict: Verdict<C::Kernel>, why: &str) {
        self.settle(verdict, [true; MOST_CALLS], why, &Times::default());
    }

    /// Notes what a verdict saves, by the times of its implementations and of cuDNN.
    fn note_savings(&self, verdict: &Verdict<C::Kernel>, times: &Times) {
        for ((name, times), saves) in self.names_of(verdict).iter().zip(times).zip(&self.saves) {
            let time = |what: &str| times.iter().find(|known| known.what == what)?.time;
            let saved = time(self.contestant.plain()).zip(time(name)).map_or(0.0, |(cudnn, chosen)| cudnn - chosen);
            saves.set(saved);
        }
    }

    fn report(&self, verdict: &Verdict<C::Kernel>, why: &str, times: &Times) {
        self.contestant.decided(&self.names_of(verdict), why, times);
    }

    fn names_of(&self, verdict: &Verdict<C::Kernel>) -> Vec<String> {
        let choices = verdict.kernels.each_ref().map(|kernel| kernel.as_ref().map(C::choice));
        contestant::names(&self.contestant, verdict.is_ours, choices)
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

/// A shared contest, as background jobs keep it.
type Shared<C> = Arc<Contest<C>>;
