//! Times candidates in turns in the program's own executions, each of which has the right result. Times are read once
//! they are available; nothing waits for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpu::background::compiling::{self, Quiet};
use gpu::{Device, Elapsed, Mark, Stream};
use parking_lot::Mutex;

use crate::allowance;

/// Our kernels win only if they take less than this fraction of cuDNN's time.
pub const MARGIN: f64 = 0.98;

/// Executions of each candidate that count; one before them warms it up.
const SAMPLES: usize = 5;
/// A candidate that takes more than this many times the best time is not run again, after this many counted executions:
/// any single one may have been disturbed.
const HOPELESS: f64 = 2.0;
const HOPELESS_SAMPLES: usize = 3;

/// The most executions of unknown cost whose times were not read yet, in all trials of the process.
const MOST_UNKNOWN: usize = 16;
/// After this many steps of all trials, an execution whose time was not read is forgotten: its program may never read
/// it.
const FORGOTTEN: u64 = 1000;

/// Executions of unknown cost: the step at which each began.
#[derive(Debug)]
struct Unknown {
    begun: Mutex<Vec<u64>>,
    steps: AtomicU64,
}

static UNKNOWN: Unknown = Unknown { begun: Mutex::new(Vec::new()), steps: AtomicU64::new(0) };

impl Unknown {
    /// Begins one at this step. `None`: too many are under way.
    fn begin(&self) -> Option<u64> {
        let now = self.steps.fetch_add(1, Ordering::Relaxed);
        let mut begun = self.begun.lock();
        begun.retain(|step| now.saturating_sub(*step) < FORGOTTEN);
        (begun.len() < MOST_UNKNOWN).then(|| begun.push(now)).map(|()| now)
    }

    fn end(&self, step: u64) {
        self.begun.lock().retain(|begun| *begun != step);
    }
}

/// Gives executions to candidates in turns. `M` is the measurement of an execution; tests pass times as values.
pub struct Turns<M = Timed> {
    /// One for each candidate; the first may be preferred.
    candidates: Vec<Times>,
    /// The candidate whose turn is next.
    turn: usize,
    pending: Option<Pending<M>>,
    in_flight: bool,
    /// The milliseconds that executions took beyond the best candidate's time, since they were last accounted for.
    cost: f64,
    /// The milliseconds of the last execution that was read.
    last: f64,
    /// The last execution began before a time was known, as one of [`UNKNOWN`].
    unknown: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Times {
    executions: usize,
    /// Executions without time marks.
    unmarked: usize,
    /// The shortest time so far, in milliseconds a unit of work.
    least: Option<f64>,
    has_failed: bool,
}

/// A launched execution whose time was not read yet.
struct Pending<M> {
    candidate: usize,
    units: usize,
    measured: M,
}

/// The measurement of a launched execution.
pub trait Measured {
    /// Reads the time if it is available. Never waits.
    fn read(&self) -> Reading;
}

/// The reading of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// The execution has not ended yet.
    Pending,
    /// The time is unknown.
    Lost,
    /// The execution has ended, but a compilation ran beside it: the time does not count.
    Disturbed,
    /// Milliseconds.
    Ready(f64),
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
pub struct Started {
    quiet: Quiet,
    start: Mark,
}

/// The time marks around an execution.
pub struct Timed {
    quiet: Quiet,
    start: Mark,
    end: Mark,
}

impl Started {
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

impl Measured for Timed {
    fn read(&self) -> Reading {
        match self.end.since(&self.start) {
            Elapsed::Pending => Reading::Pending,
            Elapsed::Lost => Reading::Lost,
            Elapsed::Ready(_) if !self.quiet.lasts() => Reading::Disturbed,
            Elapsed::Ready(time) => Reading::Ready(time),
        }
    }
}

/// The most executions that this many candidates need.
pub fn executions(candidates: usize) -> usize {
    candidates * (SAMPLES + 1)
}

/// A trial ahead of time, on a stream of our own.
pub struct Trial<'a> {
    pub device: Device,
    pub stream: Stream,
    /// Setting this stops the trial soon after.
    pub stop: &'a AtomicBool,
    /// Called after each execution, with an upper bound of those that remain.
    pub progress: &'a dyn Fn(usize),
}

impl Trial<'_> {
    /// Times this many candidates. `run` runs one, and records the result in the turns. Returns the shortest times, as
    /// [`Turns::times`]. `Err` says why the trial ended.
    pub fn times(
        &self,
        candidates: usize,
        mut run: impl FnMut(usize, &mut Turns) -> Result<(), String>,
    ) -> Result<Vec<Option<f64>>, String> {
        let mut turns = Turns::new(candidates);
        let mut remaining = executions(candidates);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err("it was stopped".into());
            }
            match turns.step(compiling::is_quiet()) {
                Step::Over => return Ok(turns.times()),
                Step::Wait => {}
                Step::Run(index) => {
                    run(index, &mut turns)?;
                    remaining = remaining.saturating_sub(1);
                    (self.progress)(remaining);
                }
            }
            if !self.device.synchronize(self.stream) {
                return Err("the device failed".into());
            }
        }
    }
}

