//! The candidates of a contest, compiled in the background: the first choice of each call, then the others in turns.

use super::compiler;
use super::contestant::NOTHING_FITS;
use super::trial::Verdict;
use super::{Contestant, MOST_CALLS, Shared, Times, Trying};
use gpu::background::{self, compiling};

/// The candidates of a contest that are still to be compiled.
pub(super) struct Compiling<C: Contestant> {
    contest: Shared<C>,
    /// The call and the kernel of each. The last one is compiled next.
    left: Vec<(usize, C::Choice)>,
    /// The first kernels, until the trial gets them; `None` once it has them.
    first: Option<[Option<C::Kernel>; MOST_CALLS]>,
    /// The kernels that are tried once all are compiled.
    later: Vec<(usize, C::Kernel)>,
    compiled: usize,
    has_turn: bool,
    /// The reason why the last kernel that failed does not run.
    why: String,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waiting,
    UnderWay,
    Ended,
}

impl<C: Contestant> Compiling<C> {
    /// All candidates of a contest. `all` is false if the first ones run already: the trial does not get them again.
    pub fn new(contest: Shared<C>, all: bool) -> Self {
        let contestant = &contest.contestant;
        let most = (0..C::CALLS).map(|call| contestant.choices(call).len()).max().unwrap_or(0);
        let ranked = (0..most).flat_map(|rank| (0..C::CALLS).map(move |call| (rank, call)));
        let ranked = ranked.filter_map(|(rank, call)| Some((call, contestant.choices(call).get(rank)?.clone())));
        let mut left: Vec<_> = ranked.collect();
        left.reverse();
        Self {
            left,
            first: all.then(Default::default),
            later: Vec::new(),
            compiled: 0,
            has_turn: !all,
            why: NOTHING_FITS.to_owned(),
            progress: Progress::Waiting,
            contest,
        }
    }

    /// Compiles and loads a candidate. `Err`: the process ends.
    fn compile(&mut self, call: usize, choice: &C::Choice) -> Result<Option<C::Kernel>, ()> {
        let contestant = &self.contest.contestant;
        let loaded = match contestant.compile(call, choice) {
            Err(why) => Err(why),
            Ok(()) => compiling::gently(|| contestant.load(call, choice)).ok_or(())?,
        };
        if background::stopped() {
            return Err(()); // a failure that the process's end causes says nothing
        }
        self.compiled += 1;
        match loaded {
            Ok(kernel) => Ok(Some(kernel)),
            Err(why) => {
                log::debug!("{contestant}: {why}");
                let name = contestant.name(call, Some(choice));
                self.contest.with_trial(|Trying { failed, .. }| failed.push((call, name)));
                self.why = why;
                Ok(None)
            }
        }
    }

    /// Begins to time our side, with the first candidates. Returns false if there is nothing more to do.
    fn begin(&mut self) -> bool {
        let Some(kernels) = self.first.take() else { return true };
        let contestant = &self.contest.contestant;
        // If it fails, loading says why.
        let _ = contestant.compile_others();
        match compiling::gently(|| contestant.load_others()) {
            Some(Ok(())) => {
                self.contest.with_trial(|Trying { trial, .. }| trial.begin(kernels, C::RUNS_WITHOUT));
                true
            }
            Some(Err(why)) => {
                log::info!("{contestant}: cuDNN runs it: {why}");
                self.lose(&why);
                false
            }
            None => false,
        }
    }

    /// cuDNN runs the subject: our side cannot.
    fn lose(&mut self, why: &str) {
        self.progress = Progress::Ended;
        self.contest.settle(Verdict::default(), [true; MOST_CALLS], why, &Times::default());
    }

    /// No more candidates come.
    fn end(&mut self) {
        self.progress = Progress::Ended;
        let (made, later) = (self.contest.made(), std::mem::take(&mut self.later));
        self.contest.with_trial(|Trying { trial, .. }| {
            if !later.is_empty() {
                later.into_iter().for_each(|(call, kernel)| trial.add(call, kernel));
                trial.time_again(&made);
            }
            trial.complete();
        });
    }

    /// Returns whether the first candidates can begin. If our side runs without a kernel, each call's first choice must
    /// have been compiled or have failed. Otherwise each call must have a kernel that runs.
    fn has_first(&self, first: &[Option<C::Kernel>; MOST_CALLS]) -> bool {
        if !C::RUNS_WITHOUT {
            return (0..C::CALLS).all(|call| first[call].is_some());
        }
        // The next candidate belongs to another rank.
        self.left.last().is_none_or(|(next, _)| *next == 0)
    }
}

impl<C: Contestant> compiler::Job for Compiling<C> {
    fn device(&self) -> i32 {
        self.contest.contestant.device()
    }

    fn compiled(&self) -> usize {
        self.compiled
    }

    fn spent(&self) -> u64 {
        self.contest.made()[0].saturating_mul(self.contest.contestant.launches())
    }

    fn compile_next(&mut self) -> bool {
        self.progress = Progress::UnderWay;
        if !self.has_turn {
            if !self.contest.takes_turn() {
                self.progress = Progress::Ended;
                return false;
            }
            self.has_turn = true;
        }
        let Some((call, choice)) = self.left.pop() else {
            let needs_one = self.first.is_some() && !C::RUNS_WITHOUT;
            if needs_one {
                let why = std::mem::take(&mut self.why);
                self.lose(&why);
            } else if self.begin() {
                self.end();
            }
            return false;
        };
        let Ok(kernel) = self.compile(call, &choice) else { return false };
        if self.contest.has_given_up() {
            return false;
        }
        match (self.first.take(), kernel) {
            (Some(mut first), kernel) => {
                let is_later = first[call].is_some();
                match kernel {
                    Some(kernel) if is_later => self.later.push((call, kernel)),
                    Some(kernel) => first[call] = Some(kernel),
                    None => {}
                }
                let begins = self.has_first(&first);
                self.first = Some(first);
                !begins || self.begin()
            }
            (None, Some(kernel)) if C::TIMES_AGAIN => {
                let is_known = self.is_known(call, &kernel);
                if !is_known {
                    self.later.push((call, kernel));
                }
                true
            }
            (None, Some(kernel)) => {
                if !self.is_known(call, &kernel) {
                    self.contest.with_trial(|Trying { trial, .. }| trial.add(call, kernel));
                }
                true
            }
            (None, None) => true,
        }
    }
}

impl<C: Contestant> Compiling<C> {
    /// Returns whether a kernel is a candidate already: forced ones run before others are compiled.
    fn is_known(&self, call: usize, kernel: &C::Kernel) -> bool {
        let mut is_known = false;
        self.contest.with_trial(|Trying { trial, .. }| {
            is_known = trial.kernels(call).any(|known| C::choice(known) == C::choice(kernel));
        });
        is_known
    }
}

impl<C: Contestant> Drop for Compiling<C> {
    /// After a panic, the candidates that were compiled stay. At the process's end there is nothing to do.
    fn drop(&mut self) {
        if self.progress == Progress::UnderWay && !background::stopped() {
            let mut has_none = false;
            self.contest.with_trial(|Trying { trial, .. }| {
                trial.complete();
                has_none = !trial.is_ready();
            });
            if has_none {
                self.lose("compiling was cut short");
            }
        }
    }
}
