//! Runs a convolution call: by the promised plan, by the decision of an exploration, or by cuDNN undivided.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use cudnn_abi::*;

use super::book::{Ask, Course, Decision, Page};
use super::call::Call;
use crate::candidates;
use crate::exec::{self, Failure, Plan};
use crate::legacy::sampling::sampling;
use crate::problem::Problem;
use crate::problem::algorithm::{Algorithm, Class};
use cudnn::calls;
use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::Descriptors;
use gpu::Stream;
use guest::settings::{self, Numerics};
use tuning::record::{End, Record, Wanted};
use tuning::report::{self, Chosen};
use tuning::running::{Exploration, Step, Timing};
use tuning::search::{Goal, Next, Search};

/// Executions of a problem that run as requested before any explores.
const UNTOUCHED: usize = 2;

/// How a call is about to run. If anything else fails, cuDNN runs undivided.
enum Run {
    /// cuDNN, undivided.
    Undivided,
    /// A plan.
    Plan(Arc<Plan>),
    /// The exploration's next step. If that is not possible, the plan, if there is one.
    Explore(Option<Arc<Plan>>),
    /// Nothing is decided yet: begin to explore.
    Begin,
}

impl From<Option<Arc<Plan>>> for Run {
    fn from(plan: Option<Arc<Plan>>) -> Self {
        plan.map_or(Self::Undivided, Self::Plan)
    }
}

/// A call whose problem is known.
pub struct Running<'a> {
    pub call: &'a Call,
    pub problem: &'a Problem,
    pub page: &'a Page,
    /// `ask.id` is the algorithm that runs undivided in this call's workspace: the requested one, or the fallback of
    /// the promise for that id.
    pub ask: Ask,
    /// Set if no admitted algorithm runs undivided in this call's workspace.
    pub must_divide: bool,
    /// Set when a part has added to the result, so that the call cannot run again.
    pub spent: &'a Cell<bool>,
}

