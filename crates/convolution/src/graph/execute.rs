//! What an execution of a program's plan runs: the plan that was found for it, what exploring wants to try, or what is
//! ready: the program's own plan where that fits into what the program was told, and else the ready configuration.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::gathering;
use super::operands::Operands;
use super::page::{Course, Key, Page};
use super::plan::Plan;
use super::planned::Planned;
use super::shadow;
use crate::exec::Failure;
use crate::problem::graph::EngineConfiguration;
use cudnn::calls::{self, backend};
use cudnn::policies;
use gpu::background;
use gpu::{Device, Stream};
use guest::settings::{self, Numerics, Policy};
use planner::MicroConfiguration;
use tuning::record::{End, Record};
use tuning::report::{self, Chosen};
use tuning::running::{SAMPLES, Step, Timing};
use tuning::search::{Candidate, Next, Search};

/// Executions of a plan that run as asked before any is used to explore: programs that time all plans that they are
/// offered run each as often.
const UNTOUCHED: usize = 2;

/// One execution of a program's plan.
pub struct Execution<'a> {
    pub handle: cudnnHandle_t,
    pub plan: cudnnBackendDescriptor_t,
    pub pack: cudnnBackendDescriptor_t,
    pub planned: &'a Planned,
    /// Set when a result has been added to, so that it cannot be run anew.
    pub spent: &'a Cell<bool>,
}

