//! Runs an execution of a program's plan: the plan found for it, the next step of an exploration, or what there is
//! before that ends, which is the stand-in or the fallback. The fallback is the program's own plan if that fits the
//! reported workspace, else the fallback configuration.

mod check;
mod division;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::planned::Planned;
use super::reading;
use super::shadow;
use crate::exec::Failure;
use crate::plans::graph::operands::Operands;
use crate::plans::graph::plan::Plan;
use crate::plans::graph::state::State;
use crate::problem::graph::EngineConfiguration;
use cudnn::calls;
use cudnn::policies;
use gpu::{Device, Stream};
use guest::determinism;
use guest::settings::{self, Policy};
use guest::summary::{self, Counted};
use planner::MicroConfiguration;
use tuning::allowance;
use tuning::exploring;
use tuning::running::{SAMPLES, Step, Trial};
use tuning::search::Candidate;
use tuning::steps;

/// Executions of a plan that run as requested before any explores. A program that times all plans that cuDNN proposed
/// runs each of them this often.
const UNTOUCHED: usize = 2;

/// One execution of a program's plan. The operands that its methods take come from [`Self::operands`].
pub struct Execution<'a> {
    pub(super) handle: cudnnHandle_t,
    pub(super) plan: cudnnBackendDescriptor_t,
    pub(super) pack: cudnnBackendDescriptor_t,
    pub(super) planned: &'a Planned,
    /// Set when a part has added to a result, so that the execution cannot run again.
    spent: &'a Cell<bool>,
}

impl<'a> Execution<'a> {
    /// # Safety
    /// As long as the value is used, handle, plan and variant pack keep the rules of `cudnnBackendExecute`, or cuDNN
    /// refuses them. `planned` is what we planned for the plan.
    pub unsafe fn new(
        handle: cudnnHandle_t,
        (plan, pack): (cudnnBackendDescriptor_t, cudnnBackendDescriptor_t),
        planned: &'a Planned,
        spent: &'a Cell<bool>,
    ) -> Self {
        Self { handle, plan, pack, planned, spent }
    }

    pub fn run(&self) -> cudnnStatus_t {
        settings::fault_point("execute");
        summary::count(Counted::Convolution);
        let Some(operands) = self.operands() else {
            return self.run_fallback(None);
        };
        let policies = policies::of(self.handle);
        steps::called(Arc::as_ptr(&self.planned.state).addr());
        match policies.policy {
            Policy::Reuse => {}
            // Times divide the workspace among layers.
            Policy::Division if determinism::is_asked() => return self.run_fallback(Some(&operands)),
            Policy::Division => return self.run_divided(&operands, &policies),
            Policy::Off => return self.run_fallback(Some(&operands)),
        }
        let state = &*self.planned.state;
        let is_whole = !state.is_broken.load(Ordering::Relaxed);
        // Time decided whether there is a product for an engine that may round.
        let is_by_time = || determinism::is_asked() && state.may_round(&self.planned.own);
        if let Some(product) = self.planned.at_once.as_ref().filter(|_| is_whole && !is_by_time()) {
            return self.run_plan(product, &operands);
        }
        state.exploring.executed();
        if determinism::is_asked() || !state.holds_for(&self.planned.own) {
            // For determinism, nothing that was timed decides: neither what has settled, nor what is explored.
            return self.run_unsettled(&operands);
        }
        let executions = self.planned.executions.fetch_add(1, Ordering::Relaxed);
        match state.exploring.settled() {
            Some(Some(plan)) if !state.is_broken.load(Ordering::Relaxed) && !self.is_requested(plan) => {
                if state.requested.get().is_some_and(|(requested, _)| *requested == self.planned.own) {
                    state.exploring.saved();
                }
                self.run_plan(plan, &operands)
            }
            Some(_) => self.run_fallback(Some(&operands)),
            None if executions >= UNTOUCHED => self.explore(&operands),
            None => self.run_unsettled(&operands),
        }
    }

    /// Runs undivided, the safest way, after a panic that has not modified the result.
    pub fn run_after_panic(&self) -> cudnnStatus_t {
        let operands = self.operands();
        let undivided = if self.planned.requested_fits() { None } else { self.planned.state.last_resort() };
        match (undivided, &operands) {
            (Some(undivided), Some(operands)) => match self.run_parts(undivided, operands, |_, _| ()) {
                Ok(()) => CUDNN_STATUS_SUCCESS,
                Err(failure) => failure.status,
            },
            _ => self.run_fallback(operands.as_ref()),
        }
    }

