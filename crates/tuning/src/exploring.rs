//! Tuning a problem while the program runs, from the first execution to the settled plan. The steps are the same for all
//! subjects: a background thread looks the problem up in the databases and enumerates candidates, executions try them, and
//! the best plan runs from then on.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use gpu::background::{self, Queue};
use gpu::{Device, Stream};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use planner::Configuration;

use crate::allowance;
use crate::database::TuningLock;
use crate::elsewhere::Elsewhere;
use crate::milliseconds::Milliseconds;
use crate::record::{End, Record, Wanted};
use crate::report::{self, Chosen};
use crate::running::{Exploration, Marks, Step, Trial};
use crate::search::{Candidate, Next, Search};
use crate::steps;
use crate::subject::Subject;
use guest::summary::Tried;

/// A subject within one limit, as the executions of a program tune it.
pub trait Explored: Send + Sync + Sized + 'static {
    /// Its subject.
    type Subject: Subject;
    /// A configuration that is ready to run.
    type Plan: Send + Sync + 'static;

    /// The subject.
    fn subject(&self) -> &Self::Subject;
    /// The most bytes of workspace.
    fn limit(&self) -> usize;
    /// The progress of its tuning.
    fn exploring(&self) -> &Exploring<Self::Subject, Self::Plan>;
    /// Returns whether all that [`Self::wanted`] needs is known, to the databases at least.
    fn is_prepared(&self) -> bool {
        true
    }
    /// Finds out what [`Self::wanted`] needs, on a background thread: this may take milliseconds. It is not called if
    /// nothing may ever be explored.
    fn prepare(&self) {}
    /// The goal, without candidates.
    fn wanted(&self) -> Wanted<Self::Subject>;
    /// Returns a micro-configuration that the database knows, with the workspace that it really needs. `None` if a plan
    /// may not use it.
    fn recalled(&self, known: Known<Self>) -> Option<Known<Self>>;
    /// The requested algorithm, once an execution explores.
    fn requested(&self) -> Option<<Self::Subject as Subject>::Algorithm>;
    /// The bytes of workspace that the requested algorithm needs, if they are known without its candidate.
    fn plain_workspace(&self) -> Option<usize> {
        None
    }
    /// Enumerates the candidates in the order in which to try them, on a background thread: this may take seconds.
    fn enumerate(&self) -> Vec<Candidate<<Self::Subject as Subject>::Algorithm>>;
    /// Makes a configuration ready. `None` if it does not run, or needs more than the limit.
    fn plan(&self, configuration: Configuration<<Self::Subject as Subject>::Algorithm>) -> Option<Self::Plan>;
    /// The configuration of a plan, and its bytes of workspace.
    fn of_plan(plan: &Self::Plan) -> (&Configuration<<Self::Subject as Subject>::Algorithm>, usize);
    /// The number of the device that it runs on; `None` for the calling thread's.
    fn ordinal(&self) -> Option<i32>;
    /// Tuning has ended: lets go of all that only candidates need.
    fn forget_candidates(&self);
}

/// A micro-configuration of an explored subject.
pub type Known<E> = Candidate<<<E as Explored>::Subject as Subject>::Algorithm>;

/// The most threads that enumerate candidates. One problem takes a thread a second or more: cuDNN answers queries and
/// finalizes plans, and NVRTC compiles our kernels.
const MOST_THREADS: usize = 4;

/// The log's words on a problem whose job is not done.
const OTHERWISE: &str = "what was not tuned yet runs as it was ready";

/// Enumerates the candidates of a few problems at a time, and leaves half of the processors to the program.
static ENUMERATIONS: Queue =
    Queue::new(|| (thread::available_parallelism().map_or(1, NonZero::get) / 2).clamp(1, MOST_THREADS), OTHERWISE);

/// Looks problems up in the databases, which takes little. What is known does not wait until others are enumerated.
static LOOKUPS: Queue = Queue::new(|| 1, OTHERWISE);

/// The algorithm of an explored subject.
type Algorithm<E> = <<E as Explored>::Subject as Subject>::Algorithm;

/// The progress of tuning while the program runs.
pub struct Exploring<K: Subject, P> {
    /// Do not hold this lock across calls that may block.
    course: Mutex<Course<K>>,
    /// The plan that runs once tuning has ended. `None` if tuning found none.
    settled: OnceCell<Option<Arc<P>>>,
    /// The time of an execution as requested, or of the settled plan where that is all that is known; 0 while none is.
    usual: Milliseconds,
    /// The time that the settled plan saves against the requested algorithm; 0 while it is not known.
    saves: Milliseconds,
    /// Until tuning ends.
    tried: Mutex<Option<Tried>>,
    elsewhere: Elsewhere,
}

