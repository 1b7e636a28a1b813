//! Times candidates in the program's own executions, each of which has the right result. Times are read once they are
//! available; nothing waits for them.

use super::compiling::Quiet;
use gpu::{Device, Elapsed, Mark, Stream};

/// Executions of each candidate that count; one before them warms it up.
const SAMPLES: usize = 5;
/// A candidate that takes more than this many times the best time is not run again, after this many counted executions:
/// any single one may have been disturbed.
const HOPELESS: f64 = 2.0;
const HOPELESS_SAMPLES: usize = 3;

/// Deals executions to candidates in turns.
pub struct Trial {
    /// One for each candidate; the first may be preferred.
    candidates: Vec<Times>,
    /// The candidate whose turn is next.
    turn: usize,
    pending: Option<Pending>,
    in_flight: bool,
}

#[derive(Clone, Debug, Default)]
struct Times {
    executions: usize,
    /// Executions without time marks.
    unmarked: usize,
    /// The shortest time so far, in milliseconds a time step.
    least: Option<f64>,
    has_failed: bool,
}

/// A launched execution whose time was not read yet.
struct Pending {
    candidate: usize,
    steps: usize,
    timed: Timed,
}

/// The choice for the next execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// This candidate, between time marks.
    Run(usize),
    /// Any engine; a time is still outstanding.
    Wait,
    /// All candidates are timed.
    Over,
}

/// The time mark before an execution.
pub struct Timing {
    quiet: Quiet,
    start: Mark,
}

/// The time marks around an execution.
pub struct Timed {
    quiet: Quiet,
    start: Mark,
    end: Mark,
}

impl Timing {
    /// Sets the first mark. `None`: the device makes none, or a compilation is running.
    pub fn start(device: Device, stream: Stream) -> Option<Self> {
        let quiet = Quiet::begin()?;
        device.mark(stream).map(|start| Self { quiet, start })
    }

    /// Sets the second mark. `None`: the device makes none.
    pub fn end(self, device: Device, stream: Stream) -> Option<Timed> {
        let Self { quiet, start } = self;
        device.mark(stream).map(|end| Timed { quiet, start, end })
    }
}

impl Trial {
    /// A trial of this many candidates.
    pub fn new(candidates: usize) -> Self {
        Self { candidates: vec![Times::default(); candidates], turn: 0, pending: None, in_flight: false }
    }

    /// Starts again, with this many candidates. An execution in flight still belongs to its candidate.
    pub fn again(&mut self, candidates: usize) {
        self.candidates = vec![Times::default(); candidates];
        self.pending = None;
    }

    /// The most executions of a trial with this many candidates.
    pub fn executions(candidates: usize) -> usize {
        candidates * (SAMPLES + 1)
    }

    /// Chooses the next execution. The chosen candidate is in flight until [`Self::ran`], [`Self::skipped`] or
    /// [`Self::failed`]; other executions wait.
    pub fn step(&mut self) -> Step {
        if self.in_flight || !self.read_pending() || Quiet::begin().is_none() {
            return Step::Wait;
        }
        let best = self.candidates.iter().filter_map(|times| times.least).min_by(f64::total_cmp);
        let wants = |times: &Times| {
            let hopeless = times.executions > HOPELESS_SAMPLES
                && times.least.zip(best).is_some_and(|(least, best)| least > HOPELESS * best);
            !times.has_failed && !hopeless && times.executions <= SAMPLES
        };
        let count = self.candidates.len();
        let next = (0..count).map(|i| (self.turn + i) % count).find(|&i| wants(&self.candidates[i]));
        let Some(next) = next else { return Step::Over };
        self.turn = (next + 1) % count;
        self.in_flight = true;
        Step::Run(next)
    }

    /// Records the launch of a candidate's execution of `steps` time steps. Without marks it does not count, and more
    /// than `SAMPLES` of these are a failure.
    pub fn ran(&mut self, candidate: usize, steps: usize, timed: Option<Timed>) {
        self.in_flight = false;
        let times = &mut self.candidates[candidate];
        match timed {
            Some(timed) => {
                times.executions += 1;
                self.pending = Some(Pending { candidate, steps, timed });
            }
            None => {
                times.unmarked += 1;
                times.has_failed |= times.unmarked > SAMPLES;
            }
        }
    }

    /// The execution says nothing about its candidate: cuDNN refused the arguments of the call.
    pub fn skipped(&mut self) {
        self.in_flight = false;
    }