impl Execution<'_> {
    /// # Safety
    /// The arguments are those of `cudnnBackendExecute`.
    pub unsafe fn run(&self) -> cudnnStatus_t {
        settings::fault_point("execute");
        let Some(operands) = self.operands() else {
            // SAFETY: as ours.
            return unsafe { self.run_ready(None) };
        };
        let policies = policies::of(self.handle);
        match policies.policy {
            Policy::Reuse => {}
            // SAFETY: as ours.
            Policy::Division => return unsafe { self.run_divided(&operands, &policies) },
            // SAFETY: as ours.
            Policy::Off => return unsafe { self.run_ready(Some(&operands)) },
        }
        let page = &*self.planned.page;
        let executions = self.planned.executions.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as ours.
        unsafe {
            match page.settled.get() {
                Some(Some(plan)) if !page.is_broken.load(Ordering::Relaxed) && !self.is_own(plan) => {
                    self.run_plan(plan, &operands)
                }
                Some(_) => self.run_ready(Some(&operands)),
                None if executions >= UNTOUCHED => self.explore(&operands),
                None => self.run_ready(Some(&operands)),
            }
        }
    }

    /// The least that can go wrong: cuDNN undivided; for a panic that left nothing behind.
    ///
    /// # Safety
    /// As for [`Self::run`].
    pub unsafe fn run_after_panic(&self) -> cudnnStatus_t {
        let operands = self.operands();
        let undivided = if self.planned.own_fits() { None } else { self.planned.page.last_resort() };
        match (undivided, &operands) {
            // SAFETY: as ours.
            (Some(undivided), Some(operands)) => match unsafe { self.run_parts(undivided, operands, |_, _| ()) } {
                Ok(()) => CUDNN_STATUS_SUCCESS,
                Err(failure) => failure.status,
            },
            // SAFETY: as ours.
            _ => unsafe { self.run_ready(operands.as_ref()) },
        }
    }

    /// The program's memory, as far as micro-batches of it can be run.
    pub(super) fn operands(&self) -> Option<Operands> {
        let pack = shadow::of(self.pack)?;
        let operands = Operands::of(&pack, &self.planned.graph)?;
        let kernel = &*self.planned.graph.kernel;
        let has_workspace = !operands.workspace.is_null() || self.planned.workspace() == 0;
        (has_workspace && !operands.overlap(kernel)).then_some(operands)
    }

    /// The program's own plan if it fits into what the program was told, else the ready configuration, which needs to
    /// know the operands.
    ///
    /// # Safety
    /// As for [`Self::run`].
    pub(super) unsafe fn run_ready(&self, operands: Option<&Operands>) -> cudnnStatus_t {
        if self.planned.own_fits() {
            // SAFETY: the program's own call.
            return unsafe { backend::cudnnBackendExecute(self.handle, self.plan, self.pack) };
        }
        match (self.planned.page.known_ready(), operands) {
            // SAFETY: as ours.
            (Some(ready), Some(operands)) => match unsafe { self.run_parts(ready, operands, |_, _| ()) } {
                Ok(()) => CUDNN_STATUS_SUCCESS,
                // SAFETY: as ours.
                Err(failure) => unsafe { self.run_last_resort(ready, failure, operands) },
            },
            // The program's own plan would write beyond the workspace that the program was told to bring.
            _ => self.not_understood(),
        }
    }

    /// What is ready has failed: runs undivided what it divides.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_last_resort(&self, ready: &Plan, failure: Failure, operands: &Operands) -> cudnnStatus_t {
        let divides = !ready.configuration().is_undivided();
        let undivided = self.planned.page.last_resort().filter(|_| !failure.result_spent && divides);
        // SAFETY: as ours.
        match undivided.map(|undivided| unsafe { self.run_parts(undivided, operands, |_, _| ()) }) {
            Some(Ok(())) => CUDNN_STATUS_SUCCESS,
            Some(Err(failure)) => failure.status,
            None => failure.status,
        }
    }

    /// Says so of a variant pack whose plan can only be run in another way.
    pub(super) fn not_understood(&self) -> cudnnStatus_t {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            log::warn!(
                "{}: a variant pack that is not understood (other shapes, memory that overlaps, or not all of it), for \
                 a plan that was told to need {} bytes of workspace in place of {}: it is not executed (said once)",
                self.planned.graph.kernel,
                self.planned.workspace(),
                self.planned.own_workspace
            );
        }
        CUDNN_STATUS_NOT_SUPPORTED
    }

    /// Whether a plan is the program's own.
    fn is_own(&self, plan: &Plan) -> bool {
        let configuration = plan.configuration();
        configuration.is_undivided()
            && self.planned.own_fits()
            && configuration.parts()[0].1.algorithm == self.planned.own
    }

    /// Runs a plan in the program's workspace.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_parts(
        &self,
        plan: &Plan,
        operands: &Operands,
        after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        if plan.workspace() > self.planned.workspace() {
            return Err(CUDNN_STATUS_INTERNAL_ERROR.into()); // more than the program was told
        }
        // SAFETY: the workspace is as large as the program was told to bring it.
        unsafe { self.run_in_workspace(plan, operands, after) }
    }

    /// Runs a plan, and with `UCUDNN_CHECK` compares the results.
    ///
    /// # Safety
    /// As for [`Self::run`]; the operands' workspace is as large as the plan needs.
    pub(super) unsafe fn run_in_workspace(
        &self,
        plan: &Plan,
        operands: &Operands,
        mut after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        let adds = operands.add_to_results(plan.kernel());
        // SAFETY: as ours.
        unsafe {
            let checks = self.prepare_checks(plan, operands);
            plan.run(self.handle, operands, |batch, engine| {
                self.spent.set(adds);
                after(batch, engine);
            })?;
            self.compare(plan, operands, &checks);
        }
        Ok(())
    }

    /// Runs what was settled, or what is ready if it fails.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_plan(&self, plan: &Plan, operands: &Operands) -> cudnnStatus_t {
        // SAFETY: as ours.
        let Err(failure) = (unsafe { self.run_parts(plan, operands, |_, _| ()) }) else { return CUDNN_STATUS_SUCCESS };
        if !self.planned.page.is_broken.swap(true, Ordering::Relaxed) {
            let (kernel, status) = (plan.kernel(), failure.status);
            log::warn!("{kernel}: {} failed with status {status}; it runs as it was ready", plan.configuration());
        }
        // SAFETY: as ours.
        unsafe { self.after_failure(failure, operands) }
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn after_failure(&self, failure: Failure, operands: &Operands) -> cudnnStatus_t {
        if failure.result_spent {
            return failure.status;
        }
        // SAFETY: as ours.
        unsafe { self.run_ready(Some(operands)) }
    }

    /// Runs what an exploration wants, or what it has found; gathers what it may try first.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn explore(&self, operands: &Operands) -> cudnnStatus_t {
        let (page, device) = (&self.planned.page, cudnn::device());
        let explores = settings::get().numerics != Numerics::Deterministic;
        // SAFETY: the program's handle.
        let stream = unsafe { calls::stream_of(self.handle) }.filter(|stream| !device.is_capturing(*stream));
        let Some(stream) = stream.filter(|_| explores) else {
            // SAFETY: as ours.
            return unsafe { self.run_ready(Some(operands)) };
        };
        let (step, begins) = match &mut page.state.lock().course {
            Course::Exploring(exploration) => (exploration.step(), false),
            course @ Course::Untouched => {
                *course = Course::Gathering;
                (Step::Wait, true)
            }
            Course::Gathering | Course::Ended => (Step::Wait, false),
        };
        if begins {
            report::exploring(&*page.key.kernel, page.key.limit);
            gathering::begin(page.clone(), self.planned.own, self.planned.own_fits());
        }
        // SAFETY: as ours.
        unsafe {
            match step {
                Step::Run(next) => self.try_out(&next, operands, device, stream),
                Step::Settled => match settle(page, device) {
                    Some(plan) if !self.is_own(&plan) => self.run_plan(&plan, operands),
                    _ => self.run_ready(Some(operands)),
                },
                Step::Wait => self.run_ready(Some(operands)),
            }
        }
    }

    /// Runs an exploration's step with marks in the stream: some micro-batches of a candidate and then all images as
    /// they are ready, or a whole configuration.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn try_out(
        &self,
        next: &Next<EngineConfiguration>,
        operands: &Operands,
        device: Device,
        stream: Stream,
    ) -> cudnnStatus_t {
        let kernel = &self.planned.graph.kernel;
        let plan = self.wanted(next, operands.add_to_results(kernel));
        let timing = plan.as_ref().and_then(|_| Timing::start(next.clone(), device, stream));
        let (mut ran, mut timed) = (Err(CUDNN_STATUS_NOT_SUPPORTED.into()), None);
        let mut is_whole = false;
        if let (Some(plan), Some(mut timing)) = (plan, timing) {
            is_whole = plan.configuration().batch() == kernel.batch();
            let after = |batch, engine| timing.part(batch, engine, device, stream);
            // SAFETY: as ours.
            ran = unsafe { self.run_parts(&plan, operands, after) };
            timed = Some(timing);
        }
        let status = match ran {
            Ok(()) if is_whole => CUDNN_STATUS_SUCCESS,
            // SAFETY: as ours.
            Ok(()) => unsafe { self.run_ready(Some(operands)) },
            // SAFETY: as ours.
            Err(failure) => unsafe { self.after_failure(failure, operands) },
        };
        let timed = timed.filter(|_| ran.is_ok()).map(|timing| timing.end(device, stream));
        if let Course::Exploring(exploration) = &mut self.planned.page.state.lock().course {
            exploration.ran(next, timed);
        }
        status
    }

    /// The plan that an exploration's step stands for: micro-batches of a candidate, all that there are of it where the
    /// call `adds` to its result and cannot run any image twice.
    fn wanted(&self, next: &Next<EngineConfiguration>, adds: bool) -> Option<Plan> {
        let Page { key, target, state, .. } = &*self.planned.page;
        let (kernel, state) = (&key.kernel, state.lock());
        let Course::Exploring(exploration) = &state.course else { return None };
        match next {
            Next::Time(Candidate { batch, algorithm, workspace }) => {
                let finalized = state.offers.plan(*batch, algorithm)?;
                drop(state);
                let most = kernel.batch() / batch;
                if adds && !kernel.batch().is_multiple_of(*batch) {
                    return None;
                }
                let room = self.planned.page.asking().room();
                let has_room = |count: &usize| *workspace <= room.before(kernel.batch() - count * batch);
                let count = if adds { most } else { (1..=most.min(SAMPLES)).rev().find(has_room)? };
                let micro =
                    MicroConfiguration { batch: *batch, algorithm: *algorithm, time: 0.0, workspace: *workspace };
                Plan::sample(kernel, (count, micro), target, key.limit, |_, _| Some(finalized.clone())).ok()
            }
            Next::Try(index) => {
                let trial = exploration.search().trial(*index)?.clone();
                let finalized = state.offers.plans(&trial);
                drop(state);
                Plan::new(kernel, trial, target, key.limit, finalized).ok()
            }
            Next::Nothing => None,
        }
    }
}

