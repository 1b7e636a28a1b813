//! A trial between cuDNN and our kernels in the program's own passes. A pass runs on one of the two sides as a whole; each
//! of its calls is timed for itself.

use super::contestant::MOST_CALLS;
use super::turns::{MARGIN, Measured, Step, Timed, Turns};

/// An implementation of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate<K> {
    Cudnn,
    /// Our side, with a kernel or without one.
    Ours(Option<K>),
}

impl<K> Candidate<K> {
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Our kernel, if the candidate has one.
    pub fn kernel(&self) -> Option<&K> {
        match self {
            Self::Ours(kernel) => kernel.as_ref(),
            Self::Cudnn => None,
        }
    }
}

/// The fastest candidate on one side that has a time: its index and its time.
pub fn fastest<K>(candidates: &[Candidate<K>], times: &[Option<f64>], is_ours: bool) -> Option<(usize, f64)> {
    let timed = times.iter().enumerate().filter_map(|(index, time)| Some((index, (*time)?)));
    timed.filter(|&(index, _)| candidates[index].is_ours() == is_ours).min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// The candidates of a call.
pub struct Entrants<K, M = Timed> {
    pub candidates: Vec<Candidate<K>>,
    turns: Turns<M>,
}

/// A trial. `K` is one of our kernels, `M` the measurement of an execution.
pub struct Trial<K, M = Timed> {
    /// The entrants of each call.
    calls: Vec<Entrants<K, M>>,
    /// The passes so far in which both sides had something to time.
    passes: u32,
    /// No more candidates come.
    is_complete: bool,
    /// Our side was faster before all candidates were timed again.
    was_ours_faster: bool,
    /// All candidates so far were timed, and more will come.
    awaits_more: bool,
}

/// How often the program made each call.
pub type Made = [u64; MOST_CALLS];

/// A call counts if the program makes it at least once for this many of its most frequent call.
const RARE: u64 = 16;

/// Returns whether the program makes a call, and not just rarely.
pub fn is_made(made: &Made, call: usize) -> bool {
    let most = made.iter().copied().max().unwrap_or(0);
    made[call] > 0 && made[call].saturating_mul(RARE) >= most
}

/// The calls that the program makes.
pub fn which_are_made(made: &Made) -> [bool; MOST_CALLS] {
    std::array::from_fn(|call| is_made(made, call))
}

/// The outcome of a trial so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<K> {
    pub is_ours: bool,
    /// Our best kernel for each call.
    pub kernels: [Option<K>; MOST_CALLS],
}

impl<K> Default for Verdict<K> {
    /// cuDNN's side.
    fn default() -> Self {
        Self { is_ours: false, kernels: Default::default() }
    }
}

impl<K: Clone, M: Measured> Entrants<K, M> {
    fn new(with_cudnn: bool) -> Self {
        let candidates: Vec<_> = with_cudnn.then_some(Candidate::Cudnn).into_iter().collect();
        Self { turns: Turns::new(candidates.len()), candidates }
    }

    fn add(&mut self, kernel: Option<K>) {
        self.candidates.push(Candidate::Ours(kernel));
        self.turns.add();
    }

    fn has_ours(&self) -> bool {
        self.candidates.iter().any(Candidate::is_ours)
    }

    /// Returns whether none of our candidates can run.
    fn is_lost(&self) -> bool {
        let mut candidates = self.candidates.iter().enumerate();
        candidates.all(|(index, one)| !one.is_ours() || self.turns.has_failed(index))
    }

    fn is_open(&mut self, is_ours: bool) -> bool {
        let Self { candidates, turns } = self;
        turns.is_open(|index| candidates[index].is_ours() == is_ours)
    }

    /// The milliseconds a unit of work of each candidate; `None` if it does not run or was not timed yet.
    pub fn times(&self) -> Vec<Option<f64>> {
        self.turns.times()
    }

    /// The fastest on one side that was timed: its index and its time.
    fn fastest(&self, is_ours: bool) -> Option<(usize, f64)> {
        fastest(&self.candidates, &self.times(), is_ours)
    }

    /// Our best kernel so far: the fastest one, or the first one if none has a time.
    fn kernel(&self) -> Option<K> {
        let first = || self.candidates.iter().position(Candidate::is_ours);
        let best = self.fastest(true).map(|(index, _)| index).or_else(first)?;
        self.candidates[best].kernel().cloned()
    }
}

