//! What a convolution call runs: the plan that was promised, what exploring decided, or cuDNN as asked.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::book::{self, Ask, Course, Decision, Page, State};
use super::policies::{self, Policies};
use super::report::{self, Chosen};
use crate::cudnn::algorithm::{Algorithm, Class};
use crate::cudnn::calls;
use crate::cudnn::convolution::{Descriptors, Operands, Workspace};
use crate::cudnn::kernel::Kernel;
use crate::device::{Device, Stream};
use crate::exec::{self, Check, Plan};
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

/// What a call is going to run.
enum Run {
    /// cuDNN, as asked.
    AsAsked,
    /// The ready configuration: this algorithm, undivided.
    Ready(c_int),
    /// A plan, and the ready configuration if one was promised.
    Plan(Arc<Plan>, Option<c_int>),
    /// What the exploration wants; if that cannot be, the plan, or as asked.
    Explore(Next, Option<Arc<Plan>>),
    /// The exploration is over.
    Settle(Option<(Configuration<Algorithm>, f64)>),
    /// Nothing is decided yet: begin to explore.
    Begin,
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
        let page = book::page(Device::current(), policies.batch_size_policy, &kernel);
        // SAFETY: as ours.
        let only = unsafe { self.takes_no_other() };
        let running = Running { call: self, kernel: &kernel, page: &page, policies, only, spent };
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
        let promise = unsafe { super::answer::promise(self.handle, &self.descriptors, self.algorithm) };
        let ready = promise.filter(|p| self.workspace.size >= p.entry.memory).map(|p| p.ready);
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
    policies: Policies,
    only: bool,
    /// Set when the result has been added to, so that the call cannot be run anew.
    spent: &'a Cell<bool>,
}

