//! A trial between cuDNN and our kernels in the program's own training passes. A pass runs on one of the two as a whole,
//! since its reserve is of one of the two; each of its calls is timed for itself.

use tuning::turns::{MARGIN, Measured, Step, Timed, Turns};

/// The calls of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Forward,
    Data,
    Weights,
}

pub const CALLS: [Call; 3] = [Call::Forward, Call::Data, Call::Weights];

/// What runs a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate<K> {
    Cudnn,
    /// A persistent kernel of ours, or `None`: one launch a time step, and for gradients of weights the products.
    Ours(Option<K>),
}

impl<K> Candidate<K> {
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }
}

/// The fastest candidate on one side that has a time: its index and its time.
pub fn fastest<K>(candidates: &[Candidate<K>], times: &[Option<f64>], is_ours: bool) -> Option<(usize, f64)> {
    let timed = times.iter().enumerate().filter_map(|(index, time)| Some((index, (*time)?)));
    timed.filter(|&(index, _)| candidates[index].is_ours() == is_ours).min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// The candidates of a call.
pub struct Contest<K, M = Timed> {
    pub candidates: Vec<Candidate<K>>,
    turns: Turns<M>,
}

/// A trial. `K` is a persistent kernel, `M` the measurement of an execution.
pub struct Trial<K, M = Timed> {
    contests: [Contest<K, M>; 3],
    /// Passes that were dealt out.
    passes: u32,
    /// No more candidates come.
    pub is_complete: bool,
    /// Candidates that do not run, by name.
    pub failed: Vec<(Call, String)>,
}

/// How often the program made each call.
pub type Seen = [u64; 3];

/// A call counts if the program makes it at least once for so many of its most frequent call.
const RARE: u64 = 16;

/// Returns whether the program makes a call, and not just rarely.
pub fn is_made(seen: &Seen, call: Call) -> bool {
    let most = seen.iter().copied().max().unwrap_or(0);
    seen[call as usize] > 0 && seen[call as usize].saturating_mul(RARE) >= most
}

/// The calls that the program makes.
pub fn made(seen: &Seen) -> [bool; 3] {
    CALLS.map(|call| is_made(seen, call))
}

/// The outcome of a trial so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<K> {
    pub is_ours: bool,
    /// The best kernels of ours, forward and back; `None` stands for one launch a time step.
    pub kernels: [Option<K>; 2],
}

impl<K: Clone, M: Measured> Contest<K, M> {
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

    fn is_open(&mut self, is_ours: bool) -> bool {
        let Self { candidates, turns } = self;
        turns.is_open(|index| candidates[index].is_ours() == is_ours)
    }

    /// The milliseconds a time step of each candidate; `None`: it does not run, or was not timed yet.
    pub fn times(&self) -> Vec<Option<f64>> {
        self.turns.times()
    }

    /// The fastest on one side that was timed: its index and its time.
    fn fastest(&self, is_ours: bool) -> Option<(usize, f64)> {
        fastest(&self.candidates, &self.times(), is_ours)
    }

    /// The best kernel of ours so far: the fastest, or the first one.
    fn kernel(&self) -> Option<K> {
        let first = || self.candidates.iter().position(Candidate::is_ours);
        let best = self.fastest(true).map(|(index, _)| index).or_else(first)?;
        match &self.candidates[best] {
            Candidate::Ours(kernel) => kernel.clone(),
            Candidate::Cudnn => None,
        }
    }
}

impl<K: Clone, M: Measured> Trial<K, M> {
    /// A trial of cuDNN, if it is a candidate. Ours come by [`Self::add`].
    pub fn new(with_cudnn: bool) -> Self {
        let contests = CALLS.map(|_| Contest::new(with_cudnn));
        Self { contests, passes: 0, is_complete: false, failed: Vec::new() }
    }

    /// Adds the first candidates of ours: kernels forward and back, if there are any, and one launch a time step.
    pub fn begin(&mut self, kernels: [Option<K>; 2]) {
        for (call, kernel) in [Call::Forward, Call::Data].into_iter().zip(kernels) {
            if kernel.is_some() {
                self.add(call, kernel);
            }
            self.add(call, None);
        }
        self.add(Call::Weights, None);
    }

