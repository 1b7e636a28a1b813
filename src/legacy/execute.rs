//! What a convolution call runs: the plan that was promised, what exploring decided, or cuDNN as asked.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::answer;
use super::book::{self, Ask, Course, Decision, Page};
use super::policies;
use super::report::{self, Chosen};
use crate::cudnn::algorithm::{Algorithm, Class};
use crate::cudnn::calls;
use crate::cudnn::calls::query::AlgoPerf;
use crate::cudnn::convolution::{Descriptors, Operands, Workspace};
use crate::cudnn::kernel::Kernel;
use crate::device::{Device, Stream};
use crate::exec::{self, Check, Failure, Plan};
use crate::plan::Configuration;
use crate::settings::{self, Numerics, Policy};
use crate::tune::candidates;
use crate::tune::running::{Exploration, Step, Timing, sampling};
use crate::tune::search::{Next, Search};

/// Whether the process has run a convolution yet.
pub static EXECUTED: AtomicBool = AtomicBool::new(false);

/// Executions of a kernel that run as asked before any is used to explore.
const UNTOUCHED: usize = 2;

/// One convolution call.
#[derive(Clone, Copy)]
pub struct Call {
    pub handle: cudnnHandle_t,
    pub descriptors: Descriptors,
    pub algorithm: c_int,
    pub operands: Operands,
    pub workspace: Workspace,
}

/// What a call is going to run. Whatever else fails, cuDNN runs undivided.
enum Run {
    /// cuDNN, undivided.
    Undivided,
    /// A plan.
    Plan(Arc<Plan>),
    /// What the exploration wants; if that cannot be, the plan if there is one.
    Explore(Next, Option<Arc<Plan>>),
    /// The exploration is over.
    Settle(Option<(Configuration<Algorithm>, f64)>),
    /// Nothing is decided yet: begin to explore.
    Begin,
}

impl From<Option<Arc<Plan>>> for Run {
    fn from(plan: Option<Arc<Plan>>) -> Self {
        plan.map_or(Self::Undivided, Self::Plan)
    }
}

/// Runs a convolution call; nothing that fails inside us is seen by the program, as long as what its
/// result held is not lost.
///
/// # Safety
/// The arguments are those of a cuDNN convolution call.
pub unsafe fn convolve(call: &Call) -> cudnnStatus_t {
    let spent = Cell::new(false);
    // SAFETY: as ours.
    let ran = catch_unwind(AssertUnwindSafe(|| unsafe { call.run(&spent) }));
    ran.unwrap_or_else(|_| {
        log::error!("a panic inside ucudnn: the convolution runs undivided");
        if spent.get() {
            return CUDNN_STATUS_EXECUTION_FAILED;
        }
        // SAFETY: as ours; nothing has changed the result for good.
        let ran = catch_unwind(AssertUnwindSafe(|| unsafe { call.run_ready() }));
        ran.unwrap_or(CUDNN_STATUS_EXECUTION_FAILED)
    })
}

impl Call {
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run(&self, spent: &Cell<bool>) -> cudnnStatus_t {
        if policies::all_off() {
            // SAFETY: as ours.
            return unsafe { self.run_as(self.algorithm) };
        }
        let policies = policies::of(self.handle);
        if policies.policy == Policy::Off {
            // SAFETY: as ours.
            return unsafe { self.run_ready() };
        }
        EXECUTED.store(true, Ordering::Relaxed);
        settings::fault_point("convolve");
        // SAFETY: as ours.
        let Some(kernel) = (unsafe { Kernel::read(&self.descriptors) }) else {
            // SAFETY: as ours.
            return unsafe { self.run_as(self.algorithm) };
        };
        let page = book::page(Device::current(), &kernel);
        // SAFETY: as ours.
        let only = unsafe { self.takes_no_other() };
        let limit = policies.call_limit(self.workspace.size);
        let ask = Ask { id: self.algorithm, limit, only, sizes: policies.batch_size_policy };
        let mut running = Running { call: self, kernel: &kernel, page: &page, ask, must_divide: false, spent };
        // SAFETY: as ours.
        unsafe { running.run() }
    }

