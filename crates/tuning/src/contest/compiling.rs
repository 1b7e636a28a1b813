//! The candidates of a contest, compiled in the background: the first choice of each call, then the others in turns.

use super::compiler;
use super::contestant::NOTHING_FITS;
use super::trial::Verdict;
use super::{Contestant, MOST_CALLS, Shared, Trying};
use gpu::background::{self, compiling};

/// The candidates of a contest that are still to be compiled.
pub(super) struct Compiling<C: Contestant> {
    contest: Shared<C>,
    /// The rank of each among its call's, the call, and its kernel; the last one is the next.
    left: Vec<(usize, usize, C::Choice)>,
    /// The first kernels, until the trial gets them. `None`: it has them.
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
    /// The candidates of a contest, but for those that are `running` already because our kernels are forced.
    pub fn new(contest: Shared<C>, running: Option<[Option<C::Choice>; MOST_CALLS]>) -> Self {
        let contestant = &contest.contestant;
        let most = (0..C::CALLS).map(|call| contestant.choices(call).len()).max().unwrap_or(0);
        let ranked = (0..most).flat_map(|rank| (0..C::CALLS).map(move |call| (rank, call)));
        let ranked = ranked.filter_map(|(rank, call)| Some((rank, call, contestant.choices(call).get(rank)?.clone())));
        let is_left = |(_, call, choice): &(usize, usize, C::Choice)| {
            running.as_ref().is_none_or(|running| running[*call].as_ref() != Some(choice))
        };
        let mut left: Vec<_> = ranked.filter(is_left).collect();
        left.reverse();
        let all = running.is_none();
        Self {
            left,
            first: all.then(Default::default),
            later: Vec::new(),
            compiled: usize::from(!all),
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

    /// Hands a kernel to the trial, now or once it begins or all are compiled.
    fn add(&mut self, call: usize, kernel: C::Kernel) {
        match &mut self.first {
            Some(first) if first[call].is_none() => first[call] = Some(kernel),
            None if !C::TIMES_AGAIN => self.contest.with_trial(|Trying { trial, .. }| trial.add(call, kernel)),
            _ => self.later.push((call, kernel)),
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
                log::info!("{contestant}: {} runs it: {why}", contestant.plain());
                self.lose(&why);
                false
            }
            None => false,
        }
    }

    /// cuDNN runs the subject: our side cannot.
    fn lose(&mut self, why: &str) {
        self.progress = Progress::Ended;
        self.contest.settle_untimed(Verdict::default(), why);
    }

    /// No more candidates come.
    fn end(&mut self) {
        self.progress = Progress::Ended;
        let (made, later) = (self.contest.made(), std::mem::take(&mut self.later));
        self.contest.with_trial(|Trying { trial, .. }| {
            let are_more = !later.is_empty();
            later.into_iter().for_each(|(call, kernel)| trial.add(call, kernel));
            if are_more && C::TIMES_AGAIN {
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
        self.left.last().is_none_or(|(rank, ..)| *rank > 0)
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
        if let Some((_, call, choice)) = self.left.pop() {
            let Ok(kernel) = self.compile(call, &choice) else { return false };
            if self.contest.has_given_up() {
                return false;
            }
            if let Some(kernel) = kernel {
                self.add(call, kernel);
            }
        }
        let begins = self.first.as_ref().is_some_and(|first| self.has_first(first));
        if begins && !self.begin() {
            return false;
        }
        if !self.left.is_empty() {
            return true;
        }
        if self.first.is_some() {
            let why = std::mem::take(&mut self.why);
            self.lose(&why);
        } else {
            self.end();
        }
        false
    }
}

impl<C: Contestant> Drop for Compiling<C> {
    /// After a panic, the candidates that were compiled stay. At the process's end there is nothing to do.
    fn drop(&mut self) {
        if self.progress == Progress::UnderWay && !background::stopped() {
            let mut has_none = false;
            // A trial without candidates is never complete: a pass that begins would end it, and report it besides.
            self.contest.with_trial(|Trying { trial, .. }| {
                has_none = !trial.is_ready();
                if !has_none {
                    trial.complete();
                }
            });
            if has_none {
                self.lose("compiling was cut short");
            }
        }
    }
}