    /// Adds a candidate of ours.
    pub fn add(&mut self, call: Call, kernel: Option<K>) {
        self.contests[call as usize].add(kernel);
    }

    /// The kernels of ours for a call.
    pub fn kernels(&self, call: Call) -> impl Iterator<Item = &K> {
        self.contests[call as usize].candidates.iter().filter_map(|candidate| match candidate {
            Candidate::Ours(kernel) => kernel.as_ref(),
            Candidate::Cudnn => None,
        })
    }

    /// The candidates of each call.
    pub fn contests(&self) -> &[Contest<K, M>; 3] {
        &self.contests
    }

    /// Returns whether the next pass is ours; `None` once all is timed. Calls that the program does not make do not matter.
    /// Where nothing may be explored now, the faster one so far runs.
    pub fn next_pass(&mut self, seen: &Seen, may_explore: bool) -> Option<bool> {
        let is_ready = self.is_ready();
        let [cudnn, ours] = [false, true].map(|is_ours| {
            self.contests.iter_mut().zip(made(seen)).any(|(contest, is_made)| is_made && contest.is_open(is_ours))
        });
        match (cudnn, ours && is_ready) {
            (false, false) if self.is_complete => None,
            (true, false) => Some(false),
            _ if !may_explore => Some(self.verdict(seen).is_ours),
            (false, false) => Some(self.verdict(seen).is_ours),
            (false, true) => Some(true),
            (true, true) => {
                // Not every second one: a program may go back from every second one alone.
                self.passes = self.passes.wrapping_add(1);
                Some(self.passes.wrapping_mul(0x9E37_79B9) >> 31 == 0)
            }
        }
    }

    /// Chooses what runs a call of a pass: the candidate to be timed, if its turn is to be, and a kernel of ours.
    pub fn step(&mut self, call: Call, is_ours: bool) -> (Option<usize>, Option<K>) {
        let contest = &mut self.contests[call as usize];
        let Contest { candidates, turns } = contest;
        match turns.step_as_permitted_among(|index| candidates[index].is_ours() == is_ours) {
            Step::Run(index) => match &candidates[index] {
                Candidate::Ours(kernel) => (Some(index), kernel.clone()),
                Candidate::Cudnn => (Some(index), None),
            },
            Step::Wait | Step::Over => (None, contest.kernel()),
        }
    }

    /// Records the execution of a candidate of a call, over so many time steps.
    pub fn ran(&mut self, (call, candidate): (Call, usize), steps: usize, measured: Option<M>) {
        let Contest { candidates, turns } = &mut self.contests[call as usize];
        if candidate < candidates.len() {
            turns.ran(candidate, steps, measured);
        }
    }

    /// An execution says nothing about its candidate.
    pub fn skipped(&mut self, call: Call) {
        self.contests[call as usize].turns.skipped();
    }

    /// The shortest time of a call, in milliseconds a time step.
    pub fn best(&self, call: Call) -> Option<f64> {
        self.contests[call as usize].turns.best()
    }

    /// The best kernel of ours for a call so far.
    pub fn kernel(&self, call: Call) -> Option<K> {
        self.contests[call as usize].kernel()
    }

    /// Returns whether each call has a candidate of ours.
    fn is_ready(&self) -> bool {
        self.contests.iter().all(Contest::has_ours)
    }

    /// The outcome so far. Ours must win by the margin, over the calls that the program makes; without cuDNN as a
    /// candidate they win.
    pub fn verdict(&self, seen: &Seen) -> Verdict<K> {
        let kernels = [Call::Forward, Call::Data].map(|call| self.kernel(call));
        let has_cudnn = self.contests.iter().any(|contest| contest.candidates.iter().any(|one| !one.is_ours()));
        let [cudnn, ours] =
            [false, true].map(|is_ours| weighed(seen, |call| Some(self.contests[call as usize].fastest(is_ours)?.1)));
        let is_faster = cudnn.zip(ours).is_some_and(|(cudnn, ours)| ours < MARGIN * cudnn);
        Verdict { is_ours: self.is_ready() && (!has_cudnn || is_faster), kernels }
    }
}

