//! Whose the next pass of a network is: the transitions of its course.

use std::sync::Arc;
use std::time::Instant;

use super::compiling::Compiling;
use super::course::{Course, Settled, State, Trying, UNTOUCHED, is_forced};
use super::decision;
use super::recall::{self, Recalled};
use super::trial::{Seen, Trial, Verdict, made};
use crate::choice::is_deterministic;
use crate::compiler::{self, later};
use crate::kernels::Engine;
use gpu::Stream;
use gpu::background::compiling;
use guest::settings;
use tuning::allowance;
use tuning::elsewhere::Elsewhere;

impl Course {
    /// Returns whether the pass that begins is ours. It is called once a pass. During a capture nothing is compiled or
    /// timed.
    pub fn next_pass(self: &Arc<Self>, stream: Stream) -> bool {
        if self.has_given_up() {
            return is_forced();
        }
        // Results have the same bits each time, whatever was chosen by times.
        if !is_forced() && is_deterministic() {
            return false;
        }
        let is_capturing = cudnn::device().is_capturing(stream);
        let seen = self.seen();
        let mut state = self.state.lock();
        match &mut *state {
            State::Settled(settled) => settled.verdict.is_ours,
            State::Trying(trying) if is_capturing => trying.trial.verdict(&seen).is_ours,
            State::Trying(trying) => {
                let may_explore = compiling::is_quiet() && allowance::of_process().permits(0.0);
                let Trying { trial, .. } = &mut **trying;
                if let Some(is_ours) = trial.next_pass(&seen, may_explore) {
                    return is_ours;
                }
                let settled = Settled { verdict: trial.verdict(&seen), weighs: made(&seen) };
                let is_ours = settled.verdict.is_ours;
                let tried = std::mem::replace(&mut *state, State::Settled(settled));
                drop(state);
                if let State::Trying(trying) = tried {
                    self.tried(trying, seen);
                }
                is_ours
            }
            _ if is_capturing => false,
            State::New => {
                *state = State::Recalling;
                drop(state);
                self.begin()
            }
            State::Untouched(forwards) if *forwards < UNTOUCHED => false,
            State::Untouched(_) if !allowance::of_process().explores() => false,
            State::Untouched(_) => {
                self.start(&mut state, None);
                false
            }
            State::Elsewhere(since) if !Elsewhere::is_due(*since) => false,
            State::Elsewhere(_) => {
                *state = State::Recalling;
                drop(state);
                let course = self.clone();
                if !later(move || course.recall_gently()) {
                    *self.state.lock() = State::Elsewhere(Instant::now());
                }
                false
            }
            State::Recalling => false,
        }
    }

    /// Asks the database, on the first pass. Returns whether the pass is ours.
    fn begin(self: &Arc<Self>) -> bool {
        let recalled = recall::of_database(self);
        match recalled {
            None if is_forced() => compiling::now(|| self.load_first()),
            None => {
                *self.state.lock() = State::Untouched(0);
                false
            }
            Some(recalled) if recalled.is_quick(self) || is_forced() => compiling::now(|| self.load(&recalled)),
            Some(_) => {
                let course = self.clone();
                if !later(move || course.recall_gently()) {
                    *self.state.lock() = State::Untouched(0);
                }
                false
            }
        }
    }

    /// Asks the database in the background, and loads what it knows. What it does not know is tried.
    fn recall_gently(self: &Arc<Self>) {
        match recall::of_database(self) {
            Some(recalled) => {
                recalled.compile(self);
                compiling::gently(|| self.load(&recalled));
            }
            None => self.start(&mut self.state.lock(), None),
        }
    }

    /// Loads what the database knows as the best. Returns whether the next pass is ours.
    fn load(&self, recalled: &Recalled) -> bool {
        let loaded = recalled.load(self);
        let mut state = self.state.lock();
        match loaded {
            Ok(verdict) => {
                let is_ours = verdict.is_ours;
                let settled = Settled { verdict, weighs: recalled.weighs };
                *state = State::Settled(settled.clone());
                drop(state);
                decision::report(self, &settled.verdict, "known from before", &recalled.times);
                is_ours
            }
            Err(why) => {
                *state = State::Untouched(0);
                drop(state);
                log::info!("training of {}: what was best before is not there: {why}", self.key.subject);
                false
            }
        }
    }

    /// Loads the model's first choices while the caller waits, because our kernels are forced. Others are compiled in the
    /// background. Returns whether the next pass is ours.
    fn load_first(self: &Arc<Self>) -> bool {
        if let Err(why) = self.page.engine(&self.key.subject.network) {
            log::warn!("training of {}: cuDNN runs it: {why}", self.key.subject);
            self.settle(Verdict { is_ours: false, kernels: [None, None] }, why);
            return false;
        }
        let kernels = [0, 1].map(|pass| self.shapes[pass].load_first());
        let is_only = settings::get().rnn_top_k == 1 || is_deterministic() || !allowance::of_process().explores();
        if is_only {
            self.settle(Verdict { is_ours: true, kernels }, "the model's first choice");
        } else {
            let mut state = self.state.lock();
            self.start(&mut state, Some(kernels));
        }
        true
    }

    /// Begins a trial: candidates come as they are compiled. `forced`: kernels that run already, because ours are forced;
    /// without them cuDNN is a candidate.
    fn start(self: &Arc<Self>, state: &mut State, forced: Option<[Option<Arc<Engine>>; 2]>) {
        if compiler::begin(Compiling::new(self.clone(), forced.is_none())) {
            let mut trial = Trial::new(forced.is_none());
            if let Some(kernels) = forced {
                trial.begin(kernels);
            }
            *state = State::Trying(Box::new(Trying { trial, lock: None }));
            return;
        }
        log::info!("training of {}: there is no thread to compile on", self.key.subject);
        let verdict = Verdict { is_ours: forced.is_some(), kernels: forced.unwrap_or_default() };
        *state = State::Settled(Settled { verdict, weighs: [true; 3] });
    }

    fn settle(&self, verdict: Verdict<Arc<Engine>>, why: &str) {
        decision::report(self, &verdict, why, &Default::default());
        *self.state.lock() = State::Settled(Settled { verdict, weighs: [true; 3] });
    }

    /// Ends a trial in the background: reports and stores the result, and unloads the losers.
    fn tried(self: &Arc<Self>, trying: Box<Trying>, seen: Seen) {
        let course = self.clone();
        later(move || {
            let Trying { trial, lock } = *trying;
            decision::keep(&course, &trial, &seen);
            drop(lock);
        });
    }
}