impl Running<'_> {
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run(&self) -> cudnnStatus_t {
        let (call, mut stream) = (self.call, std::ptr::null_mut());
        let mut run = self.decide(&mut self.page.state.lock());
        if matches!(run, Run::Begin | Run::Explore(..)) {
            // SAFETY: the program's handle.
            let known = unsafe { calls::cudnnGetStream(call.handle, &mut stream) } == CUDNN_STATUS_SUCCESS;
            let capturing = !known || Device::current().is_capturing(stream);
            run = match run {
                Run::Begin if capturing => Run::AsAsked,
                // SAFETY: as ours.
                Run::Begin => unsafe { self.begin() },
                Run::Explore(_, meanwhile) if capturing => {
                    self.with_exploration(|exploration| exploration.put_back());
                    meanwhile.map_or(Run::AsAsked, |plan| Run::Plan(plan, None))
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
                Run::AsAsked | Run::Begin | Run::Settle(_) => call.run_as(call.algorithm),
                Run::Ready(algorithm) => call.run_as(algorithm),
                Run::Plan(plan, ready) => self.run_plan(&plan, ready, |_, _| ()),
                Run::Explore(next, meanwhile) => self.explore(&next, meanwhile, stream),
            }
        }
    }

    fn ask(&self, state: &State) -> Ask {
        let (id, limit) = (self.call.algorithm, self.policies.call_limit(self.call.workspace.size));
        let promised = state.promise(id).map_or(usize::MAX, |promise| promise.limit);
        Ask { id, limit: limit.min(promised), only: self.only }
    }

    fn decide(&self, state: &mut State) -> Run {
        state.executions = state.executions.saturating_add(1);
        let (id, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        if let Some(promise) = state.promise(id)
            && promise.entry.memory <= self.call.workspace.size
            && (!self.only || promise.plan.runs_only(id))
        {
            return match promise.broken[usize::from(fused)] {
                true => Run::Ready(promise.ready),
                false => Run::Plan(promise.plan.clone(), Some(promise.ready)),
            };
        }
        let ask = self.ask(state);
        let begins = state.executions > UNTOUCHED || !state.measured.is_empty();
        let Some(decision) = state.decision(ask) else {
            return if begins { Run::Begin } else { Run::AsAsked };
        };
        match &mut decision.course {
            Course::Settled(Some(plan)) => Run::Plan(plan.clone(), None),
            Course::Settled(None) => Run::AsAsked,
            Course::Exploring { exploration, meanwhile } => match exploration.step() {
                Step::Run(next) => Run::Explore(next, meanwhile.clone()),
                Step::Wait => meanwhile.clone().map_or(Run::AsAsked, |plan| Run::Plan(plan, None)),
                Step::Settled(best) => Run::Settle(best),
            },
        }
    }

    /// Ends an exploration: keeps what it found.
    fn settle(&self, best: Option<(Configuration<Algorithm>, f64)>) -> Run {
        let mut found = None;
        self.with_exploration(|exploration| {
            let search = exploration.search();
            found = Some((exploration.own(), search.undivided(), search.measured().to_vec()));
        });
        let Some((own, undivided, measured)) = found else { return Run::AsAsked };
        let plan = best.and_then(|(configuration, time)| {
            let as_asked = configuration.is_undivided() && configuration.parts()[0].1.algorithm == own;
            let plan = Arc::new(Plan::new(self.kernel, configuration).ok()?);
            let limit = self.policies.call_limit(self.call.workspace.size);
            report::chosen(&Chosen { event: "ran", limit, plan: &plan, time, undivided });
            (!as_asked).then_some(plan)
        });
        let mut state = self.page.state.lock();
        state.learn(&measured);
        let ask = self.ask(&state);
        if let Some(decision) = state.decision(ask) {
            decision.course = Course::Settled(plan.clone());
        }
        plan.map_or(Run::AsAsked, |plan| Run::Plan(plan, None))
    }

    /// Begins to explore.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn begin(&self) -> Run {
        let Call { handle, descriptors, algorithm, .. } = *self.call;
        let (known, ask) = {
            let state = self.page.state.lock();
            (state.measured.clone(), self.ask(&state))
        };
        // SAFETY: as ours.
        let offered = unsafe { descriptors.get_algorithms(handle) }.unwrap_or_default();
        let of_id = |result: &&_| -> bool {
            let result: &calls::query::AlgoPerf = result;
            result.algo == algorithm && result.status == CUDNN_STATUS_SUCCESS
        };
        let same_math = offered.iter().find(|result| of_id(result) && result.mathType == self.kernel.math_type);
        let course = match same_math.or_else(|| offered.iter().find(of_id)) {
            None => Course::Settled(None), // an algorithm that cuDNN does not speak of: as asked
            Some(&chosen) => {
                let chosen = calls::query::AlgoPerf { mathType: self.kernel.math_type, ..chosen };
                let own = Algorithm::of(self.kernel.direction, &chosen);
                let numerics = settings::get().numerics;
                let class = Class { only: self.only.then_some(algorithm), ..Class::of(&chosen, numerics) };
                let sizes = candidates::sizes(self.kernel, self.policies.batch_size_policy, Device::current());
                // SAFETY: the program's handle.
                let mut candidates =
                    unsafe { candidates::candidates(handle, self.kernel, &offered, class, ask.limit, &sizes) };
                candidates.sort_by_key(|candidate| candidate.algorithm != own);
                let known: Vec<_> =
                    known.into_iter().filter(|micro| class.admits_algorithm(&micro.algorithm)).collect();
                let fits = candidates.iter().any(|c| c.batch == self.kernel.batch() && c.algorithm == own);
                let fallback = if fits { None } else { candidates::any_division(self.kernel.batch(), &candidates) };
                let search = Search::new(self.kernel.batch(), ask.limit, candidates, known);
                let meanwhile = search.best().map(|(best, _)| best).or(fallback);
                let meanwhile = meanwhile.and_then(|best| Plan::new(self.kernel, best).ok()).map(Arc::new);
                match numerics {
                    // Other parts each time would be other sums each time.
                    Numerics::Deterministic => Course::Settled(meanwhile),
                    _ => Course::Exploring { exploration: Box::new(Exploration::new(search, own)), meanwhile },
                }
            }
        };
        let mut state = self.page.state.lock();
        if state.decision(ask).is_none() {
            state.decisions.push(Decision { key: ask, course });
        }
        match &state.decision(ask).expect("pushed above").course {
            Course::Exploring { meanwhile: Some(plan), .. } | Course::Settled(Some(plan)) => {
                Run::Plan(plan.clone(), None)
            }
            _ => Run::AsAsked,
        }
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
        if let (Some(plan), Some(timing)) = (plan, timing) {
            let timing = std::cell::RefCell::new(timing);
            // SAFETY: as ours.
            let ran = unsafe {
                self.run_unless_spent(&plan, |batch, algorithm| {
                    timing.borrow_mut().part(batch, algorithm, device, stream);
                })
            };
            let timing = timing.into_inner();
            match ran {
                Ok(()) => {
                    let timing = timing.end(device, stream);
                    self.with_exploration(|exploration| exploration.ran(next, Some(timing)));
                    return CUDNN_STATUS_SUCCESS;
                }
                Err(failure) => {
                    self.with_exploration(|exploration| exploration.ran(next, None));
                    if failure.result_spent {
                        return failure.status;
                    }
                }
            }
        } else {
            self.with_exploration(|exploration| exploration.ran(next, None));
        }
        // SAFETY: as ours.
        unsafe {
            match meanwhile {
                Some(plan) => self.run_plan(&plan, None, |_, _| ()),
                None => self.call.run_as(self.call.algorithm),
            }
        }
    }

    /// The plan that an exploration's step stands for.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn wanted(&self, next: &Next) -> Option<Plan> {
        let (own, trial, limit) = {
            let mut state = self.page.state.lock();
            let ask = self.ask(&state);
            let Course::Exploring { exploration, .. } = &state.decision(ask)?.course else { return None };
            let trial = match next {
                Next::Try(index) => exploration.search().trial(*index).cloned(),
                _ => None,
            };
            (exploration.own(), trial, ask.limit)
        };
        let configuration = match next {
            // SAFETY: the program's handle.
            Next::Time(candidate) => unsafe { sampling(self.call.handle, self.kernel, candidate, own, limit) },
            _ => trial,
        };
        Plan::new(self.kernel, configuration?).ok()
    }

    fn with_exploration(&self, act: impl FnOnce(&mut Exploration)) {
        let mut state = self.page.state.lock();
        let ask = self.ask(&state);
        if let Some(Decision { course: Course::Exploring { exploration, .. }, .. }) = state.decision(ask) {
            act(exploration);
        }
    }

    /// Runs a plan, or the ready configuration if it fails.
    ///
    /// # Safety
    /// As for [`convolve`].
    unsafe fn run_plan(&self, plan: &Plan, ready: Option<c_int>, after: impl FnMut(usize, Algorithm)) -> cudnnStatus_t {
        // SAFETY: as ours.
        let check = unsafe { self.prepare_check() };
        // SAFETY: as ours.
        match unsafe { self.run_unless_spent(plan, after) } {
            Ok(()) => {
                if let Some(check) = check {
                    // SAFETY: as ours.
                    unsafe { self.compare(check, plan) };
                }
                CUDNN_STATUS_SUCCESS
            }
            Err(failure) => {
                let status = failure.status;
                log::warn!("{}: {} failed with status {status}", self.kernel, plan.configuration());
                self.give_up(ready.is_some());
                if failure.result_spent {
                    return status;
                }
                // SAFETY: as ours; the ready configuration fits, and cuDNN refuses what does not.
                unsafe { self.call.run_as(ready.unwrap_or(self.call.algorithm)) }
            }
        }
    }

    /// # Safety
    /// As for [`convolve`].
    unsafe fn run_unless_spent(
        &self,
        plan: &Plan,
        mut after: impl FnMut(usize, Algorithm),
    ) -> Result<(), exec::Failure> {
        let Call { handle, operands, workspace, .. } = self.call;
        if workspace.size < plan.workspace() {
            return Err(exec::Failure { status: CUDNN_STATUS_BAD_PARAM, result_spent: false });
        }
        // SAFETY: as ours.
        let adds = unsafe { exec::adds_to_result(self.kernel, operands) };
        // SAFETY: the workspace is large enough.
        unsafe {
            exec::run(plan, *handle, operands, *workspace, |batch, algorithm| {
                self.spent.set(adds);
                after(batch, algorithm);
            })
        }
    }

    /// A plan failed: what was promised runs the ready configuration from now on, and what was decided
    /// runs as asked.
    fn give_up(&self, promised: bool) {
        let mut state = self.page.state.lock();
        let (id, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        if promised {
            if let Some(promise) = state.promises.iter_mut().find(|promise| promise.entry.algo == id) {
                promise.broken[usize::from(fused)] = true;
            }
        } else {
            let ask = self.ask(&state);
            if let Some(decision) = state.decision(ask) {
                decision.course = Course::Settled(None);
            }
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

    /// # Safety
    /// As for [`convolve`].
    unsafe fn compare(&self, check: Check, plan: &Plan) {
        let Call { handle, descriptors, algorithm, operands, .. } = self.call;
        // SAFETY: as ours.
        let error = unsafe { check.compare(*handle, descriptors, *algorithm, self.kernel, operands) };
        report::checked(plan, &error, exec::tolerance(self.kernel));
    }
}