    /// cuDNN, undivided, by `algorithm`.
    ///
    /// # Safety
    /// As for [`convolve`]; the algorithm needs no more than the workspace, or cuDNN refuses it.
    unsafe fn run_as(&self, algorithm: c_int) -> cudnnStatus_t {
        // SAFETY: as ours.
        unsafe { self.descriptors.convolve(self.handle, algorithm, &self.operands, self.workspace) }
    }

    /// The ready configuration if we promised one for the workspace that we got, else as asked.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run_ready(&self) -> cudnnStatus_t {
        // SAFETY: as ours.
        let promise = unsafe { answer::promise(&self.descriptors, self.algorithm, self.workspace.size) };
        let (ready, plan) = promise.map_or((None, None), |promise| (promise.ready, promise.plan));
        if let (None, Some(plan)) = (ready, plan) {
            // SAFETY: the plan needs no more than was reported.
            let ran = unsafe { exec::run(&plan, self.handle, &self.operands, self.workspace, |_, _| ()) };
            return ran.map_or_else(|failure| failure.status, |()| CUDNN_STATUS_SUCCESS);
        }
        // SAFETY: the ready configuration runs in what was reported.
        unsafe { self.run_as(ready.unwrap_or(self.algorithm)) }
    }

    /// Whether cuDNN runs this call by no other algorithm than the one asked for: a fused call with
    /// the identity activation.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn takes_no_other(&self) -> bool {
        let Some(epilogue) = &self.operands.epilogue else { return false };
        if epilogue.activation.is_null() {
            return true; // for cuDNN to refuse
        }
        let (mut mode, mut nan, mut coefficient) = (0, 0, 0.0);
        // SAFETY: the program's descriptor, and places for its values.
        let status =
            unsafe { calls::cudnnGetActivationDescriptor(epilogue.activation, &mut mode, &mut nan, &mut coefficient) };
        status != CUDNN_STATUS_SUCCESS || mode == CUDNN_ACTIVATION_IDENTITY
    }
}

/// A call whose kernel is known.
struct Running<'a> {
    call: &'a Call,
    kernel: &'a Kernel,
    page: &'a Page,
    /// The algorithm in it is the one that runs undivided in this call's workspace: the one that the
    /// program asked for, or the ready configuration of what it was promised under that id.
    ask: Ask,
    /// No algorithm that may be used runs undivided in this call's workspace.
    must_divide: bool,
    /// Set when the result has been added to, so that the call cannot be run anew.
    spent: &'a Cell<bool>,
}

