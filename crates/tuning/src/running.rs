//! Tuning while the program runs: executions of a kernel try candidates in the program's own buffers,
//! every one of which computes the right result. Times are read when they are there, never waited for.

use super::record::Wanted;
use super::search::{Candidate, Next, Search};
use super::subject::Subject;
use gpu::{Device, Elapsed, Mark, Stream};

/// Micro-batches that a candidate runs in one execution: the first warms it up.
pub const SAMPLES: usize = 3;
/// Executions after which a search that has not ended is ended.
const MOST_EXECUTIONS: usize = 200;
/// What exploring may cost in all, in executions of the program's own choice.
const MOST_EXTRA: f64 = 20.0;
/// What it may cost in any case, in milliseconds: the first run of an algorithm loads its code, which takes as long as
/// tens of runs of a small kernel.
const LEAST_EXTRA: f64 = 100.0;

/// A search that the program's own executions carry on.
pub struct Exploration<K: Subject> {
    wanted: Wanted<K>,
    search: Search<K::Algorithm>,
    /// What the program asked for: it computes the images that a candidate does not.
    own: K::Algorithm,
    /// The candidate whose execution was its warm-up: the next one counts.
    warmed: Option<Candidate<K::Algorithm>>,
    pending: Option<Timing<K::Algorithm>>,
    in_flight: bool,
    executions: usize,
    /// Milliseconds spent over the program's own choice.
    extra: f64,
}

/// What an execution is to run.
pub enum Step<A> {
    /// The search is over: its best is to run, or what the program asked for where there is none.
    Settled,
    /// Run this and hand what [`Timing`] collected to [`Exploration::ran`], or `None` if it failed.
    Run(Next<A>),
    /// Run what the program asked for; times are still to come.
    Wait,
}

/// Marks in the stream around the micro-batches of one execution.
pub struct Timing<A> {
    what: Next<A>,
    start: Mark,
    parts: Vec<(usize, A, Mark)>,
    end: Option<Mark>,
}

impl<A: Copy + PartialEq> Timing<A> {
    /// Begins with a mark; `None` if the device makes none.
    pub fn start(what: Next<A>, device: Device, stream: Stream) -> Option<Self> {
        Some(Self { what, start: device.mark(stream)?, parts: Vec::new(), end: None })
    }

    /// A micro-batch has been launched.
    pub fn part(&mut self, batch: usize, algorithm: A, device: Device, stream: Stream) {
        // Whole configurations are timed as a whole.
        if matches!(self.what, Next::Time(_))
            && let Some(mark) = device.mark(stream)
        {
            self.parts.push((batch, algorithm, mark));
        }
    }

    /// The execution has been launched.
    pub fn end(mut self, device: Device, stream: Stream) -> Self {
        self.end = device.mark(stream);
        self
    }

    fn total(&self) -> Elapsed {
        self.end.as_ref().map_or(Elapsed::Lost, |end| end.since(&self.start))
    }

    /// The least time of the candidate's micro-batches; the first does not count if there are more.
    fn least(&self, candidate: &Candidate<A>) -> Option<f64> {
        let starts = std::iter::once(&self.start).chain(self.parts.iter().map(|(_, _, mark)| mark));
        let times = (self.parts.iter().zip(starts))
            .filter(|((batch, algorithm, _), _)| *batch == candidate.batch && *algorithm == candidate.algorithm)
            .map(|((_, _, end), start)| match end.since(start) {
                Elapsed::Ready(time) => time,
                _ => f64::INFINITY,
            });
        let times: Vec<f64> = times.collect();
        let counted = if times.len() > 1 { &times[1..] } else { &times[..] };
        counted.iter().copied().min_by(f64::total_cmp).filter(|time| time.is_finite())
    }
}

impl<K: Subject> Exploration<K> {
    /// Explores what `search` has to time of what is `wanted`, for a program that asked for `own`.
    pub fn new(wanted: Wanted<K>, search: Search<K::Algorithm>, own: K::Algorithm) -> Self {
        Self { wanted, search, own, warmed: None, pending: None, in_flight: false, executions: 0, extra: 0.0 }
    }

    /// What the program asked for.
    pub fn own(&self) -> K::Algorithm {
        self.own
    }

    /// What is looked for.
    pub fn wanted(&self) -> &Wanted<K> {
        &self.wanted
    }

    /// What was timed so far.
    pub fn search(&self) -> &Search<K::Algorithm> {
        &self.search
    }

    /// What the next execution is to run.
    pub fn step(&mut self) -> Step<K::Algorithm> {
        if self.in_flight || !self.read_pending() {
            return Step::Wait;
        }
        let own = self.own_time();
        let spent = own.is_some_and(|own| self.extra > (MOST_EXTRA * own).max(LEAST_EXTRA))
            || self.executions >= MOST_EXECUTIONS;
        match self.search.wants() {
            next @ (Next::Time(_) | Next::Try(_)) if !spent => {
                self.in_flight = true;
                self.executions += 1;
                Step::Run(next)
            }
            _ => {
                self.in_flight = true; // whoever got this ends it; all others wait
                Step::Settled
            }
        }
    }

    /// An execution has been launched, or could not be: then `timing` is `None`.
    pub fn ran(&mut self, what: &Next<K::Algorithm>, timing: Option<Timing<K::Algorithm>>) {
        self.in_flight = false;
        match (timing, what) {
            (Some(timing), _) => self.pending = Some(timing),
            (None, Next::Time(candidate)) => {
                self.warmed = None;
                self.search.failed(*candidate);
            }
            (None, Next::Try(index)) => self.search.tried(*index, None),
            (None, Next::Nothing) => {}
        }
    }

    /// Whether no time is outstanding any more.
    fn read_pending(&mut self) -> bool {
        let Some(timing) = &self.pending else { return true };
        let total = match timing.total() {
            Elapsed::Pending => return false,
            Elapsed::Ready(total) => Some(total),
            Elapsed::Lost => None,
        };
        let Some(timing) = self.pending.take() else { return true };
        if let (Some(total), Some(own)) = (total, self.own_time()) {
            self.extra += (total - own).max(0.0);
        }
        match timing.what {
            Next::Time(candidate) => match (total, timing.least(&candidate)) {
                (Some(_), Some(time)) => self.sample(candidate, time, timing.parts.len()),
                _ => self.search.failed(candidate),
            },
            Next::Try(index) => self.search.tried(index, total),
            Next::Nothing => {}
        }
        true
    }

    fn sample(&mut self, candidate: Candidate<K::Algorithm>, time: f64, parts: usize) {
        // One micro-batch an execution: the first execution is the warm-up.
        if parts > 1 || self.warmed == Some(candidate) {
            self.warmed = None;
            self.search.timed(candidate, time);
        } else {
            self.warmed = Some(candidate);
        }
    }

    /// The time of what the program asked for, once it is known; where that does not fit, of the best so far.
    fn own_time(&self) -> Option<f64> {
        let own = self.search.whole(self.own).map(|micro| micro.time);
        own.or_else(|| self.search.best().map(|(_, time)| time))
    }
}
