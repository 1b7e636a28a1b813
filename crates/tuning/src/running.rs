//! Tuning while the program runs: executions of a problem try candidates in the program's own buffers. Every candidate
//! computes the right result. Times are read when they are complete, never waited for.

use super::allowance::Allowance;
use super::record::Wanted;
use super::search::{Candidate, Next, Search};
use super::subject::Subject;
use gpu::{Device, Elapsed, Mark, Stream};

/// The micro-batches that a candidate runs in one execution. The first one is the warm-up.
pub const SAMPLES: usize = 3;
/// The number of executions after which a search ends in any case.
const MOST_EXECUTIONS: usize = 200;
/// The most that exploring may cost in all, in executions of the requested algorithm.
const MOST_EXTRA: f64 = 20.0;
/// A candidate first runs a few images alone, if the requested algorithm takes so many milliseconds: one candidate of
/// cuDNN's took 4.7 s on an H100 where the requested one took 0.03 s.
const LEAST_LOOKED_AT: f64 = 0.25;
/// Then it runs this many times as many images, as long as none takes longer than the requested algorithm does for all.
const LOOKS_GROW: usize = 16;
/// A candidate is hopeless if a large part of it promises that all of it takes this many times as long as requested.
const MOST_TIMES_AS_LONG: f64 = 8.0;
/// Milliseconds that loading an algorithm's code may take.
const LOADING: f64 = 50.0;
/// The cost that is always allowed, in milliseconds: the first run of an algorithm loads its code, which takes as long
/// as tens of runs of a small problem.
const LEAST_EXTRA: f64 = 100.0;

/// A search that the program's own executions carry on.
pub struct Exploration<K: Subject> {
    wanted: Wanted<K>,
    search: Search<K::Algorithm>,
    /// The requested algorithm. It computes the images that a candidate does not.
    own: K::Algorithm,
    /// The candidate that has had its warm-up execution: its next execution counts.
    warmed: Option<Candidate<K::Algorithm>>,
    pending: Option<Marks<K::Algorithm>>,
    /// The most images that an algorithm has run at once without taking too long; all, if it cannot run fewer.
    looked_at: Vec<(K::Algorithm, usize)>,
    /// The look that took too long and is repeated, because it was the algorithm's first run.
    suspected: Option<Candidate<K::Algorithm>>,
    in_flight: bool,
    executions: usize,
    /// The milliseconds spent beyond the requested algorithm's time.
    extra: f64,
    /// The least milliseconds of an explored execution.
    least: f64,
}

/// The step of the next execution.
pub enum Step<A> {
    /// The search is over. Run its best configuration, or the requested algorithm if there is none.
    Settled,
    /// Run this and pass its [`Marks`] to [`Exploration::ran`], or `None` if it failed.
    Run(Trial<A>),
    /// Run the requested algorithm; times are still outstanding.
    Wait,
}

/// What an execution tries.
#[derive(Clone, Debug, PartialEq)]
pub enum Trial<A> {
    /// A micro-batch of a candidate, whose algorithm is yet to be timed with more images: whether it is hopeless.
    Look(Candidate<A>),
    /// A candidate, which it times.
    Time(Candidate<A>),
    /// The whole configuration with this index.
    Try(usize),
}

/// Marks in the stream around the micro-batches of one execution.
pub struct Marks<A> {
    what: Trial<A>,
    start: Mark,
    parts: Vec<(usize, A, Mark)>,
    end: Option<Mark>,
}

impl<A: Copy + PartialEq> Marks<A> {
    /// Begins with a mark. `None` if the device makes none.
    pub fn start(what: Trial<A>, device: Device, stream: Stream) -> Option<Self> {
        Some(Self { what, start: device.mark(stream)?, parts: Vec::new(), end: None })
    }

    /// Marks the end of a micro-batch that has been launched.
    pub fn part(&mut self, batch: usize, algorithm: A, device: Device, stream: Stream) {
        // A whole configuration gets one time.
        if !matches!(self.what, Trial::Try(_))
            && let Some(mark) = device.mark(stream)
        {
            self.parts.push((batch, algorithm, mark));
        }
    }

