//! The course of the choice between cuDNN and our kernels for a network that trains on batches of one shape: from its
//! first passes over a trial in the program's own steps to a decision, which the database keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use cudnn_abi::*;
use parking_lot::Mutex;

use super::page::Page;
use super::shape::Shape;
use super::subject::Subject;
use super::trial::{Call, Seen, Trial, Verdict, is_made};
use crate::compiler::later;
use crate::inference::Inference;
use crate::kernels::Engine;
use crate::record::FAMILY;
use gpu::Stream;
use guest::settings::{self, RnnTraining};
use tuning::allowance;
use tuning::database::TuningLock;
use tuning::elsewhere::Elsewhere;
use tuning::registry::Registry;
use tuning::turns::{Started, Timed};

/// Forward calls by cuDNN before anything is compiled: programs that train run thousands.
pub(super) const UNTOUCHED: usize = 16;

/// A network that trains on batches of one shape, on a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub device: i32,
    pub subject: Inference,
}

/// The course of a network.
pub struct Course {
    pub key: Key,
    pub page: Arc<Page>,
    /// The recurrences forward and back.
    pub shapes: [Arc<Shape>; 2],
    pub(super) state: Mutex<State>,
    /// How often the program made each call.
    seen: [AtomicU64; 3],
    /// The least known milliseconds of a time step of each call, as bits of a number; 0 while none is known.
    usual: [AtomicU64; 3],
    elsewhere: Elsewhere,
    /// A launch of ours failed.
    is_broken: AtomicBool,
}

/// The state of a course. Its lock is not held across calls that may block.
pub(super) enum State {
    /// The database was not asked yet.
    New,
    /// The database knows nothing; cuDNN has had this many forward calls.
    Untouched(usize),
    /// Another process times the network, at least it did at this moment. Its result comes by the database.
    Elsewhere(Instant),
    /// The database is being asked, or what it knows is being loaded.
    Recalling,
    Trying(Box<Trying>),
    Settled(Settled),
}

pub(super) struct Trying {
    pub trial: Trial<Arc<Engine>>,
    /// Keeps other processes from timing the same.
    pub lock: Option<TuningLock>,
}

/// A decision.
#[derive(Clone)]
pub(super) struct Settled {
    pub verdict: Verdict<Arc<Engine>>,
    /// The calls that it takes into account.
    pub weighs: [bool; 3],
}

/// What runs a call of a pass.
pub struct Turn {
    /// The candidate whose time is to be taken.
    index: Option<usize>,
    /// A persistent kernel of ours, for a recurrence of ours.
    pub kernel: Option<Arc<Engine>>,
}

/// The courses of one network with one shape, which differ in the algorithm and the type of mathematics: backward may have
/// others than forward. The last one is the one of the last forward.
type Courses = Mutex<Vec<Arc<Course>>>;

/// Unloading the kernels of forgotten courses may wait for the device.
static COURSES: Registry<Key, Courses> = Registry::new(1 << 10, |_| false).forgetting_by(|forgotten| {
    later(move || drop(forgotten));
});

/// The course of a pass. If `begins`, the pass's forward runs next. Otherwise the program goes back from the pass that began
/// last.
pub fn of(subject: Inference, begins: bool, page: &Arc<Page>, shapes: &[Arc<Shape>; 2]) -> Arc<Course> {
    let device = cudnn::device().ordinal();
    let mut alike = Key { device, subject: subject.clone() };
    alike.subject.network.algorithm = CUDNN_RNN_ALGO_STANDARD;
    alike.subject.network.math_type = CUDNN_DEFAULT_MATH;
    let courses = COURSES.state(&alike, Courses::default);
    let mut courses = courses.lock();
    if !begins && let Some(last) = courses.last() {
        return last.clone();
    }
    if let Some(at) = courses.iter().position(|course| course.key.subject == subject) {
        let last = courses.len() - 1;
        courses.swap(at, last);
        return courses[last].clone();
    }
    let course = Arc::new(Course {
        key: Key { device, subject },
        page: page.clone(),
        shapes: shapes.clone(),
        state: Mutex::new(State::New),
        seen: Default::default(),
        usual: Default::default(),
        elsewhere: Elsewhere::default(),
        is_broken: AtomicBool::new(false),
    });
    courses.push(course.clone());
    course
}

impl Course {
    /// How often the program made each call.
    pub fn seen(&self) -> Seen {
        std::array::from_fn(|call| self.seen[call].load(Ordering::Relaxed))
    }