    /// Returns the program's memory. `None` if micro-batches cannot run on it.
    pub(super) fn operands(&self) -> Option<Operands> {
        let pack = shadow::of(self.pack)?;
        let operands = reading::operands(&pack, &self.planned.graph)?;
        let problem = &*self.planned.graph.problem;
        (self.planned.is_brought(operands.workspace) && !operands.overlap(problem)).then_some(operands)
    }

    /// Runs the program's own plan if it fits the reported workspace, else the fallback configuration, which needs the
    /// operands.
    pub(super) fn run_fallback(&self, operands: Option<&Operands>) -> cudnnStatus_t {
        if self.planned.requested_fits() {
            // SAFETY: this is the program's own call, unchanged.
            return unsafe { calls::cudnnBackendExecute(self.handle, self.plan, self.pack) };
        }
        match (self.planned.state.known_fallback(), operands) {
            (Some(fallback), Some(operands)) => match self.run_parts(fallback, operands, |_, _| ()) {
                Ok(()) => CUDNN_STATUS_SUCCESS,
                Err(failure) => self.run_last_resort(fallback, failure, operands),
            },
            // The program's own plan would write beyond the reported workspace.
            _ => self.not_understood(),
        }
    }

    /// Runs undivided after a divided fallback has failed.
    fn run_last_resort(&self, fallback: &Plan, failure: Failure, operands: &Operands) -> cudnnStatus_t {
        let divides = !fallback.configuration().is_undivided();
        let undivided = self.planned.state.last_resort().filter(|_| !failure.result_modified && divides);
        match undivided.map(|undivided| self.run_parts(undivided, operands, |_, _| ())) {
            Some(Ok(())) => CUDNN_STATUS_SUCCESS,
            Some(Err(failure)) => failure.status,
            None => failure.status,
        }
    }