impl<M> Drop for Turns<M> {
    /// The last execution was read, and nothing follows it.
    fn drop(&mut self) {
        if let Some(step) = self.unknown {
            UNKNOWN.end(step);
        }
        if self.cost > 0.0 {
            allowance::of_process().explored(self.cost);
        }
    }
}

impl<M: Measured> Turns<M> {
    /// This many candidates, not timed yet.
    pub fn new(candidates: usize) -> Self {
        Self {
            candidates: vec![Times::default(); candidates],
            turn: 0,
            pending: None,
            in_flight: false,
            cost: 0.0,
            last: 0.0,
            unknown: None,
        }
    }

    /// Starts again, with this many candidates. An execution in flight still belongs to its candidate.
    pub fn again(&mut self, candidates: usize) {
        self.candidates = vec![Times::default(); candidates];
        self.pending = None;
    }

    /// Adds a candidate, after the others. It has not been timed yet.
    pub fn add(&mut self) {
        self.candidates.push(Times::default());
    }

    /// Returns whether any of these candidates still has to be timed. Reads a time that has become available.
    pub fn is_open(&mut self, is_among: impl Fn(usize) -> bool) -> bool {
        if !self.read_pending() && self.pending.as_ref().is_some_and(|pending| is_among(pending.candidate)) {
            return true;
        }
        (0..self.candidates.len()).any(|candidate| is_among(candidate) && self.wants(candidate))
    }

    /// Returns whether no candidate is to be timed, and no time to be read.
    pub fn is_over(&self) -> bool {
        self.pending.is_none() && (0..self.candidates.len()).all(|candidate| !self.wants(candidate))
    }

    /// Chooses the next execution among these candidates as [`Self::step`] does, within the promise about exploring. Before
    /// a time is known, an execution may cost anything: few of these are under way at once.
    pub fn step_as_permitted_among(&mut self, is_among: impl Fn(usize) -> bool) -> Step {
        let account = allowance::of_process();
        if self.in_flight || !self.read_pending() {
            return Step::Wait;
        }
        if let Some(step) = self.unknown.take() {
            UNKNOWN.end(step);
        }
        account.explored(std::mem::take(&mut self.cost));
        let is_known = self.best().is_some();
        if !account.permits(if is_known { self.last } else { 0.0 }) || !compiling::is_quiet() {
            return Step::Wait;
        }
        if !is_known {
            self.unknown = UNKNOWN.begin();
            if self.unknown.is_none() {
                return Step::Wait;
            }
        }
        self.step_among(true, is_among)
    }

    /// Chooses the next execution. `is_quiet`: nothing is being compiled, which would disturb a time. The chosen
    /// candidate is in flight until [`Self::ran`], [`Self::skipped`] or [`Self::failed`]; other executions wait.
    pub fn step(&mut self, is_quiet: bool) -> Step {
        self.step_among(is_quiet, |_| true)
    }

    fn step_among(&mut self, is_quiet: bool, is_among: impl Fn(usize) -> bool) -> Step {
        if self.in_flight || !self.read_pending() || !is_quiet {
            return Step::Wait;
        }
        let count = self.candidates.len();
        let next = (0..count).map(|i| (self.turn + i) % count).find(|&i| is_among(i) && self.wants(i));
        let Some(next) = next else { return Step::Over };
        self.turn = (next + 1) % count;
        self.in_flight = true;
        Step::Run(next)
    }

    /// Returns whether a candidate needs more executions.
    fn wants(&self, candidate: usize) -> bool {
        let times = &self.candidates[candidate];
        let hopeless = times.executions > HOPELESS_SAMPLES
            && times.least.zip(self.best()).is_some_and(|(least, best)| least > HOPELESS * best);
        !times.has_failed && !hopeless && times.executions <= SAMPLES
    }