impl Running<'_> {
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run(&mut self) -> cudnnStatus_t {
        let mut stream = std::ptr::null_mut();
        let mut run = self.decide();
        if matches!(run, Run::Begin | Run::Explore(..)) {
            // SAFETY: the program's handle.
            let known = unsafe { calls::cudnnGetStream(self.call.handle, &mut stream) } == CUDNN_STATUS_SUCCESS;
            let capturing = !known || Device::current().is_capturing(stream);
            run = match run {
                Run::Begin if capturing && !self.must_divide => Run::Undivided,
                // SAFETY: as ours.
                Run::Begin => unsafe { self.begin() },
                Run::Explore(_, meanwhile) if capturing => {
                    self.with_exploration(Exploration::put_back);
                    meanwhile.into()
                }
                explore => explore,
            };
        }
        if let Run::Settle(best) = run {
            run = self.settle(best);
        }
        // SAFETY: as ours.
        unsafe {
            match run {
                Run::Undivided | Run::Begin | Run::Settle(_) => self.call.run_as(self.ask.id),
                Run::Plan(plan) => self.run_plan(&plan),
                Run::Explore(next, meanwhile) => self.explore(&next, meanwhile, stream),
            }
        }
    }

    fn decide(&mut self) -> Run {
        let (asked_for, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        let mut state = self.page.state.lock();
        state.executions = state.executions.saturating_add(1);
        if let Some(promise) = state.promise(asked_for, self.call.workspace.size) {
            self.ask.limit = self.ask.limit.min(promise.question.limit);
            self.must_divide = self.ask.only || promise.ready.is_none();
            if !self.must_divide {
                self.ask.id = promise.ready.unwrap_or(asked_for);
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
            Some(Course::Exploring { exploration, meanwhile }) => match exploration.step() {
                Step::Run(next) => Run::Explore(next, meanwhile.clone()),
                Step::Wait => meanwhile.clone().into(),
                Step::Settled(best) => Run::Settle(best),
            },
        }
    }

    /// Begins to explore.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn begin(&self) -> Run {
        // SAFETY: as ours.
        let course = unsafe { self.course() }.unwrap_or(Course::Settled(None));
        let mut state = self.page.state.lock();
        if state.decision(self.ask).is_none() {
            state.decisions.push(Decision { key: self.ask, course });
        }
        match state.decision(self.ask).map(|decision| &decision.course) {
            Some(Course::Exploring { meanwhile: plan, .. } | Course::Settled(plan)) => plan.clone().into(),
            None => Run::Undivided,
        }
    }

    /// What there is to explore. `None` for an algorithm that cuDNN does not speak of: it runs as
    /// asked.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn course(&self) -> Option<Course> {
        let Call { handle, descriptors, .. } = *self.call;
        let (kernel, Ask { id, limit, only, sizes }) = (self.kernel, self.ask);
        // SAFETY: as ours.
        let offered = unsafe { descriptors.get_algorithms(handle) }.ok()?;
        let of_id = |result: &&AlgoPerf| result.algo == id && result.status == CUDNN_STATUS_SUCCESS;
        let same_math = offered.iter().filter(of_id).find(|result| result.mathType == kernel.math_type);
        let chosen = *same_math.or_else(|| offered.iter().find(of_id))?;
        let chosen = AlgoPerf { mathType: kernel.math_type, ..chosen };
        let own = Algorithm::of(kernel.direction, &chosen);
        let numerics = settings::get().numerics;
        let class = Class { only: only.then_some(id), ..Class::of(&chosen, numerics) };

        let sizes = candidates::sizes(kernel, sizes, Device::current());
        // SAFETY: the program's handle.
        let mut candidates = unsafe { candidates::candidates(handle, kernel, &offered, class, limit, &sizes) };
        candidates.sort_by_key(|candidate| candidate.algorithm != own);
        let fits = candidates.iter().any(|c| c.batch == kernel.batch() && c.algorithm == own);
        let untimed = if fits { None } else { candidates::any_division(kernel.batch(), &candidates) };
        let mut known = self.page.state.lock().measured.clone();
        known.retain(|micro| class.admits_algorithm(&micro.algorithm));
        let search = Search::new(kernel.batch(), limit, candidates, known);
        let meanwhile = search.best().map(|(best, _)| best).or(untimed);
        let meanwhile = meanwhile.and_then(|best| Plan::new(kernel, best).ok()).map(Arc::new);
        Some(match numerics {
            // Other parts each time would be other sums each time.
            Numerics::Deterministic => Course::Settled(meanwhile),
            _ => Course::Exploring { exploration: Box::new(Exploration::new(search, own)), meanwhile },
        })
    }

    /// Ends an exploration: keeps what it found.
    fn settle(&self, best: Option<(Configuration<Algorithm>, f64)>) -> Run {
        let mut found = None;
        self.with_exploration(|exploration| {
            let search = exploration.search();
            found = Some((exploration.own(), search.undivided(), search.measured().to_vec()));
        });
        let Some((own, undivided, measured)) = found else { return Run::Undivided };
        let plan = best.and_then(|(configuration, time)| {
            let as_asked = configuration.is_undivided() && configuration.parts()[0].1.algorithm == own;
            let plan = Arc::new(Plan::new(self.kernel, configuration).ok()?);
            report::chosen(&Chosen { event: "ran", limit: self.ask.limit, plan: &plan, time, undivided });
            (!as_asked).then_some(plan)
        });
        let mut state = self.page.state.lock();
        state.learn(&measured);
        if let Some(decision) = state.decision(self.ask) {
            decision.course = Course::Settled(plan.clone());
        }
        plan.into()
    }

    /// Runs what an exploration wants, with marks in the stream.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn explore(&self, next: &Next, meanwhile: Option<Arc<Plan>>, stream: Stream) -> cudnnStatus_t {
        let device = Device::current();
        // SAFETY: as ours.
        let plan = unsafe { self.wanted(next) };
        let timing = plan.as_ref().and_then(|_| Timing::start(next.clone(), device, stream));
        let mut ran = Err(Failure { status: CUDNN_STATUS_NOT_SUPPORTED, result_spent: false });
        let mut times = None;
        if let (Some(plan), Some(mut timing)) = (plan, timing) {
            // SAFETY: as ours.
            ran = unsafe { self.run_parts(&plan, |batch, algorithm| timing.part(batch, algorithm, device, stream)) };
            times = ran.is_ok().then(|| timing.end(device, stream));
        }
        self.with_exploration(|exploration| exploration.ran(next, times));
        match (ran, meanwhile) {
            (Ok(()), _) => CUDNN_STATUS_SUCCESS,
            (Err(failure), _) if failure.result_spent => failure.status,
            // SAFETY: as ours.
            (Err(_), Some(plan)) => unsafe { self.run_plan(&plan) },
            // SAFETY: as ours.
            (Err(_), None) => unsafe { self.call.run_as(self.ask.id) },
        }
    }

    /// The plan that an exploration's step stands for.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn wanted(&self, next: &Next) -> Option<Plan> {
        let (mut own, mut trial) = (None, None);
        self.with_exploration(|exploration| {
            own = Some(exploration.own());
            trial = match next {
                Next::Try(index) => exploration.search().trial(*index).cloned(),
                _ => None,
            };
        });
        match next {
            Next::Time(candidate) => {
                // SAFETY: the program's handle.
                let parts = unsafe { sampling(self.call.handle, self.kernel, candidate, own?, self.ask.limit) };
                Plan::in_order(self.kernel, &parts?).ok()
            }
            _ => Plan::new(self.kernel, trial?).ok(),
        }
    }

    fn with_exploration(&self, act: impl FnOnce(&mut Exploration)) {
        let mut state = self.page.state.lock();
        if let Some(Decision { course: Course::Exploring { exploration, .. }, .. }) = state.decision(self.ask) {
            act(exploration);
        }
    }

    /// Runs a plan, or cuDNN undivided if it fails.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run_plan(&self, plan: &Plan) -> cudnnStatus_t {
        // SAFETY: as ours.
        let Err(failure) = (unsafe { self.run_parts(plan, |_, _| ()) }) else { return CUDNN_STATUS_SUCCESS };
        let status = failure.status;
        log::warn!("{}: {} failed with status {status}; it runs undivided", self.kernel, plan.configuration());
        self.give_up();
        if failure.result_spent {
            return status;
        }
        // SAFETY: as ours; what is ready fits, and cuDNN refuses what does not.
        unsafe { self.call.run_as(self.ask.id) }
    }

    /// Runs a plan's parts, and with `UCUDNN_CHECK` compares the result.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run_parts(&self, plan: &Plan, mut after: impl FnMut(usize, Algorithm)) -> Result<(), Failure> {
        let Call { handle, descriptors, algorithm, operands, workspace } = self.call;
        if workspace.size < plan.workspace() {
            return Err(Failure { status: CUDNN_STATUS_BAD_PARAM, result_spent: false });
        }
        // SAFETY: as ours.
        let check = unsafe { self.prepare_check() };
        // SAFETY: as ours.
        let adds = unsafe { exec::adds_to_result(self.kernel, operands) };
        // SAFETY: the workspace is large enough.
        unsafe {
            exec::run(plan, *handle, operands, *workspace, |batch, algorithm| {
                self.spent.set(adds);
                after(batch, algorithm);
            })?;
        }
        if let Some(check) = check {
            // SAFETY: as ours.
            let error = unsafe { check.compare(*handle, descriptors, *algorithm, self.kernel, operands) };
            report::checked(plan, &error, exec::tolerance(self.kernel));
        }
        Ok(())
    }

    /// A plan failed: undivided from now on.
    fn give_up(&self) {
        let mut state = self.page.state.lock();
        if let Some(decision) = state.decision(self.ask) {
            decision.course = Course::Settled(None);
            return;
        }
        let (id, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        for promise in state.promises.iter_mut().filter(|promise| promise.entry.algo == id) {
            promise.broken[usize::from(fused)] = true;
        }
    }

    /// # Safety
    /// As for [`convolve`].
    unsafe fn prepare_check(&self) -> Option<Check> {
        if !settings::get().check {
            return None;
        }
        let mut stream = std::ptr::null_mut();
        // SAFETY: as ours.
        unsafe {
            calls::cudnnGetStream(self.call.handle, &mut stream);
            Check::prepare(Device::current(), stream, self.kernel, &self.call.operands)
        }
    }
}
