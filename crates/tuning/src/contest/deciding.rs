//! Decides who runs the next pass of a subject, and each of its calls: the transitions of its contest.

use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::MutexGuard;

use super::compiler::{self, later};
use super::compiling::Compiling;
use super::contestant::NOTHING_FITS;
use super::recall::{self, Recalled};
use super::trial::{Trial, Verdict, is_made, which_are_made};
use super::turns::{Started, Timed};
use super::{Contest, Contestant, MOST_CALLS, Outcome, Settled, Shared, State, Trying, Turn};
use crate::allowance;
use crate::elsewhere::Elsewhere;
use crate::steps;
use gpu::Stream;
use gpu::background::compiling;
use guest::determinism;
use guest::summary::Tried;

/// Passes by cuDNN before anything is compiled: short programs are left alone.
const UNTOUCHED: usize = 16;
/// The reported reason if the database made the choice.
const KNOWN: &str = "known from before";

impl<C: Contestant> Contest<C> {
    fn is_forced(&self) -> bool {
        self.contestant.is_forced()
    }

    /// Returns whether results must have the same bits each time: then times choose nothing, whenever they were taken.
    fn shuns_times(&self) -> bool {
        !self.is_forced() && determinism::is_asked()
    }

    /// Decides who runs the next call of a subject whose pass is one call. A capture compiles and times nothing.
    pub fn decide(self: &Shared<C>, stream: Stream) -> Turn<C::Kernel> {
        let is_ours = self.next_pass(stream);
        self.turn(0, is_ours, stream)
    }

    /// Returns whether our side runs the pass that begins. It is called once a pass.
    pub fn next_pass(self: &Shared<C>, stream: Stream) -> bool {
        if self.has_given_up() {
            return C::RUNS_WITHOUT && self.is_forced();
        }
        if self.shuns_times() {
            return false;
        }
        let is_capturing = || cudnn::device().is_capturing(stream);
        let mut state = self.state.lock();
        match &mut *state {
            State::Settled(settled) => settled.verdict.is_ours,
            State::Trying(trying) if is_capturing() => trying.trial.verdict(&self.made()).is_ours,
            State::Trying(trying) => match self.next_of_trial(&mut trying.trial) {
                Some(is_ours) => is_ours,
                None => self.end_trial(state),
            },
            State::Loading if self.is_forced() => {
                drop(state);
                drop(self.loading.lock());
                match &*self.state.lock() {
                    State::Settled(settled) => settled.verdict.is_ours,
                    state => matches!(state, State::Trying(_)),
                }
            }
            State::Loading => false,
            _ if is_capturing() => false,
            State::New => {
                *state = State::Loading;
                let _loading = self.loading.lock();
                drop(state);
                self.begin()
            }
            State::Untouched(passes) => {
                *passes += 1;
                let is_due = *passes > UNTOUCHED || self.contestant.is_loaded();
                if is_due && allowance::of_process().explores() {
                    *state = State::Loading;
                    drop(state);
                    self.start(None);
                }
                false
            }
            State::Elsewhere(since) if !Elsewhere::is_due(*since) => false,
            State::Elsewhere(_) => {
                *state = State::Loading;
                drop(state);
                let contest = self.clone();
                if !later(move || contest.recall_gently()) {
                    *self.state.lock() = State::Elsewhere(Instant::now());
                }
                false
            }
        }
    }

    /// Returns whether our side runs the next pass of a trial. `None`: all is timed.
    fn next_of_trial(&self, trial: &mut Trial<C::Kernel>) -> Option<bool> {
        let may_explore = compiling::is_quiet() && allowance::of_process().permits(0.0);
        let (made, has_waited) = (self.made(), trial.awaits_more());
        let next = trial.next_pass(&made, may_explore);
        if trial.awaits_more() && !has_waited {
            let names = self.names_of(&trial.verdict(&made)).join(", ");
            log::info!("{}: {names} runs it until others are compiled", self.contestant);
        }
        next
    }