    /// Records the launch of a candidate's execution of `units` units of work, such as time steps. Without marks it
    /// does not count, and more than `SAMPLES` of these are a failure.
    pub fn ran(&mut self, candidate: usize, units: usize, measured: Option<M>) {
        self.in_flight = false;
        let times = &mut self.candidates[candidate];
        match measured {
            Some(measured) => {
                times.executions += 1;
                self.pending = Some(Pending { candidate, units, measured });
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

    /// Returns whether a candidate cannot run.
    pub fn has_failed(&self, candidate: usize) -> bool {
        self.candidates[candidate].has_failed
    }

    /// The shortest times, in milliseconds a unit of work.
    pub fn times(&self) -> Vec<Option<f64>> {
        self.candidates.iter().map(|times| times.least.filter(|_| !times.has_failed)).collect()
    }

    /// The shortest time of all candidates, in milliseconds a unit of work.
    pub fn best(&self) -> Option<f64> {
        self.candidates.iter().filter_map(|times| times.least).min_by(f64::total_cmp)
    }

    /// Reads the pending time. Returns true if none is pending any more.
    fn read_pending(&mut self) -> bool {
        let Some(Pending { candidate, units, measured }) = &self.pending else { return true };
        let best = self.best();
        let reading = measured.read();
        if let Reading::Ready(time) = reading {
            self.cost += best.map_or(0.0, |best| (time - best * *units as f64).max(0.0));
            self.last = time;
        }
        let times = &mut self.candidates[*candidate];
        match reading {
            Reading::Pending => return false,
            Reading::Lost => times.has_failed = true,
            Reading::Disturbed => times.executions -= 1,
            Reading::Ready(time) if times.executions > 1 => {
                let time = time / *units as f64;
                times.least = Some(times.least.map_or(time, |least| least.min(time)));
            }
            Reading::Ready(_) => {}
        }
        self.pending = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Measured for Reading {
        fn read(&self) -> Reading {
            *self
        }
    }

    /// Runs candidates whose executions give these readings; returns how often each candidate ran.
    fn run(turns: &mut Turns<Reading>, candidates: usize, reading: impl Fn(usize, usize) -> Reading) -> Vec<usize> {
        let mut ran = vec![0; candidates];
        loop {
            match turns.step(true) {
                Step::Over => return ran,
                Step::Wait => panic!("nothing is in flight"),
                Step::Run(candidate) => {
                    assert_eq!(turns.step(true), Step::Wait);
                    turns.ran(candidate, 10, Some(reading(candidate, ran[candidate])));
                    ran[candidate] += 1;
                }
            }
        }
    }

    #[test]
    fn candidates_take_turns_and_the_hopeless_leave() {
        let mut turns = Turns::new(3);
        let ran = run(&mut turns, 3, |candidate, _| Reading::Ready([2.0, 40.0, 4.0][candidate]));
        assert_eq!(ran, [SAMPLES + 1, HOPELESS_SAMPLES + 1, SAMPLES + 1]);
        assert_eq!(turns.times(), [Some(0.2), Some(4.0), Some(0.4)]);
    }

    /// The first execution warms up, and the shortest of the others counts.
    #[test]
    fn a_single_stall_decides_nothing() {
        let mut turns = Turns::new(2);
        let time = |candidate, execution| match execution {
            0 => 1.0,
            1 => 80.0,
            _ => [5.0, 15.0][candidate] + execution as f64,
        };
        let ran = run(&mut turns, 2, |candidate, execution| Reading::Ready(time(candidate, execution)));
        assert_eq!(ran, [SAMPLES + 1, HOPELESS_SAMPLES + 1]);
        assert_eq!(turns.times(), [Some(0.7), Some(1.7)]);
    }

    #[test]
    fn what_fails_is_not_tried_again() {
        let mut turns = Turns::new(3);
        assert_eq!(turns.step(true), Step::Run(0));
        turns.failed(0);
        let readings = [Reading::Ready(9.0), Reading::Ready(1.0), Reading::Lost];
        assert_eq!(run(&mut turns, 3, |candidate, _| readings[candidate]), [0, SAMPLES + 1, 1]);
        assert_eq!(turns.times(), [None, Some(0.1), None]);
    }

    #[test]
    fn few_executions_of_unknown_cost_are_under_way() {
        let unknown = Unknown { begun: Mutex::new(Vec::new()), steps: AtomicU64::new(0) };
        let begun: Vec<_> = (0..2 * MOST_UNKNOWN).map(|_| unknown.begin()).collect();
        assert_eq!(begun.iter().flatten().count(), MOST_UNKNOWN);
        unknown.end(begun[0].unwrap());
        assert!(unknown.begin().is_some() && unknown.begin().is_none());
        // Times that nobody reads do not stop others forever.
        assert!((0..=FORGOTTEN).any(|_| unknown.begin().is_some()));
    }

    /// An execution whose time is still to come delays the next turn.
    #[test]
    fn nothing_runs_before_the_last_time_is_read() {
        let mut turns = Turns::new(1);
        assert_eq!(turns.step(false), Step::Wait);
        assert_eq!(turns.step(true), Step::Run(0));
        turns.ran(0, 10, Some(Reading::Pending));
        assert_eq!([turns.step(true), turns.step(true)], [Step::Wait; 2]);
    }

    /// A compilation ran beside every second execution.
    #[test]
    fn disturbed_times_do_not_count() {
        let mut turns = Turns::new(1);
        let reading = |_, execution| if execution % 2 == 1 { Reading::Disturbed } else { Reading::Ready(3.0) };
        assert_eq!(run(&mut turns, 1, reading), [2 * SAMPLES + 1]);
        assert_eq!(turns.times(), [Some(0.3)]);
    }

    #[test]
    fn the_cost_is_what_takes_longer_than_the_best() {
        let mut turns = Turns::new(2);
        run(&mut turns, 2, |candidate, _| Reading::Ready([2.0, 3.0][candidate]));
        // The second candidate's first execution is read before any time counts, so five of its six cost 1 ms each.
        assert_eq!(turns.cost, 5.0);
    }

    #[test]
    fn what_is_never_measured_fails() {
        let mut turns = Turns::<Reading>::new(1);
        for _ in 0..=SAMPLES {
            assert_eq!(turns.step(true), Step::Run(0));
            turns.ran(0, 10, None);
        }
        assert_eq!((turns.step(true), turns.times()), (Step::Over, vec![None]));
    }

    /// A third candidate arrives while an execution is in flight.
    #[test]
    fn all_are_timed_again() {
        let reading = |candidate, _| Reading::Ready(candidate as f64 + 4.0);
        let mut turns = Turns::new(2);
        assert_eq!(run(&mut turns, 2, reading), [SAMPLES + 1; 2]);
        turns.again(2);
        let Step::Run(first) = turns.step(true) else { panic!("all are to be timed") };
        turns.again(3);
        assert_eq!(turns.step(true), Step::Wait);
        turns.ran(first, 10, None);
        assert_eq!(turns.times(), [None; 3]);
        assert_eq!(run(&mut turns, 3, reading), [SAMPLES + 1; 3]);
        assert_eq!(turns.times(), [Some(0.4), Some(0.5), Some(0.6)]);
    }

    /// The program decides whose turn it is, and a candidate arrives later.
    #[test]
    fn executions_are_dealt_among_some() {
        let mut turns = Turns::new(2);
        for execution in 0..=SAMPLES {
            assert!(turns.is_open(|candidate| candidate == 1), "{execution}");
            assert_eq!(turns.step_among(true, |candidate| candidate == 1), Step::Run(1));
            turns.ran(1, 10, Some(Reading::Ready(4.0)));
        }
        assert_eq!(turns.step_among(true, |candidate| candidate == 1), Step::Over);
        assert!(!turns.is_open(|candidate| candidate == 1) && turns.is_open(|candidate| candidate == 0));
        turns.add();
        let ran = run(&mut turns, 3, |candidate, _| Reading::Ready([2.0, 0.0, 3.0][candidate]));
        assert_eq!(ran, [SAMPLES + 1, 0, SAMPLES + 1]);
        assert_eq!(turns.times(), [Some(0.2), Some(0.4), Some(0.3)]);
        turns.add();
        assert_eq!(turns.step(true), Step::Run(3));
        turns.ran(3, 10, Some(Reading::Pending));
        assert!(turns.is_open(|candidate| candidate == 3), "its time is outstanding");
    }

    /// Such as a call with bad arguments, which cuDNN refuses.
    #[test]
    fn what_is_skipped_counts_for_nothing() {
        let mut turns = Turns::new(2);
        for _ in 0..4 * SAMPLES {
            assert!(matches!(turns.step(true), Step::Run(_)));
            turns.skipped();
        }
        assert_eq!(run(&mut turns, 2, |candidate, _| Reading::Ready(candidate as f64 + 1.0)), [SAMPLES + 1; 2]);
        assert_eq!(turns.times(), [Some(0.1), Some(0.2)]);
    }
}