enum Course<K: Subject> {
    /// No execution has explored yet.
    Untouched,
    /// A background thread looks the problem up in the databases, or enumerates candidates.
    Enumerating,
    /// Another process explores the problem, at least it did at this moment. Its results come by the database.
    Elsewhere(Instant),
    /// Executions try the candidates. No other process does.
    Exploring(Box<Exploration<K>>, Option<TuningLock>),
    /// Tuning has ended.
    Ended,
}

impl<K: Subject, P> Default for Exploring<K, P> {
    fn default() -> Self {
        Self {
            course: Mutex::new(Course::Untouched),
            settled: OnceCell::new(),
            usual: Milliseconds::default(),
            saves: Milliseconds::default(),
            tried: Mutex::new(None),
            elsewhere: Elsewhere::default(),
        }
    }
}

impl<K: Subject, P> Exploring<K, P> {
    /// Counts an execution as the program's time, as far as its time is known.
    pub fn executed(&self) {
        allowance::of_process().executed(self.usual.get());
    }

    /// Counts what the settled plan has saved in an execution.
    pub fn saved(&self) {
        let saves = self.saves.get();
        steps::saved((saves != 0.0).then_some(saves));
    }

    fn is_usual(&self, time: Option<f64>) {
        if let Some(time) = time {
            self.usual.set(time);
        }
    }

    /// Returns the settled plan, once tuning has ended; `Some(None)` if tuning found none.
    pub fn settled(&self) -> Option<&Option<Arc<P>>> {
        self.settled.get()
    }

    /// Ends tuning with a plan, or with none. An earlier end stays.
    pub fn settle(&self, plan: Option<Arc<P>>) -> Option<Arc<P>> {
        *self.course.lock() = Course::Ended;
        *self.tried.lock() = None;
        self.settled.get_or_init(|| plan).clone()
    }

    /// Returns whether candidates were not enumerated yet.
    pub fn is_untouched(&self) -> bool {
        matches!(*self.course.lock(), Course::Untouched)
    }

    /// The configuration to try in place at this index.
    pub fn trial(&self, index: usize) -> Option<Configuration<K::Algorithm>> {
        match &*self.course.lock() {
            Course::Exploring(exploration, _) => exploration.search().trial(index).cloned(),
            _ => None,
        }
    }

    /// Runs a step with marks in the stream. `run` gets a function to call after each micro-batch, or `None` if the
    /// device makes no marks: then it fails. `finish` completes the execution after it, whatever came of it.
    pub fn try_out<F, S>(
        &self,
        trial: &Trial<K::Algorithm>,
        (device, stream): (Device, Stream),
        run: impl FnOnce(Option<&mut dyn FnMut(usize, K::Algorithm)>) -> Result<(), F>,
        finish: impl FnOnce(Result<(), F>) -> S,
    ) -> S {
        steps::tried();
        let mut timing = Marks::start(trial.clone(), device, stream);
        let ran = match &mut timing {
            Some(timing) => run(Some(&mut |batch, algorithm| timing.part(batch, algorithm, device, stream))),
            None => run(None),
        };
        let is_timed = ran.is_ok();
        let status = finish(ran);
        let timed = timing.filter(|_| is_timed).map(|timing| timing.end(device, stream));
        if let Course::Exploring(exploration, _) = &mut *self.course.lock() {
            exploration.ran(trial, timed);
        }
        status
    }
}

/// Chooses the next execution's step. The first call has background threads look the problem up in the databases, and
/// enumerate the candidates if none knows it.
pub fn step<E: Explored>(explored: &Arc<E>) -> Step<Algorithm<E>> {
    let mut course = explored.exploring().course.lock();
    let is_first = matches!(*course, Course::Untouched);
    match &mut *course {
        Course::Exploring(exploration, _) => {
            let step = exploration.step(allowance::of_process());
            explored.exploring().is_usual(exploration.usual_time());
            return step;
        }
        Course::Elsewhere(since) if !Elsewhere::is_due(*since) => return Step::Wait,
        Course::Enumerating | Course::Ended => return Step::Wait,
        Course::Untouched | Course::Elsewhere(_) => *course = Course::Enumerating,
    }
    if is_first && allowance::of_process().explores() {
        *explored.exploring().tried.lock() = Some(Tried::begin());
    }
    drop(course);
    if is_first {
        report::exploring(explored.subject(), explored.limit());
    }
    let (explored, device) = (explored.clone(), cudnn::device());
    let ordinal = explored.ordinal().unwrap_or_else(|| device.ordinal());
    LOOKUPS.later(device, ordinal, move || {
        if background::stopped() || look_up(&*explored) {
            return;
        }
        ENUMERATIONS.later(device, ordinal, move || {
            if !background::stopped() {
                begin(&*explored);
            }
        });
    });
    Step::Wait
}

/// The plan that an exploration found, and its search.
pub type Settled<E> = (Option<Arc<<E as Explored>::Plan>>, Option<Search<Algorithm<E>>>);