    /// Settles on a trial's verdict. In the background the result is reported and stored, and the losers are unloaded.
    /// Returns whether our side won.
    fn end_trial(self: &Shared<C>, mut state: MutexGuard<State<C>>) -> bool {
        let State::Trying(trying) = &*state else { return false };
        let made = self.made();
        let mut verdict = trying.trial.verdict(&made);
        let is_ours = verdict.is_ours;
        if C::CALLS == 1 && !is_ours {
            verdict = Verdict::default(); // nothing goes back from a pass of ours, and our kernels are unloaded
        }
        let settled = Settled { verdict, weighs: which_are_made(&made) };
        let State::Trying(trying) = std::mem::replace(&mut *state, State::Settled(settled)) else { return is_ours };
        drop(state);
        let contest = self.clone();
        later(move || {
            let Trying { trial, failed, lock, .. } = *trying;
            let times = recall::times(&contest.contestant, &trial, &failed, &made);
            recall::keep(&contest.contestant, &times);
            let verdict = trial.verdict(&made);
            contest.note_savings(&verdict, &times);
            contest.report(&verdict, "timed in place", &times);
            drop(lock);
        });
        is_ours
    }

    /// Asks the database, on the first pass. Returns whether our side runs the pass.
    fn begin(self: &Shared<C>) -> bool {
        match self.recall() {
            None if self.is_forced() => compiling::now(|| self.load_first()),
            None => {
                self.enter(State::Untouched(1));
                false
            }
            Some(recalled) if self.is_forced() => {
                compiling::now(|| self.load(&recalled).unwrap_or_else(|()| self.load_first()))
            }
            Some(recalled) if self.is_quick(&recalled) => {
                compiling::now(|| self.load(&recalled).unwrap_or_else(|()| self.leave_untouched()))
            }
            Some(_) => {
                let contest = self.clone();
                if !later(move || contest.recall_gently()) {
                    self.leave_untouched();
                }
                false
            }
        }
    }

    /// Returns whether a result needs no compilation.
    fn is_quick(&self, recalled: &Recalled<C::Choice>) -> bool {
        let mut choices = recalled.choices.iter().enumerate();
        let is_compiled = |(call, choice): (usize, &Option<C::Choice>)| {
            choice.as_ref().is_none_or(|one| self.contestant.is_compiled(call, one))
        };
        !recalled.is_ours || choices.all(is_compiled)
    }

    /// Asks the database in the background, and loads the best kernels that it knows. If it knows no result, begins a
    /// trial.
    fn recall_gently(self: &Shared<C>) {
        match self.recall() {
            Some(recalled) => {
                if recalled.is_ours {
                    // The program's launches do not wait for compiling, as they do for loading. If it fails, loading says
                    // why.
                    let _ = self.contestant.compile_others();
                    for (call, choice) in recalled.choices.iter().enumerate() {
                        let _ = choice.as_ref().map(|choice| self.contestant.compile(call, choice));
                    }
                }
                compiling::gently(|| self.load(&recalled).unwrap_or_else(|()| self.leave_untouched()));
            }
            None => self.start(None),
        }
    }

    /// Loads what the database knows as the best. Returns whether our side runs the next pass. `Err`: it does not load.
    fn load(&self, recalled: &Recalled<C::Choice>) -> Result<bool, ()> {
        let loaded = self.loaded(recalled);
        let verdict =
            loaded.map_err(|why| log::info!("{}: what was best before is not there: {why}", self.contestant))?;
        let is_ours = verdict.is_ours;
        self.settle(verdict, recalled.weighs, KNOWN, &recalled.times);
        Ok(is_ours)
    }

    /// cuDNN runs the next passes, and then ours are tried.
    fn leave_untouched(&self) -> bool {
        self.enter(State::Untouched(0));
        false
    }