/// The time of a pass, given the time of each call: each as often as the program makes it. `None`: one that it makes has
/// no time.
pub fn weighed(seen: &Seen, time: impl Fn(Call) -> Option<f64>) -> Option<f64> {
    let made = CALLS.into_iter().filter(|&call| is_made(seen, call));
    made.map(|call| Some(time(call)? * seen[call as usize] as f64)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tuning::turns::Reading;

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
        let mut trial = Toy::new(with_cudnn);
        trial.begin([Some("a"), Some("c")]);
        trial.add(Call::Forward, Some("b"));
        trial.is_complete = true;
        trial
    }

    /// The time of 10 time steps: so little that nothing asks the process's allowance.
    fn time(call: Call, is_ours: bool, kernel: Option<&str>) -> Took {
        let microseconds = match (call, is_ours, kernel) {
            (Call::Forward, false, _) => 20.0,
            (Call::Data, false, _) => 30.0,
            (Call::Weights, false, _) => 5.0,
            (Call::Forward, true, Some("a")) => 14.0,
            (Call::Forward, true, Some("b")) => 11.0,
            (Call::Data, true, Some("c")) => 16.0,
            (Call::Weights, true, _) => 9.0,
            _ => 60.0,
        };
        Took(microseconds / 1e3)
    }

    fn call(trial: &mut Toy, call: Call, is_ours: bool, time: &dyn Fn(Call, bool, Option<&str>) -> Took) {
        let (index, kernel) = trial.step(call, is_ours);
        if let Some(index) = index {
            trial.ran((call, index), 10, Some(time(call, is_ours, kernel)));
        }
    }

    /// A program that makes `calls` of each pass, `passes` of them at most. Returns how many were cuDNN's and ours.
    fn run(trial: &mut Toy, calls: &[Call], passes: usize) -> [usize; 2] {
        let seen = CALLS.map(|call| u64::from(calls.contains(&call)));
        let mut dealt = [0; 2];
        for _ in 0..passes {
            let Some(is_ours) = trial.next_pass(&seen, true) else { break };
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
        let seen = [1; 3];
        assert_eq!(trial.next_pass(&seen, true), None);
        assert_eq!(trial.verdict(&seen), Verdict { is_ours: true, kernels: [Some("b"), Some("c")] });
        assert_eq!(trial.contests()[0].times()[0], Some(0.002));
        // 11 + 16 + 9 against 20 + 30 + 5; with many gradients of weights, 11 + 16 + 90 against 20 + 30 + 50.
        assert!(!trial.verdict(&[1, 1, 10]).is_ours);
        assert_eq!(weighed(&[2, 1, 0], |call| Some([3.0, 4.0, 100.0][call as usize])), Some(10.0));
        assert_eq!(weighed(&[2, 1, 0], |call| (call == Call::Forward).then_some(1.0)), None);
    }

    #[test]
    fn calls_that_are_never_made_are_not_waited_for() {
        let mut trial = toy(true);
        assert!(run(&mut trial, &[Call::Forward, Call::Data], 100).iter().sum::<usize>() < 40);
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
        run(&mut trial, &[Call::Forward, Call::Data], 100);
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

    #[test]
    fn ours_begin_once_each_call_has_one() {
        let mut trial = Toy::new(true);
        trial.add(Call::Forward, Some("a"));
        assert_eq!(run(&mut trial, &CALLS, 30), [30, 0], "more are to come");
        assert_eq!(trial.next_pass(&[1; 3], true), Some(false));
        trial.add(Call::Data, Some("c"));
        trial.add(Call::Weights, None);
        assert_eq!(trial.next_pass(&[1; 3], false), Some(false), "nothing may be explored");
        assert_eq!(run(&mut trial, &CALLS, 6), [0, 6]);
        assert_eq!(trial.next_pass(&[1; 3], false), Some(true), "it is faster so far");
        trial.is_complete = true;
        assert_eq!(trial.next_pass(&[1; 3], true), None);
    }

    #[test]
    fn without_cudnn_all_passes_are_ours() {
        let mut trial = toy(false);
        assert_eq!(trial.verdict(&[1; 3]), Verdict { is_ours: true, kernels: [Some("a"), Some("c")] });
        let dealt = run(&mut trial, &CALLS, 100);
        assert!(dealt[0] == 0 && (6..40).contains(&dealt[1]), "{dealt:?}");
        assert_eq!(trial.verdict(&[1; 3]).kernels, [Some("b"), Some("c")]);
    }
}