/// Ends an exploration: keeps and returns what it found.
fn settle(page: &Page, device: Device) -> Option<Arc<Plan>> {
    let course = std::mem::replace(&mut page.state.lock().course, Course::Ended);
    let Course::Exploring(exploration) = course else { return page.settled.get()?.clone() };
    let (wanted, mut search) = (exploration.wanted().clone(), exploration.search().clone());
    let plan = settle_on(page, &search, best_of(page, &search));
    let record = Record::of(&*page.key.kernel, device, device.ordinal());
    record.found(search.found(), device.ordinal());
    let end = if search.wants() == Next::Nothing { End::Complete } else { End::Explored };
    record.ended(&wanted, &search, end);
    plan
}

/// The best that a search found, with its milliseconds; `None` if there is nothing that runs within the limit.
pub fn best_of(page: &Page, search: &Search<EngineConfiguration>) -> Option<(Arc<Plan>, f64)> {
    let (configuration, time) = search.best()?;
    let finalized = page.state.lock().offers.plans(&configuration);
    let Key { kernel, limit, .. } = &page.key;
    let plan = Plan::new(kernel, configuration, &page.target, *limit, finalized).ok()?;
    (plan.workspace() <= *limit).then(|| (Arc::new(plan), time))
}

/// Ends tuning with what a search found, which is returned.
pub fn settle_on(
    page: &Page,
    search: &Search<EngineConfiguration>,
    found: Option<(Arc<Plan>, f64)>,
) -> Option<Arc<Plan>> {
    let limit = page.key.limit;
    match &found {
        Some((plan, time)) => report::chosen(&Chosen {
            event: "ran",
            kernel: plan.kernel(),
            configuration: plan.configuration(),
            workspace: plan.workspace(),
            limit,
            time: *time,
            undivided: search.undivided(),
        }),
        None => report::unchanged(&*page.key.kernel, limit),
    }
    let plan = found.map(|(plan, _)| plan);
    let settled = page.settled.get_or_init(|| plan).clone();
    let mut state = page.state.lock();
    state.course = Course::Ended;
    let unused = std::mem::take(&mut state.offers);
    drop(state);
    // To unload code may wait for the device.
    background::spawn(cudnn::device(), move || drop(unused), "plans that are not used any more are gone all the same");
    settled
}