    fn loaded(&self, recalled: &Recalled<C::Choice>) -> Result<Verdict<C::Kernel>, String> {
        let mut kernels = [const { None }; MOST_CALLS];
        if recalled.is_ours {
            self.contestant.load_others()?;
            for (call, kernel) in kernels.iter_mut().enumerate() {
                let choice = recalled.choices[call].as_ref();
                *kernel = choice.map(|choice| self.contestant.load(call, choice)).transpose()?;
            }
        }
        Ok(Verdict { is_ours: recalled.is_ours, kernels })
    }

    /// Loads the first choices while the caller waits, because our kernels are forced. Others are compiled in the
    /// background. Returns whether our side runs the next pass.
    fn load_first(self: &Shared<C>) -> bool {
        let mut why = NOTHING_FITS.to_owned();
        let loaded = self.contestant.load_others().map(|()| {
            std::array::from_fn(|call| {
                let mut choices = if call < C::CALLS { self.contestant.choices(call) } else { &[] }.iter();
                choices.find_map(|one| self.contestant.load(call, one).inspect_err(|error| why.clone_from(error)).ok())
            })
        });
        let kernels: [Option<C::Kernel>; MOST_CALLS] = match loaded {
            Ok(kernels) if C::RUNS_WITHOUT || kernels[0].is_some() => kernels,
            loaded => {
                let why = loaded.err().unwrap_or(why);
                log::warn!("{}: {} runs it: {why}", self.contestant, self.contestant.plain());
                self.settle_untimed(Verdict::default(), &why);
                return false;
            }
        };
        if !self.contestant.has_others() || determinism::is_asked() || !allowance::of_process().explores() {
            self.settle_untimed(Verdict { is_ours: true, kernels }, C::FORCED);
        } else {
            self.start(Some(kernels));
        }
        true
    }

    /// Begins a trial: candidates come as they are compiled. `forced`: kernels that run already, because ours are forced;
    /// without them cuDNN is a candidate.
    fn start(self: &Shared<C>, forced: Option<[Option<C::Kernel>; MOST_CALLS]>) {
        let mut trial = Trial::new(C::CALLS, forced.is_none());
        let kernels = forced.clone().unwrap_or_default();
        let running = kernels.each_ref().map(|kernel| kernel.as_ref().map(|kernel| C::choice(kernel).clone()));
        if forced.is_some() {
            trial.begin(kernels, C::RUNS_WITHOUT);
        }
        let compiling = Compiling::new(self.clone(), forced.is_some().then_some(running));
        self.enter(State::Trying(Box::new(Trying { trial, failed: Vec::new(), lock: None, _tried: Tried::begin() })));
        if !compiler::begin(compiling) {
            let verdict = Verdict { is_ours: forced.is_some(), kernels: forced.unwrap_or_default() };
            self.settle_untimed(verdict, "there is no thread to compile on");
        }
    }