impl<K: Clone, M: Measured> Trial<K, M> {
    /// A trial of this many calls, with cuDNN if it is a candidate. Our candidates come by [`Self::begin`] and
    /// [`Self::add`]. Nothing is timed before each call has one of them.
    pub fn new(calls: usize, with_cudnn: bool) -> Self {
        let calls = (0..calls).map(|_| Entrants::new(with_cudnn)).collect();
        Self { calls, passes: 0, is_complete: false, was_ours_faster: false, awaits_more: false }
    }

    /// Adds our first candidates: a kernel for each call that has one, and our side without a kernel if it
    /// `runs_without`.
    pub fn begin(&mut self, kernels: [Option<K>; MOST_CALLS], runs_without: bool) {
        for (call, kernel) in self.calls.iter_mut().zip(kernels) {
            if kernel.is_some() {
                call.add(kernel);
            }
            if runs_without {
                call.add(None);
            }
        }
    }

    /// Adds one of our kernels as a candidate.
    pub fn add(&mut self, call: usize, kernel: K) {
        self.calls[call].add(Some(kernel));
    }

    /// No more candidates come.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Times all candidates of all calls again.
    pub fn time_again(&mut self, made: &Made) {
        self.was_ours_faster = self.verdict(made).is_ours;
        for Entrants { candidates, turns } in &mut self.calls {
            turns.again(candidates.len());
        }
    }

    /// The candidates of each call.
    pub fn calls(&self) -> &[Entrants<K, M>] {
        &self.calls
    }

    /// Returns whether our side runs the next pass; `None` once all is timed. Calls that the program does not make do
    /// not matter. If nothing may be explored now, the side that is faster so far runs.
    pub fn next_pass(&mut self, made: &Made, may_explore: bool) -> Option<bool> {
        if !self.is_ready() && !self.is_complete {
            return Some(false);
        }
        // If our side cannot run one of the calls, its other calls are not timed either.
        let can_run =
            self.calls.iter().zip(which_are_made(made)).all(|(entrants, is_made)| !is_made || !entrants.is_lost());
        let [cudnn, ours] = [false, true].map(|is_ours| {
            let mut calls = self.calls.iter_mut().zip(which_are_made(made));
            calls.any(|(entrants, is_made)| is_made && entrants.is_open(is_ours))
        });
        match (cudnn, ours && can_run) {
            (false, false) if self.is_complete => None,
            (true, false) => Some(false),
            (false, false) => {
                self.awaits_more = true;
                Some(self.verdict(made).is_ours)
            }
            _ if !may_explore => Some(self.verdict(made).is_ours),
            (false, true) => Some(true),
            (true, true) => {
                // Not simply alternating: a program may run backward only after every second forward pass.
                self.passes = self.passes.wrapping_add(1);
                Some(self.passes.wrapping_mul(0x9E37_79B9) >> 31 == 0)
            }
        }
    }

    /// Returns whether all candidates so far were timed, and more will come.
    pub fn awaits_more(&self) -> bool {
        self.awaits_more
    }

    /// Chooses the candidate of a call to time, and returns it with its kernel. `None` if nothing is to be timed.
    pub fn step(&mut self, call: usize, is_ours: bool) -> Option<(usize, Option<K>)> {
        if !self.is_ready() && !self.is_complete {
            return None;
        }
        let Entrants { candidates, turns } = &mut self.calls[call];
        match turns.step_as_permitted_among(|index| candidates[index].is_ours() == is_ours) {
            Step::Run(index) => Some((index, candidates[index].kernel().cloned())),
            Step::Wait | Step::Over => None,
        }
    }

    /// Records the execution of a call's candidate over `units` units of work.
    pub fn ran(&mut self, (call, candidate): (usize, usize), units: usize, measured: Option<M>) {
        let Entrants { candidates, turns } = &mut self.calls[call];
        if candidate < candidates.len() {
            turns.ran(candidate, units, measured);
        }
    }

    /// An execution says nothing about its candidate.
    pub fn skipped(&mut self, call: usize) {
        self.calls[call].turns.skipped();
    }

    /// A candidate of a call cannot run.
    pub fn failed(&mut self, (call, candidate): (usize, usize)) {
        let Entrants { candidates, turns } = &mut self.calls[call];
        if candidate < candidates.len() {
            turns.failed(candidate);
        }
    }

    /// The shortest time of a call, in milliseconds a unit of work.
    pub fn best(&self, call: usize) -> Option<f64> {
        self.calls[call].turns.best()
    }

    /// Our best kernel for a call so far.
    pub fn kernel(&self, call: usize) -> Option<K> {
        self.calls[call].kernel()
    }

