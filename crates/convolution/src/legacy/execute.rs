//! Runs a convolution call under Workspace Reuse: by the promised plan, by the decision of an exploration, or by cuDNN
//! undivided.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudnn_abi::*;

use super::call::Call;
use super::sampling;
use crate::exec::Failure;
use crate::plans::legacy::decision::{Ask, Decision};
use crate::plans::legacy::plan::Plan;
use crate::plans::legacy::registry::State;
use crate::plans::legacy::run::adds_to_result;
use crate::problem::Problem;
use crate::problem::algorithm::Algorithm;
use gpu::Stream;
use tuning::allowance;
use tuning::exploring;
use tuning::report;
use tuning::running::{Step, Trial};
use tuning::steps;

/// Executions of a problem that run as requested before any explores.
const UNTOUCHED: usize = 2;

/// How a call is about to run. If anything else fails, cuDNN runs undivided.
enum Run {
    /// cuDNN, undivided.
    Undivided,
    /// A plan.
    Plan(Arc<Plan>),
    /// The next step of a decision's exploration.
    Explore(Arc<Decision>),
    /// Nothing is decided yet: decide.
    Begin,
}

impl From<Option<Arc<Plan>>> for Run {
    fn from(plan: Option<Arc<Plan>>) -> Self {
        plan.map_or(Self::Undivided, Self::Plan)
    }
}

/// A call whose problem is known.
pub struct Running<'a> {
    call: &'a Call<'a>,
    problem: &'a Problem,
    state: &'a State,
    /// `ask.id` is the algorithm that runs undivided in this call's workspace: the requested one, or the fallback of
    /// the promise for that id.
    ask: Ask,
    /// Set if no admitted algorithm runs undivided in this call's workspace.
    must_divide: bool,
    /// Set when a part has added to the result, so that the call cannot run again.
    spent: &'a Cell<bool>,
}

impl<'a> Running<'a> {
    /// # Safety
    /// The problem is the call's, and the state is the problem's.
    pub unsafe fn new(call: &'a Call, problem: &'a Problem, state: &'a State, ask: Ask, spent: &'a Cell<bool>) -> Self {
        Self { call, problem, state, ask, must_divide: false, spent }
    }

    pub fn run(&mut self) -> cudnnStatus_t {
        let mut stream = std::ptr::null_mut();
        let mut run = self.decide();
        if matches!(run, Run::Begin | Run::Explore(_)) {
            let known = self.call.handle.stream();
            let capturing = known.is_none_or(|stream| cudnn::device().is_capturing(stream));
            stream = known.unwrap_or(stream);
            run = match run {
                Run::Begin if capturing && !self.must_divide && !self.ask.is_determined => Run::Undivided,
                Run::Begin => self.begin(),
                Run::Explore(decision) if capturing => decision.meanwhile.clone().into(),
                other => other,
            };
        }
        match run {
            Run::Undivided | Run::Begin => self.call.run_undivided(self.ask.id),
            Run::Plan(plan) => self.run_plan(&plan),
            Run::Explore(decision) => self.explore(&decision, stream),
        }
    }