    /// Takes the right to time the subject. Returns false if another process times it, whose result will come.
    pub(super) fn takes_turn(&self) -> bool {
        let Some(entries) = C::FAMILY.entries() else { return true };
        let lock = entries.begin_exploring(&self.contestant.spec(0));
        let mut state = self.state.lock();
        match (&mut *state, lock) {
            (State::Trying(_), None) if self.elsewhere.waits() => {
                log::debug!("{}: another process times it", self.contestant);
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

    /// Decides who runs a call of a pass, given the side that runs the pass.
    pub fn turn(&self, call: usize, is_ours: bool, stream: Stream) -> Turn<C::Kernel> {
        self.made[call].fetch_add(1, Ordering::Relaxed);
        steps::called(std::ptr::from_ref(self).addr() + call);
        allowance::of_process().executed(self.usual[call].get() * self.contestant.units());
        let plain = |is_ours: bool, kernel: Option<C::Kernel>| Turn::untimed(kernel.filter(|_| is_ours));
        if self.has_given_up() || (C::CALLS == 1 && self.shuns_times()) {
            return plain(is_ours, None);
        }
        // Where nothing else depends on a call's side, it runs on the faster one as long as it is not timed.
        let side = |faster: bool| if C::CALLS == 1 { faster } else { is_ours };
        let mut state = self.state.lock();
        match &mut *state {
            State::Trying(trying) if cudnn::device().is_capturing(stream) => plain(is_ours, trying.trial.kernel(call)),
            State::Trying(trying) => {
                let trial = &mut trying.trial;
                let step = trial.step(call, is_ours);
                if let Some(least) = trial.best(call) {
                    self.usual[call].set(least);
                }
                match step {
                    Some((index, kernel)) => Turn { index: Some(index), kernel, timed_beside: trial.kernel(call) },
                    None => plain(side(trial.verdict(&self.made()).is_ours), trial.kernel(call)),
                }
            }
            State::Settled(settled) => {
                let (is_ours, kernel) = (side(settled.verdict.is_ours), settled.verdict.kernels[call].clone());
                let is_new = !settled.weighs[call] && is_made(&self.made(), call);
                if is_new && !self.is_forced() && !cudnn::device().is_capturing(stream) {
                    // The decision did not know of this call. Unloading kernels may wait for the device.
                    let settled = std::mem::replace(&mut *state, State::Untouched(UNTOUCHED));
                    drop(state);
                    later(move || drop(settled));
                }
                if is_ours {
                    let saves = self.saves[call].get();
                    steps::saved((saves != 0.0).then_some(saves * self.contestant.units()));
                }
                plain(is_ours, kernel)
            }
            _ => plain(is_ours, None),
        }
    }

    /// Runs a call of `units` units of work by `run` on a stream, between time marks if its turn is to be timed. If
    /// `run` panics, its candidate has failed: otherwise the trial would wait for it forever.
    pub fn timed<T>(
        &self,
        (call, turn): (usize, &Turn<C::Kernel>),
        (units, stream): (usize, Stream),
        run: impl FnOnce() -> (T, Outcome),
    ) -> T {
        let timing = self.time((call, turn), stream);
        let (result, outcome) = run();
        if let Some(timing) = timing {
            timing.end(units, outcome);
        }
        result
    }

    /// Begins to time a call on a stream, if its turn is to be timed.
    pub fn time(&self, (call, turn): (usize, &Turn<C::Kernel>), stream: Stream) -> Option<Timing<'_, C>> {
        let mut timing = Timing { contest: self, call, index: turn.index?, stream, started: None };
        steps::tried();
        if let Some(ours) = &turn.timed_beside {
            self.contestant.before_timed(ours, stream);
        }
        timing.started = Started::start(cudnn::device(), stream);
        Some(timing)
    }
}

/// A timed call that has not ended. Its candidate has failed if this is dropped.
pub struct Timing<'a, C: Contestant> {
    contest: &'a Contest<C>,
    call: usize,
    index: usize,
    stream: Stream,
    started: Option<Started>,
}

impl<C: Contestant> Timing<'_, C> {
    /// Ends the call, which did `units` units of work.
    pub fn end(mut self, units: usize, outcome: Outcome) {
        let timed: Option<Timed> = self.started.take().and_then(|started| started.end(cudnn::device(), self.stream));
        let (contest, call, index) = (self.contest, self.call, self.index);
        std::mem::forget(self);
        contest.with_trial(|Trying { trial, .. }| match outcome {
            Outcome::Ran => trial.ran((call, index), units, timed),
            Outcome::NoRoom => trial.ran((call, index), units, None),
            Outcome::Nothing => trial.skipped(call),
            Outcome::Failed => trial.failed((call, index)),
        });
    }
}

impl<C: Contestant> Drop for Timing<'_, C> {
    fn drop(&mut self) {
        self.contest.with_trial(|Trying { trial, .. }| trial.failed((self.call, self.index)));
    }
}