    /// A candidate could not be launched.
    pub fn failed(&mut self, candidate: usize) {
        self.in_flight = false;
        self.candidates[candidate].has_failed = true;
    }

    /// The shortest times, in milliseconds a time step.
    pub fn times(&self) -> Vec<Option<f64>> {
        self.candidates.iter().map(|times| times.least.filter(|_| !times.has_failed)).collect()
    }

    /// Reads the pending time. Returns true if none is pending any more.
    fn read_pending(&mut self) -> bool {
        let Some(Pending { candidate, steps, timed: Timed { quiet, start, end } }) = &self.pending else { return true };
        let times = &mut self.candidates[*candidate];
        match end.since(start) {
            Elapsed::Pending => return false,
            Elapsed::Lost => times.has_failed = true,
            // Something was compiled meanwhile: the time does not count.
            Elapsed::Ready(_) if !quiet.lasts() => times.executions -= 1,
            Elapsed::Ready(time) if times.executions > 1 => {
                let time = time / *steps as f64;
                times.least = Some(times.least.map_or(time, |least| least.min(time)));
            }
            Elapsed::Ready(_) => {}
        }
        self.pending = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Runs a trial whose executions sleep for `milliseconds`; returns how often each candidate ran.
    fn run(trial: &mut Trial, candidates: usize, milliseconds: impl Fn(usize, usize) -> u64) -> Vec<usize> {
        let (device, stream) = (Device::Host, std::ptr::null_mut());
        let mut ran = vec![0; candidates];
        loop {
            match trial.step() {
                Step::Over => return ran,
                Step::Wait => panic!("nothing is in flight"),
                Step::Run(candidate) => {
                    assert_eq!(trial.step(), Step::Wait);
                    let timing = Timing::start(device, stream);
                    std::thread::sleep(Duration::from_millis(milliseconds(candidate, ran[candidate])));
                    ran[candidate] += 1;
                    trial.ran(candidate, 10, timing.and_then(|timing| timing.end(device, stream)));
                }
            }
        }
    }

    #[test]
    fn candidates_take_turns_and_the_hopeless_leave() {
        let mut trial = Trial::new(3);
        let ran = run(&mut trial, 3, |candidate, _| [2, 40, 2][candidate]);
        assert_eq!(ran, [SAMPLES + 1, HOPELESS_SAMPLES + 1, SAMPLES + 1]);
        let times = trial.times();
        assert!(times[0].unwrap() >= 0.2 && times[1].unwrap() >= 4.0, "{times:?}");
    }

    #[test]
    fn a_single_stall_decides_nothing() {
        let mut trial = Trial::new(2);
        let ran = run(&mut trial, 2, |candidate, execution| if execution == 1 { 80 } else { [5, 15][candidate] });
        assert_eq!(ran[0], SAMPLES + 1);
        let times = trial.times();
        assert!(times[0].unwrap() < times[1].unwrap(), "{times:?}");
    }

    #[test]
    fn what_fails_is_not_tried_again() {
        let mut trial = Trial::new(2);
        assert_eq!(trial.step(), Step::Run(0));
        trial.failed(0);
        assert_eq!(run(&mut trial, 2, |candidate, _| candidate as u64), [0, SAMPLES + 1]);
        assert!(trial.times()[0].is_none() && trial.times()[1].is_some());
    }

    /// A third candidate arrives while an execution is in flight.
    #[test]
    fn all_are_timed_again() {
        let mut trial = Trial::new(2);
        assert_eq!(run(&mut trial, 2, |candidate, _| candidate as u64 + 4), [SAMPLES + 1; 2]);
        trial.again(2);
        let Step::Run(first) = trial.step() else { panic!("all are to be timed") };
        trial.again(3);
        assert_eq!(trial.step(), Step::Wait);
        trial.ran(first, 10, None);
        assert_eq!(trial.times(), [None; 3]);
        assert_eq!(run(&mut trial, 3, |candidate, _| candidate as u64 + 4), [SAMPLES + 1; 3]);
        assert!(trial.times().iter().all(Option::is_some));
    }

    /// Such as a call with bad arguments, which cuDNN refuses.
    #[test]
    fn what_is_skipped_counts_for_nothing() {
        let mut trial = Trial::new(2);
        for _ in 0..4 * SAMPLES {
            assert!(matches!(trial.step(), Step::Run(_)));
            trial.skipped();
        }
        assert_eq!(run(&mut trial, 2, |candidate, _| candidate as u64 + 1), [SAMPLES + 1; 2]);
        assert!(trial.times().iter().all(Option::is_some));
    }
}