    /// Returns whether each call has one of our candidates.
    pub fn is_ready(&self) -> bool {
        self.calls.iter().all(Entrants::has_ours)
    }

    /// The outcome so far. Our side must win by the margin, over the calls that the program makes. If cuDNN is no
    /// candidate, our side wins.
    pub fn verdict(&self, made: &Made) -> Verdict<K> {
        let kernels = std::array::from_fn(|call| self.calls.get(call).and_then(Entrants::kernel));
        let has_cudnn = self.calls.iter().any(|call| call.candidates.iter().any(|one| !one.is_ours()));
        let [cudnn, ours] =
            [false, true].map(|is_ours| weighed(made, |call| Some(self.calls[call].fastest(is_ours)?.1)));
        let is_faster = match (cudnn, ours) {
            (Some(cudnn), Some(ours)) => ours < MARGIN * cudnn,
            _ => self.was_ours_faster && !self.is_over(),
        };
        Verdict { is_ours: self.is_ready() && (!has_cudnn || is_faster), kernels }
    }

    /// Returns whether each candidate was timed or has failed.
    fn is_over(&self) -> bool {
        self.is_complete && self.calls.iter().all(|call| call.turns.is_over())
    }
}

/// The time of all calls that the program made, given the time of each call. `None` if a call that the program makes
/// has no time.
pub fn weighed(made: &Made, time: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let calls = (0..MOST_CALLS).filter(|&call| is_made(made, call));
    calls.map(|call| Some(time(call)? * made[call] as f64)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::turns::Reading;
    use super::*;

    const CALLS: [usize; 3] = [0, 1, 2];
    const FORWARD: usize = 0;
    const DATA: usize = 1;
    const WEIGHTS: usize = 2;

    /// The time that a program measures.
    #[derive(Clone, Copy)]
    struct Took(f64);

    impl Measured for Took {
        fn read(&self) -> Reading {
            Reading::Ready(self.0)
        }
    }

    type Toy = Trial<&'static str, Took>;

    /// A trial of all candidates: two kernels forward and one back, and one launch a time step.
    fn toy(with_cudnn: bool) -> Toy {
        let mut trial = Toy::new(3, with_cudnn);
        trial.begin([Some("a"), Some("c"), None], true);
        trial.add(FORWARD, "b");
        trial.complete();
        trial
    }

    /// The time of 10 time steps: so little that nothing asks the process's allowance.
    fn time(call: usize, is_ours: bool, kernel: Option<&str>) -> Took {
        let microseconds = match (call, is_ours, kernel) {
            (FORWARD, false, _) => 20.0,
            (DATA, false, _) => 30.0,
            (WEIGHTS, false, _) => 5.0,
            (FORWARD, true, Some("a")) => 14.0,
            (FORWARD, true, Some("b")) => 11.0,
            (DATA, true, Some("c")) => 16.0,
            (WEIGHTS, true, _) => 9.0,
            _ => 60.0,
        };
        Took(microseconds / 1e3)
    }

    fn call(trial: &mut Toy, call: usize, is_ours: bool, time: &dyn Fn(usize, bool, Option<&str>) -> Took) {
        if let Some((index, kernel)) = trial.step(call, is_ours) {
            trial.ran((call, index), 10, Some(time(call, is_ours, kernel)));
        }
    }

    /// Runs a program that makes `calls` in each pass, for at most `passes` passes. Returns the numbers of cuDNN's
    /// passes and of our passes.
    fn run(trial: &mut Toy, calls: &[usize], passes: usize) -> [usize; 2] {
        let made = CALLS.map(|call| u64::from(calls.contains(&call)));
        let mut dealt = [0; 2];
        for _ in 0..passes {
            let Some(is_ours) = trial.next_pass(&made, true) else { break };
            dealt[usize::from(is_ours)] += 1;
            for &one in calls {
                call(trial, one, is_ours, &time);
            }
        }
        dealt
    }

    #[test]
    fn all_is_timed_and_the_fastest_kernels_win() {
        let mut trial = toy(true);
        let dealt = run(&mut trial, &CALLS, 100);
        assert!(dealt[0] >= 6 && dealt[1] >= 16 && dealt.iter().sum::<usize>() < 40, "{dealt:?}");
        let made = [1; 3];
        assert_eq!(trial.next_pass(&made, true), None);
        assert_eq!(trial.verdict(&made), Verdict { is_ours: true, kernels: [Some("b"), Some("c"), None] });
        assert_eq!(trial.calls()[0].times()[0], Some(0.002));
        // 11 + 16 + 9 against 20 + 30 + 5; with many gradients of weights, 11 + 16 + 90 against 20 + 30 + 50.
        assert!(!trial.verdict(&[1, 1, 10]).is_ours);
        assert_eq!(weighed(&[2, 1, 0], |call| Some([3.0, 4.0, 100.0][call])), Some(10.0));
        assert_eq!(weighed(&[2, 1, 0], |call| (call == FORWARD).then_some(1.0)), None);
    }

    #[test]
    fn calls_that_are_never_made_are_not_waited_for() {
        let mut trial = toy(true);
        assert!(run(&mut trial, &[FORWARD, DATA], 100).iter().sum::<usize>() < 40);
        assert_eq!(trial.next_pass(&[1, 1, 0], true), None);
        assert!(trial.verdict(&[1, 1, 0]).is_ours);
        assert_eq!(trial.next_pass(&[1, 1, 1], true), Some(true), "weights are made now");
        assert!(!trial.verdict(&[1, 1, 1]).is_ours, "they were not timed");
    }

    /// A program that gave up gradients of weights once its trial had begun.
    #[test]
    fn a_call_that_is_not_made_any_more_does_not_hold_up_the_trial() {
        let mut trial = toy(true);
        run(&mut trial, &CALLS, 3);
        run(&mut trial, &[FORWARD, DATA], 100);
        assert!(trial.next_pass(&[40, 40, 3], true).is_some(), "they may come again");
        assert_eq!(trial.next_pass(&[60, 60, 3], true), None);
        assert!(trial.verdict(&[60, 60, 3]).is_ours);
    }

    /// Such as two forward calls for each backward.
    #[test]
    fn both_sides_are_gone_back_from_whatever_the_programs_rhythm() {
        for rhythm in 1..5 {
            let (mut trial, mut passes) = (toy(true), 0);
            while let Some(is_ours) = trial.next_pass(&[1; 3], true) {
                passes += 1;
                assert!(passes < 60 * rhythm, "{rhythm}: no end");
                let calls = if passes % rhythm == 0 { &CALLS[..] } else { &CALLS[..1] };
                calls.iter().for_each(|&one| call(&mut trial, one, is_ours, &time));
            }
        }
    }

    /// Our side's forward call fails, so that its passes have no backward calls.
    #[test]
    fn a_side_that_cannot_run_a_call_loses() {
        let mut trial = toy(true);
        for passes in 0.. {
            let Some(is_ours) = trial.next_pass(&[1; 3], true) else { break };
            assert!(passes < 60, "no end");
            match trial.step(FORWARD, is_ours) {
                Some((index, _)) if is_ours => trial.failed((FORWARD, index)),
                Some((index, kernel)) => trial.ran((FORWARD, index), 10, Some(time(FORWARD, is_ours, kernel))),
                None => {}
            }
            if !is_ours {
                [DATA, WEIGHTS].iter().for_each(|&one| call(&mut trial, one, is_ours, &time));
            }
        }
        assert!(!trial.verdict(&[1; 3]).is_ours);
    }

    #[test]
    fn ours_begin_once_each_call_has_one() {
        let mut trial = Toy::new(3, true);
        trial.add(FORWARD, "a");
        assert_eq!(run(&mut trial, &CALLS, 30), [30, 0], "more are to come");
        assert_eq!(trial.best(FORWARD), None, "cuDNN is timed beside ours");
        trial.add(DATA, "c");
        trial.calls[WEIGHTS].add(None);
        assert_eq!(trial.next_pass(&[1; 3], false), Some(false), "nothing may be explored");
        let dealt = run(&mut trial, &CALLS, 40);
        assert!(dealt[0] > 0 && dealt[1] > 0, "{dealt:?}");
        assert_eq!(trial.next_pass(&[1; 3], false), Some(true), "it is faster so far");
        trial.complete();
        assert_eq!(trial.next_pass(&[1; 3], true), None);
    }

    #[test]
    fn without_cudnn_all_passes_are_ours() {
        let mut trial = toy(false);
        assert_eq!(trial.verdict(&[1; 3]), Verdict { is_ours: true, kernels: [Some("a"), Some("c"), None] });
        let dealt = run(&mut trial, &CALLS, 100);
        assert!(dealt[0] == 0 && (6..40).contains(&dealt[1]), "{dealt:?}");
        assert_eq!(trial.verdict(&[1; 3]).kernels, [Some("b"), Some("c"), None]);
    }
}