/// Ends an exploration. Keeps and returns the plan that it found, and the search.
pub fn settle<E: Explored>(explored: &E) -> Settled<E> {
    let exploring = explored.exploring();
    let course = std::mem::replace(&mut *exploring.course.lock(), Course::Ended);
    // The lock is released once the results are stored.
    let Course::Exploring(exploration, _lock) = course else {
        return (exploring.settled.get().cloned().flatten(), None);
    };
    let (wanted, mut search) = (exploration.wanted().clone(), exploration.search().clone());
    let plan = settle_on(explored, &search, best(explored, &search));
    let device = cudnn::device();
    let record = Record::of(explored.subject(), device, device.ordinal());
    record.found(search.found(), device.ordinal());
    let end = if search.wants() == Next::Nothing { End::Complete } else { End::Explored };
    record.ended(&wanted, &search, end);
    (plan, Some(search))
}

/// Settles from known times, if no candidate is left to time. Returns true if it settled.
pub fn recall<E: Explored>(explored: &E, measured: &[planner::MicroConfiguration<Algorithm<E>>]) -> bool {
    let device = cudnn::device();
    let record = Record::of(explored.subject(), device, device.ordinal());
    let known = record.candidates().into_iter().filter_map(|known| explored.recalled(known)).collect();
    let mut search = record.search(&explored.wanted().with_candidates(known), measured, &[End::Explored]);
    // The times of whole configurations in place decide. They are looked up once no candidate is left to time.
    if !search.has_ended() || search.wants() != Next::Nothing {
        return false;
    }
    let found = best(explored, &search);
    let is_found = found.is_some();
    if is_found {
        settle_on(explored, &search, found);
    }
    is_found
}

/// Settles the problem if a database knows it. Returns whether nothing is left to do.
fn look_up<E: Explored>(explored: &E) -> bool {
    let is_found = explored.is_prepared() && recall(explored, &[]);
    is_found || !allowance::of_process().explores()
}

/// Enumerates the candidates, unless a database knows all of them by now or another process explores them.
fn begin<E: Explored>(explored: &E) {
    explored.prepare();
    let (subject, device) = (explored.subject(), cudnn::device());
    let record = Record::of(subject, device, device.ordinal());
    // Taken before the database is asked: whoever held it has stored its results.
    let lock = record.begin_exploring();
    if recall(explored, &[]) {
        return;
    }
    if lock.is_none() && explored.exploring().elsewhere.waits() {
        log::debug!("{subject}: another process explores it");
        let mut course = explored.exploring().course.lock();
        if matches!(*course, Course::Enumerating) {
            *course = Course::Elsewhere(Instant::now());
        }
        return;
    }
    let lock = lock.flatten();
    let begin = Instant::now();
    let wanted = explored.wanted().with_candidates(explored.enumerate());
    let search = record.search(&wanted, &[], &[End::Explored]);
    log::debug!(
        "{subject}: {} candidates in {:.1} ms, {} of them to be timed",
        wanted.candidates.len(),
        begin.elapsed().as_secs_f64() * 1e3,
        search.remaining()
    );
    let Some(requested) = explored.requested() else { return };
    let exploration = Exploration::new(wanted, search, requested);
    let mut course = explored.exploring().course.lock();
    if matches!(*course, Course::Enumerating) {
        *course = Course::Exploring(Box::new(exploration), lock);
    }
}

/// Returns a search's best plan and its milliseconds. `None` if no plan runs within the limit.
fn best<E: Explored>(explored: &E, search: &Search<Algorithm<E>>) -> Option<(Arc<E::Plan>, f64)> {
    let (configuration, time) = search.best_beside(explored.requested())?;
    Some((Arc::new(explored.plan(configuration)?), time))
}

/// Ends tuning with the plan that a search found, and returns the settled plan.
fn settle_on<E: Explored>(
    explored: &E,
    search: &Search<Algorithm<E>>,
    found: Option<(Arc<E::Plan>, f64)>,
) -> Option<Arc<E::Plan>> {
    let (subject, limit) = (explored.subject(), explored.limit());
    match &found {
        Some((plan, time)) => {
            let (configuration, workspace) = E::of_plan(plan);
            let undivided = search.undivided();
            let whole = explored.requested().and_then(|requested| search.whole_of(requested));
            let plain = whole.map(|(_, time)| time);
            if let Some(plain) = plain {
                explored.exploring().saves.set(plain - *time);
            }
            if explored.exploring().usual.get() == 0.0 {
                explored.exploring().is_usual(Some(*time));
            }
            report::chosen(&Chosen {
                event: "ran",
                problem: subject,
                configuration,
                workspace,
                limit,
                time: *time,
                undivided,
                plain,
                plain_workspace: explored.plain_workspace().or(whole.map(|(micro, _)| micro.workspace)),
            });
        }
        None => report::unchanged(subject, limit),
    }
    let settled = explored.exploring().settle(found.map(|(plan, _)| plan));
    explored.forget_candidates();
    settled
}