    /// Marks the end of the execution.
    pub fn end(mut self, device: Device, stream: Stream) -> Self {
        self.end = device.mark(stream);
        self
    }

    fn total(&self) -> Elapsed {
        self.end.as_ref().map_or(Elapsed::Lost, |end| end.since(&self.start))
    }

    /// Returns the least time of the candidate's micro-batches. The first one counts only if it is the only one.
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
    /// Explores the candidates that `search` has to time for `wanted`, in a program that requested the algorithm `own`.
    pub fn new(wanted: Wanted<K>, search: Search<K::Algorithm>, own: K::Algorithm) -> Self {
        Self {
            wanted,
            search,
            own,
            warmed: None,
            pending: None,
            looked_at: Vec::new(),
            suspected: None,
            in_flight: false,
            executions: 0,
            extra: 0.0,
            least: f64::INFINITY,
        }
    }

    /// The requested algorithm.
    pub fn own(&self) -> K::Algorithm {
        self.own
    }

    /// The goal of the search, and its candidates.
    pub fn wanted(&self) -> &Wanted<K> {
        &self.wanted
    }

    /// The search with its results so far.
    pub fn search(&self) -> &Search<K::Algorithm> {
        &self.search
    }

    /// Decides the next execution's step, as far as the account permits. Charges the cost of the last one.
    pub fn step(&mut self, account: &Allowance) -> Step<K::Algorithm> {
        if self.in_flight || !self.read_pending(account) {
            return Step::Wait;
        }
        let own = self.requested_time();
        let spent = own.is_some_and(|own| self.extra > (MOST_EXTRA * own).max(LEAST_EXTRA))
            || self.executions >= MOST_EXECUTIONS;
        match self.search.wants() {
            // The first execution shows the usual time, and needs no permission. A candidate may well take twice that,
            // so the usual time must be permitted.
            Next::Time(_) | Next::Try(_)
                if !spent && self.usual_time().is_some_and(|usual| !account.permits(usual)) =>
            {
                Step::Wait
            }
            Next::Time(candidate) if !spent => self.run(self.look_before(&candidate).unwrap_or(Trial::Time(candidate))),
            Next::Try(index) if !spent => self.run(Trial::Try(index)),
            _ => {
                self.in_flight = true; // the caller that gets this ends the exploration; all others wait
                Step::Settled
            }
        }
    }

    fn run(&mut self, trial: Trial<K::Algorithm>) -> Step<K::Algorithm> {
        log::trace!("an execution tries {trial:?}; as requested {:?} ms", self.requested_time());
        self.in_flight = true;
        self.executions += 1;
        Step::Run(trial)
    }

    /// The look that comes before a candidate, if it may be hopeless: at the largest of its algorithm's micro-batches that
    /// has not many times as many images as the algorithm has run.
    fn look_before(&self, candidate: &Candidate<K::Algorithm>) -> Option<Trial<K::Algorithm>> {
        let Candidate { batch, algorithm, .. } = *candidate;
        let is_slow = self.requested_time().is_some_and(|own| own >= LEAST_LOOKED_AT);
        if !is_slow || algorithm == self.own {
            return None;
        }
        let timed = self.search.measured().iter().filter(|known| known.algorithm == algorithm).map(|known| known.batch);
        let looked_at = self.looked_at.iter().filter(|known| known.0 == algorithm).map(|known| known.1);
        let known = timed.chain(looked_at).max();
        let most = known.map_or(batch / (LOOKS_GROW * LOOKS_GROW), |known| known.saturating_mul(LOOKS_GROW));
        if batch <= most {
            return None;
        }
        // An algorithm that has no smaller candidates, as our engines, does not run fewer images.
        let is_new = |its: &&Candidate<K::Algorithm>| {
            its.algorithm == algorithm && its.batch < batch && known.is_none_or(|known| its.batch > known)
        };
        let smaller = self.wanted.candidates.iter().filter(is_new);
        let largest = smaller.clone().filter(|its| its.batch <= most).max_by_key(|its| its.batch);
        largest.or_else(|| smaller.min_by_key(|its| its.batch)).map(|its| Trial::Look(*its))
    }