    /// Takes the right to time the network. Returns false if another process times it, whose result will come.
    pub fn takes_turn(&self) -> bool {
        let Some(entries) = FAMILY.entries() else { return true };
        let lock = entries.begin_exploring(&Subject::of_call(&self.key.subject, Call::Forward).spec());
        let mut state = self.state.lock();
        match (&mut *state, lock) {
            (_, None) if self.elsewhere.waits() => {
                log::debug!("training of {}: another process times it", self.key.subject);
                *state = State::Elsewhere(Instant::now());
                false
            }
            (State::Trying(trying), lock) => {
                trying.lock = lock;
                true
            }
            _ => false,
        }
    }

    /// Changes the trial, if it still runs.
    pub fn with_trial(&self, change: impl FnOnce(&mut Trial<Arc<Engine>>)) {
        if let State::Trying(trying) = &mut *self.state.lock() {
            change(&mut trying.trial);
        }
    }

    /// Decides what runs a call of a pass, which is ours or cuDNN's. A call whose type of mathematics is not that of
    /// the last forward gets no kernel: the kernel might need another workspace, and round what must not be.
    pub fn turn(&self, call: Call, is_ours: bool, shapes: &[Arc<Shape>; 2], stream: Stream) -> Turn {
        self.seen[call as usize].fetch_add(1, Ordering::Relaxed);
        if self.shapes[0].problem != shapes[0].problem {
            return Turn { index: None, kernel: None };
        }
        let usual = f64::from_bits(self.usual[call as usize].load(Ordering::Relaxed));
        // The key's steps are rounded up to a power of two: a call has at least half as many.
        allowance::of_process().executed(usual * (self.key.subject.steps as f64 / 2.0));
        let mut kernel = None;
        if self.has_given_up() {
            return Turn { index: None, kernel };
        }
        let mut state = self.state.lock();
        match &mut *state {
            State::Trying(trying) if cudnn::device().is_capturing(stream) => {
                kernel = trying.trial.kernel(call);
            }
            State::Trying(trying) => {
                let (index, kernel) = trying.trial.step(call, is_ours);
                if let Some(least) = trying.trial.best(call) {
                    self.usual[call as usize].store(least.to_bits(), Ordering::Relaxed);
                }
                return Turn { index, kernel };
            }
            State::Settled(settled) => {
                kernel = settled.verdict.kernels.get(call as usize).cloned().flatten();
                let is_new = !settled.weighs[call as usize] && is_made(&self.seen(), call);
                if is_new && !is_forced() && !cudnn::device().is_capturing(stream) {
                    // The decision did not know of this call. Unloading kernels may wait for the device.
                    let settled = std::mem::replace(&mut *state, State::Untouched(UNTOUCHED));
                    drop(state);
                    later(move || drop(settled));
                    return Turn { index: None, kernel: kernel.filter(|_| is_ours) };
                }
            }
            State::Untouched(forwards) if call == Call::Forward => *forwards += 1,
            _ => {}
        }
        Turn { index: None, kernel: kernel.filter(|_| is_ours) }
    }

    /// Runs a call by `run`, between time marks if its turn is to be timed. `run` returns the status, and whether the kernel
    /// ran that it got.
    pub fn timed(
        &self,
        (call, turn): (Call, Turn),
        (steps, stream): (usize, Stream),
        run: impl FnOnce(Option<&Arc<Engine>>) -> (cudnnStatus_t, bool),
    ) -> cudnnStatus_t {
        let Some(index) = turn.index else { return run(turn.kernel.as_ref()).0 };
        let device = cudnn::device();
        let started = Started::start(device, stream);
        let (status, has_run) = run(turn.kernel.as_ref());
        let timed: Option<Timed> = started.and_then(|started| started.end(device, stream));
        self.with_trial(|trial| match status {
            CUDNN_STATUS_SUCCESS if has_run => trial.ran((call, index), steps, timed),
            // A refused call does not count against a candidate, nor does memory that its kernel cannot take.
            _ => trial.skipped(call),
        });
        status
    }

    /// Returns whether our kernels have failed.
    pub fn has_given_up(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Our kernels failed: each time step is a launch in passes that have begun, and cuDNN runs the next ones, unless ours
    /// are forced.
    pub fn give_up(&self, why: &str) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            let then = if is_forced() { "" } else { " until cuDNN runs it" };
            log::warn!(
                "training of {} failed on a persistent kernel: {why}; each time step is a launch from now on{then}",
                self.key.subject
            );
            let verdict = Verdict { is_ours: is_forced(), kernels: [None, None] };
            let given_up = State::Settled(Settled { verdict, weighs: [true; 3] });
            let before = std::mem::replace(&mut *self.state.lock(), given_up);
            // Unloading kernels may wait for the device. Other processes may time the network now.
            later(move || drop(before));
        }
    }
}

/// Returns whether our kernels train wherever they can.
pub(super) fn is_forced() -> bool {
    settings::get().rnn_training == RnnTraining::Force
}