    /// Warns once about a variant pack that we cannot read, where the program's own plan does not fit.
    pub(super) fn not_understood(&self) -> cudnnStatus_t {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            log::warn!(
                "{}: a variant pack that is not understood (other shapes, memory that overlaps, or not all of it), for \
                 a plan that was told to need {} bytes of workspace in place of {}: it is not executed (said once)",
                self.planned.graph.problem,
                self.planned.workspace(),
                self.planned.requested_workspace
            );
        }
        CUDNN_STATUS_NOT_SUPPORTED
    }

    /// Returns whether a plan is the program's own.
    fn is_requested(&self, plan: &Plan) -> bool {
        let configuration = plan.configuration();
        configuration.is_undivided()
            && self.planned.requested_fits()
            && configuration.parts()[0].1.algorithm == self.planned.own
    }

    /// Runs a plan in the program's workspace.
    fn run_parts(
        &self,
        plan: &Plan,
        operands: &Operands,
        after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        if plan.workspace() > self.planned.workspace() {
            return Err(CUDNN_STATUS_INTERNAL_ERROR.into()); // more than we reported
        }
        // SAFETY: the plan needs no more than the reported workspace, and the program brings that much.
        unsafe { self.run_in_workspace(plan, operands, after) }
    }

    /// Runs a plan, and under `UCUDNN_CHECK` compares the results.
    ///
    /// # Safety
    /// The operands' workspace is device memory as large as the plan needs, and this execution may overwrite it.
    pub(super) unsafe fn run_in_workspace(
        &self,
        plan: &Plan,
        operands: &Operands,
        mut after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        let adds = operands.add_to_results(plan.problem());
        let checks = self.prepare_checks(plan, operands);
        // SAFETY: the operands' memory is the variant pack's, and their workspace is large enough.
        unsafe {
            plan.run(self.handle, operands, |batch, engine| {
                self.spent.set(adds);
                after(batch, engine);
            })?;
        }
        if plan.configuration().batch() == plan.problem().batch() {
            summary::count(Counted::planned(plan.configuration().is_undivided()));
        }
        self.compare(plan, operands, &checks);
        Ok(())
    }

    /// Runs what there is before the exploration has ended: the stand-in, or else the fallback.
    fn run_unsettled(&self, operands: &Operands) -> cudnnStatus_t {
        let state = &self.planned.state;
        let stand_in = if self.planned.requested_fits() { None } else { state.stand_in() };
        match stand_in.filter(|_| !state.is_broken.load(Ordering::Relaxed)) {
            Some(stand_in) => self.run_plan(stand_in, operands),
            None => self.run_fallback(Some(operands)),
        }
    }

    /// Runs the settled plan or the stand-in. If that fails, runs the fallback.
    fn run_plan(&self, plan: &Plan, operands: &Operands) -> cudnnStatus_t {
        let Err(failure) = self.run_parts(plan, operands, |_, _| ()) else { return CUDNN_STATUS_SUCCESS };
        if !self.planned.state.is_broken.swap(true, Ordering::Relaxed) {
            let (problem, status) = (plan.problem(), failure.status);
            log::warn!("{problem}: {} failed with status {status}; it runs as it was ready", plan.configuration());
        }
        self.after_failure(failure, operands)
    }

    fn after_failure(&self, failure: Failure, operands: &Operands) -> cudnnStatus_t {
        if failure.result_modified {
            return failure.status;
        }
        self.run_fallback(Some(operands))
    }

    /// Runs the next step of an exploration, or its result. The first call begins to enumerate candidates.
    fn explore(&self, operands: &Operands) -> cudnnStatus_t {
        let (state, device) = (&self.planned.state, cudnn::device());
        // SAFETY: the handle is the program's, from this execution.
        let stream = unsafe { calls::stream_of(self.handle) }.filter(|stream| !device.is_capturing(*stream));
        let Some(stream) = stream else {
            return self.run_unsettled(operands);
        };
        state.requested.get_or_init(|| (self.planned.own, self.planned.requested_workspace));
        let step = exploring::step(state);
        match step {
            Step::Run(trial) => self.try_out(&trial, operands, device, stream),
            Step::Settled => match exploring::settle(&**state).0 {
                Some(plan) if !self.is_requested(&plan) => self.run_plan(&plan, operands),
                _ => self.run_fallback(Some(operands)),
            },
            Step::Wait => self.run_unsettled(operands),
        }
    }

    /// Runs an exploration's step with marks in the stream: some micro-batches of a candidate and then all images as
    /// before, or a whole configuration.
    fn try_out(
        &self,
        trial: &Trial<EngineConfiguration>,
        operands: &Operands,
        device: Device,
        stream: Stream,
    ) -> cudnnStatus_t {
        let problem = &self.planned.graph.problem;
        let plan = allowance::of_process().timed(|| self.wanted(trial, operands.add_to_results(problem)));
        let is_whole = plan.as_ref().is_some_and(|plan| plan.configuration().batch() == problem.batch());
        let run = |after: Option<&mut dyn FnMut(usize, EngineConfiguration)>| match (&plan, after) {
            (Some(plan), Some(after)) => self.run_parts(plan, operands, after),
            _ => Err(CUDNN_STATUS_NOT_SUPPORTED.into()),
        };
        let finish = |ran: Result<(), Failure>| match ran {
            Ok(()) if is_whole => CUDNN_STATUS_SUCCESS,
            Ok(()) => self.run_unsettled(operands),
            Err(failure) => self.after_failure(failure, operands),
        };
        self.planned.state.exploring.try_out(trial, (device, stream), run, finish)
    }

    /// Makes the plan of an exploration's step. A candidate runs a few micro-batches. If the execution `adds` to its
    /// result, the candidate runs the whole mini-batch, because no image can run twice.
    fn wanted(&self, trial: &Trial<EngineConfiguration>, adds: bool) -> Option<Plan> {
        let State { key, target, candidates, exploring, .. } = &*self.planned.state;
        let problem = &key.problem;
        match trial {
            // A result that is added to takes each image once, and no look may take as long as all images.
            Trial::Look(_) if adds => None,
            Trial::Look(Candidate { batch, algorithm, workspace })
            | Trial::Time(Candidate { batch, algorithm, workspace }) => {
                let finalized = candidates.lock().plan(*batch, algorithm)?;
                let most = problem.batch() / batch;
                if adds && !problem.batch().is_multiple_of(*batch) {
                    return None;
                }
                let budget = self.planned.state.probe().budget;
                let fits = |count: &usize| *workspace <= budget.before(problem.batch() - count * batch);
                let samples = if matches!(trial, Trial::Look(_)) { 1 } else { SAMPLES };
                let count = if adds { most } else { (1..=most.min(samples)).rev().find(fits)? };
                let micro =
                    MicroConfiguration { batch: *batch, algorithm: *algorithm, time: 0.0, workspace: *workspace };
                Plan::sample(problem, (count, micro), target, key.limit, |_, _| Some(finalized.clone())).ok()
            }
            Trial::Try(index) => {
                let trial = exploring.trial(*index)?;
                let finalized = candidates.lock().plans(&trial);
                Plan::new(problem, trial, target, key.limit, finalized).ok()
            }
        }
    }
}