    fn decide(&mut self) -> Run {
        let (asked_for, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        let mut known = self.state.known.lock();
        known.executions = known.executions.saturating_add(1);
        if let Some(promise) = known.promise(asked_for, self.call.workspace.size) {
            self.ask.limit = self.ask.limit.min(promise.question.limit);
            self.ask.preferred = promise.preferred;
            let needs_more = promise.undivided > self.call.workspace.size;
            // The plan was timed, and the id under which it was promised may not be deterministic.
            let is_timed = self.ask.is_determined && promise.plan.is_some();
            if needs_more || is_timed {
                self.must_divide = needs_more && (self.ask.only || promise.fallback.is_none());
                let determined = promise.determined.filter(|_| self.ask.is_determined);
                self.ask.id = determined.or(promise.fallback).filter(|_| !self.ask.only).unwrap_or(asked_for);
            }
            if let Some(plan) = &promise.plan
                && !self.ask.is_determined
                && (!self.ask.only || plan.runs_only(asked_for))
                && !(fused && plan.has_engines())
            {
                allowance::of_process().executed(promise.entry.time.max(0.0).into());
                let runs = !promise.broken[usize::from(fused)];
                if runs {
                    steps::saved(promise.saves);
                }
                return runs.then(|| plan.clone()).into();
            }
        }
        // A call that must divide needs a plan that every later call like it can run, whatever its addresses.
        self.ask.takes_engines &= !fused && !self.must_divide;
        // A program that asks for determinism gets the same from the first call on.
        let begins =
            self.must_divide || self.ask.is_determined || known.executions > UNTOUCHED || !known.measured.is_empty();
        match known.decision(self.ask) {
            None if begins => Run::Begin,
            None => Run::Undivided,
            Some(decision) => {
                decision.exploring.executed();
                let run = of_decision(decision);
                if matches!(run, Run::Plan(_)) && decision.exploring.settled().is_some() {
                    decision.exploring.saved();
                }
                run
            }
        }
    }

    /// Makes the decision.
    fn begin(&self) -> Run {
        let Call { handle, descriptors, .. } = self.call;
        let measured = self.state.known.lock().measured.clone();
        let new = Decision::new(*handle, descriptors, self.problem, self.ask, &measured);
        let mut known = self.state.known.lock();
        let decision = known.decision(self.ask).cloned().unwrap_or_else(|| {
            known.decisions.push(new.clone());
            new
        });
        drop(known);
        match of_decision(&decision) {
            // The first call runs without marks.
            Run::Explore(decision) => {
                exploring::step(&decision);
                decision.meanwhile.clone().into()
            }
            run => run,
        }
    }

    /// Runs the next step of an exploration with marks in the stream, or the plan that it found.
    fn explore(&self, decision: &Arc<Decision>, stream: Stream) -> cudnnStatus_t {
        let found = match exploring::step(decision) {
            Step::Run(trial) => return self.try_out(decision, &trial, stream),
            Step::Settled => {
                let (plan, search) = exploring::settle(&**decision);
                if let Some(search) = search {
                    self.state.known.lock().learn(search.measured());
                }
                plan.filter(|plan| !decision.is_requested(plan))
            }
            Step::Wait => decision.meanwhile.clone(),
        };
        self.run_plan_or_undivided(found.as_deref())
    }

    /// Runs an exploration's step.
    fn try_out(&self, decision: &Decision, trial: &Trial<Algorithm>, stream: Stream) -> cudnnStatus_t {
        let plan = allowance::of_process().timed(|| self.wanted(decision, trial));
        let run = |after: Option<&mut dyn FnMut(usize, Algorithm)>| match (&plan, after) {
            (Some(plan), Some(after)) => self.run_parts(plan, after),
            _ => Err(CUDNN_STATUS_NOT_SUPPORTED.into()),
        };
        let finish = |ran: Result<(), Failure>| match ran {
            Ok(()) => CUDNN_STATUS_SUCCESS,
            Err(failure) if failure.result_modified => failure.status,
            Err(_) => self.run_plan_or_undivided(decision.meanwhile.as_deref()),
        };
        decision.exploring.try_out(trial, (cudnn::device(), stream), run, finish)
    }

    /// Makes the plan for an exploration's step.
    fn wanted(&self, decision: &Decision, trial: &Trial<Algorithm>) -> Option<Plan> {
        // SAFETY: the operands are those of this call, and `problem` is its problem.
        let adds = unsafe { adds_to_result(self.problem, &self.call.operands) };
        let (handle, requested) = (self.call.handle, decision.requested_algorithm());
        match trial {
            // A result that is added to takes each image once, and no look may take as long as all images.
            Trial::Look(_) if adds || !decision.divides_requested() => None,
            Trial::Look(look) => {
                let parts = sampling::look(handle, self.problem, look, requested, self.ask.limit)?;
                Plan::in_order(self.problem, &parts).ok()
            }
            Trial::Time(candidate) => {
                let is_whole = adds || !decision.divides_requested();
                let parts = sampling::sampling(handle, self.problem, candidate, requested, self.ask.limit, is_whole)?;
                Plan::in_order(self.problem, &parts).ok()
            }
            Trial::Try(index) => Plan::new(self.problem, decision.exploring.trial(*index)?).ok(),
        }
    }

    /// Runs a plan's parts in the call's workspace.
    fn run_parts(&self, plan: &Plan, after: impl FnMut(usize, Algorithm)) -> Result<(), Failure> {
        // SAFETY: the state's plans are of its problem, which is the call's, and so is the workspace.
        unsafe { self.call.run_parts(plan, self.call.workspace, self.spent, after) }
    }

    fn run_plan_or_undivided(&self, plan: Option<&Plan>) -> cudnnStatus_t {
        match plan {
            Some(plan) => self.run_plan(plan),
            None => self.call.run_undivided(self.ask.id),
        }
    }

    /// Runs a plan. If that fails, runs cuDNN undivided.
    fn run_plan(&self, plan: &Plan) -> cudnnStatus_t {
        let Err(failure) = self.run_parts(plan, |_, _| ()) else { return CUDNN_STATUS_SUCCESS };
        let status = failure.status;
        // An error that cuDNN blames on the program's arguments says nothing about the plan.
        if !(CUDNN_STATUS_BAD_PARAM..CUDNN_STATUS_NOT_SUPPORTED).contains(&status) {
            log::warn!("{}: {} failed with status {status}; it runs undivided", self.problem, plan.configuration());
            self.give_up();
        }
        if failure.result_modified {
            return status;
        }
        self.call.run_undivided(self.ask.id)
    }

    /// Drops a plan that failed: the call runs undivided from now on.
    fn give_up(&self) {
        let (id, fused) = (self.call.algorithm, self.call.operands.epilogue.is_some());
        let mut known = self.state.known.lock();
        for promise in known.promises.iter_mut().filter(|promise| promise.entry.algo == id) {
            promise.broken[usize::from(fused)] = true;
        }
        let Some(decision) = known.decision(self.ask).cloned() else { return };
        drop(known);
        if !decision.is_broken.swap(true, Ordering::Relaxed) && decision.exploring.settled().is_none() {
            decision.exploring.settle(None);
            report::unchanged(self.problem, self.ask.limit);
        }
    }
}

/// Returns how a decided call runs.
fn of_decision(decision: &Arc<Decision>) -> Run {
    if decision.is_broken.load(Ordering::Relaxed) {
        return Run::Undivided;
    }
    match decision.exploring.settled() {
        Some(plan) => plan.clone().filter(|plan| !decision.is_requested(plan)).into(),
        None => Run::Explore(decision.clone()),
    }
}