impl Running<'_> {
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    pub unsafe fn run(&mut self) -> cudnnStatus_t {
        let mut stream = std::ptr::null_mut();
        let mut run = self.decide();
        if matches!(run, Run::Begin | Run::Explore(_)) {
            // SAFETY: the handle is the program's, and `stream` is a place for one pointer.
            let known = unsafe { calls::cudnnGetStream(self.call.handle, &mut stream) } == CUDNN_STATUS_SUCCESS;
            let capturing = !known || cudnn::device().is_capturing(stream);
            run = match run {
                Run::Begin if capturing && !self.must_divide => Run::Undivided,
                // SAFETY: `begin` requires only what our caller promised for the call.
                Run::Begin => unsafe { self.begin() },
                Run::Explore(meanwhile) if capturing => meanwhile.into(),
                other => other,
            };
        }
        // SAFETY: all three functions require only what our caller promised for the call.
        unsafe {
            match run {
                Run::Undivided | Run::Begin => self.call.run_undivided(self.ask.id),
                Run::Plan(plan) => self.run_plan(&plan),
                Run::Explore(meanwhile) => self.explore(meanwhile, stream),
            }
        }
    }

    fn decide(&mut self) -> Run {
        let (asked_for, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        let mut state = self.page.state.lock();
        state.executions = state.executions.saturating_add(1);
        if let Some(promise) = state.promise(asked_for, self.call.workspace.size) {
            self.ask.limit = self.ask.limit.min(promise.question.limit);
            if promise.undivided > self.call.workspace.size {
                self.must_divide = self.ask.only || promise.fallback.is_none();
                self.ask.id = promise.fallback.filter(|_| !self.ask.only).unwrap_or(asked_for);
            }
            if let Some(plan) = &promise.plan
                && (!self.ask.only || plan.runs_only(asked_for))
            {
                return (!promise.broken[usize::from(fused)]).then(|| plan.clone()).into();
            }
        }
        let begins = self.must_divide || state.executions > UNTOUCHED || !state.measured.is_empty();
        match state.decision(self.ask).map(|decision| &mut decision.course) {
            None if begins => Run::Begin,
            None => Run::Undivided,
            Some(Course::Settled(plan)) => plan.clone().into(),
            Some(Course::Exploring { meanwhile, .. }) => Run::Explore(meanwhile.clone()),
        }
    }

    /// Begins to explore.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn begin(&self) -> Run {
        // SAFETY: `course` requires only what our caller promised for the call.
        let (course, covers) = unsafe { self.course() }.unwrap_or((Course::Settled(None), 0..usize::MAX));
        let explores = matches!(course, Course::Exploring { .. });
        let mut state = self.page.state.lock();
        let is_first = state.decision(self.ask).is_none();
        if is_first {
            state.decisions.push(Decision { key: self.ask, covers, course });
        }
        let run = match state.decision(self.ask).map(|decision| &decision.course) {
            Some(Course::Exploring { meanwhile: plan, .. } | Course::Settled(plan)) => plan.clone().into(),
            None => Run::Undivided,
        };
        drop(state);
        if is_first && explores {
            report::exploring(self.problem, self.ask.limit);
        }
        run
    }

    /// Returns what to explore, and the limits that it covers. `None` for an algorithm that cuDNN does not list: that
    /// one runs as requested.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn course(&self) -> Option<(Course, Range<usize>)> {
        let Call { handle, descriptors, .. } = *self.call;
        let (problem, Ask { id, limit, only, sizes }) = (self.problem, self.ask);
        // SAFETY: cuDNN's Get function takes the call's handle and descriptors too.
        let offered = unsafe { descriptors.get_algorithms(handle) }.ok()?;
        let chosen = Descriptors::of_algorithm(&offered, id, problem.math_type)?;
        let chosen = AlgoPerf { mathType: problem.math_type, ..chosen };
        let own = Algorithm::of(problem.direction, &chosen);
        let numerics = settings::get().numerics;
        let class = Class { only: only.then_some(id), ..Class::of(&chosen, numerics) };

        let device = cudnn::device();
        // SAFETY: the handle is the program's, from this call.
        let mut candidates = unsafe {
            candidates::candidates(handle, problem, &offered, class, &candidates::sizes(problem, sizes, device))
        };
        let covers = candidates::covers(&candidates, limit);
        candidates.sort_by_key(|candidate| candidate.algorithm != own);
        let wanted = Wanted::among(candidates, Goal::Fastest { limit }, sizes, class);
        let measured = self.page.state.lock().measured.clone();
        let mut search = Record::of(problem, device, device.ordinal()).search(&wanted, &measured, &[End::Explored]);
        if search.wants() == Next::Nothing && !search.measured().is_empty() {
            return Some((Course::Settled(self.chosen(&search, own)), covers));
        }
        let fitting: Vec<_> =
            wanted.candidates.iter().filter(|candidate| candidate.workspace <= limit).copied().collect();
        let fits = fitting.iter().any(|c| c.batch == problem.batch() && c.algorithm == own);
        let untimed = if fits { None } else { candidates::any_division(problem.batch(), &fitting) };
        let meanwhile = search.best().map(|(best, _)| best).or(untimed);
        let meanwhile = meanwhile.and_then(|best| Plan::new(problem, best).ok()).map(Arc::new);
        let course = match numerics {
            // Exploration changes the parts, and thereby the sums, from call to call.
            Numerics::Deterministic => Course::Settled(meanwhile),
            _ => Course::Exploring { exploration: Box::new(Exploration::new(wanted, search, own)), meanwhile },
        };
        Some((course, covers))
    }

    /// Ends an exploration. Keeps and returns its best plan; `None` keeps the requested algorithm.
    fn settle(&self) -> Option<Arc<Plan>> {
        let mut found = None;
        self.with_exploration(|exploration| {
            found = Some((exploration.own(), exploration.wanted().clone(), exploration.search().clone()));
        });
        let (own, wanted, mut search) = found?;
        let plan = self.chosen(&search, own);
        let mut state = self.page.state.lock();
        state.learn(search.measured());
        if let Some(decision) = state.decision(self.ask) {
            decision.course = Course::Settled(plan.clone());
        }
        drop(state);
        let device = cudnn::device();
        let record = Record::of(self.problem, device, device.ordinal());
        record.found(search.found(), device.ordinal());
        let end = if search.wants() == Next::Nothing { End::Complete } else { End::Explored };
        record.ended(&wanted, &search, end);
        plan
    }

    /// Returns the best plan of a search. `None` if there is none, or it is the requested algorithm undivided.
    fn chosen(&self, search: &Search<Algorithm>, own: Algorithm) -> Option<Arc<Plan>> {
        let found = search.best().and_then(|(best, time)| Some((Plan::new(self.problem, best).ok()?, time)));
        let Some((plan, time)) = found else {
            report::unchanged(self.problem, self.ask.limit);
            return None;
        };
        let configuration = plan.configuration();
        let as_asked = configuration.is_undivided() && configuration.parts()[0].1.algorithm == own;
        let undivided = search.undivided();
        report::chosen(&Chosen {
            event: "ran",
            problem: plan.problem(),
            configuration,
            workspace: plan.workspace(),
            limit: self.ask.limit,
            time,
            undivided,
        });
        (!as_asked).then(|| Arc::new(plan))
    }

    /// Runs the next step of an exploration with marks in the stream, or the plan that it found.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn explore(&self, meanwhile: Option<Arc<Plan>>, stream: Stream) -> cudnnStatus_t {
        let mut step = None;
        self.with_exploration(|exploration| step = Some(exploration.step()));
        let found = match step {
            // SAFETY: `try_out` requires only what our caller promised for the call.
            Some(Step::Run(next)) => return unsafe { self.try_out(&next, meanwhile, stream) },
            Some(Step::Settled) => self.settle(),
            Some(Step::Wait) | None => meanwhile,
        };
        // SAFETY: both functions require only what our caller promised for the call.
        unsafe {
            match found {
                Some(plan) => self.run_plan(&plan),
                None => self.call.run_undivided(self.ask.id),
            }
        }
    }

    /// Runs an exploration's step.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn try_out(&self, next: &Next<Algorithm>, meanwhile: Option<Arc<Plan>>, stream: Stream) -> cudnnStatus_t {
        let device = cudnn::device();
        // SAFETY: `wanted` requires only what our caller promised for the call.
        let plan = unsafe { self.wanted(next) };
        let timing = plan.as_ref().and_then(|_| Timing::start(next.clone(), device, stream));
        let mut ran = Err(Failure { status: CUDNN_STATUS_NOT_SUPPORTED, result_modified: false });
        let mut times = None;
        if let (Some(plan), Some(mut timing)) = (plan, timing) {
            // SAFETY: `run_parts` requires only what our caller promised for the call.
            ran = unsafe { self.run_parts(&plan, |batch, algorithm| timing.part(batch, algorithm, device, stream)) };
            times = ran.is_ok().then(|| timing.end(device, stream));
        }
        self.with_exploration(|exploration| exploration.ran(next, times));
        match (ran, meanwhile) {
            (Ok(()), _) => CUDNN_STATUS_SUCCESS,
            (Err(failure), _) if failure.result_modified => failure.status,
            // SAFETY: `run_plan` requires only what our caller promised for the call.
            (Err(_), Some(plan)) => unsafe { self.run_plan(&plan) },
            // SAFETY: our caller promised valid arguments, and cuDNN refuses an algorithm that does not fit.
            (Err(_), None) => unsafe { self.call.run_undivided(self.ask.id) },
        }
    }

    /// Makes the plan for an exploration's step.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn wanted(&self, next: &Next<Algorithm>) -> Option<Plan> {
        let (mut own, mut trial) = (None, None);
        self.with_exploration(|exploration| {
            own = Some(exploration.own());
            trial = match next {
                Next::Try(index) => exploration.search().trial(*index).cloned(),
                _ => None,
            };
        });
        // SAFETY: the operands are those of this call, and `problem` is its problem.
        let adds = unsafe { exec::adds_to_result(self.problem, &self.call.operands) };
        match next {
            Next::Time(candidate) => {
                // SAFETY: the handle is the program's, from this call.
                let parts = unsafe { sampling(self.call.handle, self.problem, candidate, own?, self.ask.limit, adds) };
                Plan::in_order(self.problem, &parts?).ok()
            }
            _ => Plan::new(self.problem, trial?).ok(),
        }
    }

    fn with_exploration(&self, act: impl FnOnce(&mut Exploration<Problem>)) {
        let mut state = self.page.state.lock();
        if let Some(Decision { course: Course::Exploring { exploration, .. }, .. }) = state.decision(self.ask) {
            act(exploration);
        }
    }

    /// Runs a plan's parts in the call's workspace.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn run_parts(&self, plan: &Plan, after: impl FnMut(usize, Algorithm)) -> Result<(), Failure> {
        // SAFETY: our caller promised valid arguments, and the call's own workspace is the call's to overwrite.
        unsafe { self.call.run_parts(plan, self.call.workspace, self.spent, after) }
    }

    /// Runs a plan. If that fails, runs cuDNN undivided.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn run_plan(&self, plan: &Plan) -> cudnnStatus_t {
        // SAFETY: `run_parts` requires only what our caller promised for the call.
        let Err(failure) = (unsafe { self.run_parts(plan, |_, _| ()) }) else { return CUDNN_STATUS_SUCCESS };
        let status = failure.status;
        // An error that cuDNN blames on the program's arguments says nothing about the plan.
        if !(CUDNN_STATUS_BAD_PARAM..CUDNN_STATUS_NOT_SUPPORTED).contains(&status) {
            log::warn!("{}: {} failed with status {status}; it runs undivided", self.problem, plan.configuration());
            self.give_up();
        }
        if failure.result_modified {
            return status;
        }
        // SAFETY: our caller promised valid arguments. The fallback fits, and cuDNN refuses an algorithm that does not.
        unsafe { self.call.run_undivided(self.ask.id) }
    }

    /// Drops a plan that failed: the call runs undivided from now on.
    fn give_up(&self) {
        let mut state = self.page.state.lock();
        let decision = state.decision(self.ask);
        let before = decision.map(|decision| std::mem::replace(&mut decision.course, Course::Settled(None)));
        let (id, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        for promise in state.promises.iter_mut().filter(|promise| promise.entry.algo == id) {
            promise.broken[usize::from(fused)] = true;
        }
        drop(state);
        if let Some(Course::Exploring { .. }) = before {
            report::unchanged(self.problem, self.ask.limit);
        }
    }
}