    /// Notes the time of a look; `None`: it did not run, and nothing is known of the candidates.
    fn looked(&mut self, look: Candidate<K::Algorithm>, time: Option<f64>) {
        let Candidate { batch, algorithm, .. } = look;
        // A larger micro-batch may well take less for each image. Of a large part, that is little.
        let share = (MOST_TIMES_AS_LONG * batch as f64 / self.search.batch() as f64).min(1.0);
        let share = if batch * LOOKS_GROW >= self.search.batch() { share } else { 1.0 };
        match (time, self.requested_time()) {
            // Its first run may have loaded code.
            (Some(time), Some(own))
                if time > share * own && time < share * own + LOADING && self.suspected != Some(look) =>
            {
                self.suspected = Some(look);
            }
            (Some(time), Some(own)) if time > share * own => {
                log::debug!(
                    "{algorithm}: {batch} images take {time:.3} ms, and all as requested {own:.3}: it is not tried"
                );
                self.search.drop_larger(algorithm, batch);
            }
            (Some(_), _) => self.looked_at.push((algorithm, batch)),
            (None, _) => self.looked_at.push((algorithm, usize::MAX)),
        }
    }

    /// Ends a step: the execution has been launched. `timing` is `None` if the launch failed.
    pub fn ran(&mut self, what: &Trial<K::Algorithm>, timing: Option<Marks<K::Algorithm>>) {
        self.in_flight = false;
        match (timing, what) {
            (Some(timing), _) => self.pending = Some(timing),
            (None, Trial::Look(look)) => self.looked(*look, None),
            (None, Trial::Time(candidate)) => {
                self.warmed = None;
                self.search.failed(*candidate);
            }
            (None, Trial::Try(index)) => self.search.tried(*index, None),
        }
    }

    /// Reads the outstanding time, and charges it to the account. Returns false if it is still pending.
    fn read_pending(&mut self, account: &Allowance) -> bool {
        let Some(timing) = &self.pending else { return true };
        let total = match timing.total() {
            Elapsed::Pending => return false,
            Elapsed::Ready(total) => Some(total),
            Elapsed::Lost => None,
        };
        let Some(timing) = self.pending.take() else { return true };
        if let Some(total) = total {
            self.least = self.least.min(total);
            account.explored(total - self.usual_time().unwrap_or(total));
        }
        if let (Some(total), Some(own)) = (total, self.requested_time()) {
            self.extra += (total - own).max(0.0);
        }
        match timing.what {
            Trial::Look(look) => self.looked(look, total.and(timing.least(&look))),
            Trial::Time(candidate) => match (total, timing.least(&candidate)) {
                (Some(_), Some(time)) => self.sample(candidate, time, timing.parts.len()),
                _ => self.search.failed(candidate),
            },
            Trial::Try(index) => self.search.tried(index, total),
        }
        true
    }

    fn sample(&mut self, candidate: Candidate<K::Algorithm>, time: f64, parts: usize) {
        // With one micro-batch in each execution, the first execution is the warm-up.
        if parts > 1 || self.warmed == Some(candidate) {
            self.warmed = None;
            self.search.timed(candidate, time);
        } else {
            self.warmed = Some(candidate);
        }
    }

    /// The milliseconds of an execution of the program, as far as they are known: at the most those of the fastest
    /// execution that explored.
    pub fn usual_time(&self) -> Option<f64> {
        self.requested_time().or(Some(self.least).filter(|least| least.is_finite()))
    }

    /// Returns the time of the requested algorithm, once known; if it does not fit, the best time so far.
    fn requested_time(&self) -> Option<f64> {
        let own = self.search.whole(self.own).map(|micro| micro.time);
        own.or_else(|| self.search.best().map(|(_, time)| time))
    }
}
