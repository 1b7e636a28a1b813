//! The search for one kernel's fastest configuration under one limit: a list of what may be timed, what
//! was, and what to do next. It runs nothing itself.

use std::collections::HashSet;

use crate::cudnn::algorithm::Algorithm;
use crate::plan::{self, Configuration, MicroConfiguration};

/// How far below its rate at larger sizes an algorithm's time may fall, for data that stays in the
/// cache: [`plan::can_win`]'s slack.
const SLACK: f64 = 0.7;
/// How many configurations are run in place once their parts are timed.
const TRIALS: usize = 4;
/// How often each of them runs.
const ROUNDS: usize = 3;
/// A configuration that is predicted slower than the best by this factor is not tried.
const HOPELESS: f64 = 1.25;

/// What may be timed: a micro-batch size, an algorithm, and the workspace it takes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub batch: usize,
    pub algorithm: Algorithm,
    pub workspace: usize,
}

/// What a search wants next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Time a micro-batch: then [`Search::timed`] or [`Search::failed`].
    Time(Candidate),
    /// Run a whole configuration in place, the one with this index: then [`Search::tried`].
    Try(usize),
    /// Nothing: [`Search::best`] is the answer.
    Nothing,
}

/// The state of a search.
pub struct Search {
    batch: usize,
    limit: usize,
    untimed: Vec<Candidate>,
    timed: Vec<MicroConfiguration<Algorithm>>,
    trials: Option<Vec<Trial>>,
}

#[derive(Clone)]
struct Trial {
    configuration: Configuration<Algorithm>,
    times: Vec<f64>,
    failed: bool,
}

impl Trial {
    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl Search {
    /// A search among `candidates` for `batch` images within `limit` bytes: first each algorithm's first
    /// that fits, then the others, in their order. What `known` tells of any of them is not timed again.
    pub fn new(
        batch: usize,
        limit: usize,
        candidates: Vec<Candidate>,
        known: Vec<MicroConfiguration<Algorithm>>,
    ) -> Self {
        let is_known = |c: &Candidate| known.iter().any(|k| k.batch == c.batch && k.algorithm == c.algorithm);
        let fits = |c: &Candidate| c.workspace <= limit && c.batch <= batch && !is_known(c);
        // One time of every algorithm is what `plan::can_win` needs to rule out most of the rest: a
        // mini-batch by a slow algorithm may take longer than all of a fast one's parts together.
        let mut met = HashSet::new();
        let (first, rest): (Vec<_>, Vec<_>) =
            candidates.into_iter().filter(fits).partition(|c| met.insert(c.algorithm));
        let untimed = first.into_iter().chain(rest).collect();
        Self { batch, limit, untimed, timed: known, trials: None }
    }

    /// What to do next. Candidates that cannot win any more are dropped on the way.
    pub fn next(&mut self) -> Next {
        if !self.untimed.is_empty() {
            let untimed: Vec<_> = self.untimed.iter().map(|c| (c.batch, c.algorithm)).collect();
            let wins = plan::can_win(self.batch, &self.timed, self.limit, &untimed, SLACK);
            let mut wins = wins.into_iter();
            self.untimed.retain(|_| wins.next().unwrap_or(false));
        }
        if let Some(first) = self.untimed.first() {
            return Next::Time(*first);
        }
        let trials = self.trials.get_or_insert_with(|| trials(self.batch, &self.timed, self.limit));
        let waiting = trials.iter().enumerate().filter(|(_, t)| !t.failed && t.times.len() < ROUNDS);
        match waiting.min_by_key(|(_, t)| t.times.len()) {
            Some((index, _)) => Next::Try(index),
            None => Next::Nothing,
        }
    }

    /// The candidate took this long, in milliseconds.
    pub fn timed(&mut self, candidate: Candidate, time: f64) {
        let Candidate { batch, algorithm, workspace } = candidate;
        self.untimed.retain(|c| *c != candidate);
        self.timed.push(MicroConfiguration { batch, algorithm, time, workspace });
    }

    /// The candidate does not run.
    pub fn failed(&mut self, candidate: Candidate) {
        self.untimed.retain(|c| *c != candidate);
    }

    /// The configuration that [`Next::Try`] names.
    pub fn trial(&self, index: usize) -> Option<&Configuration<Algorithm>> {
        self.trials.as_ref()?.get(index).map(|trial| &trial.configuration)
    }

    /// A configuration ran, in `time` milliseconds; `None` if it did not.
    pub fn tried(&mut self, index: usize, time: Option<f64>) {
        if let Some(trial) = self.trials.as_mut().and_then(|trials| trials.get_mut(index)) {
            match time {
                Some(time) => trial.times.push(time),
                None => trial.failed = true,
            }
        }
    }

    /// Everything that has been timed.
    pub fn measured(&self) -> &[MicroConfiguration<Algorithm>] {
        &self.timed
    }

    /// The fastest algorithm that runs undivided in `workspace` bytes.
    pub fn fastest_whole(&self, workspace: usize) -> Option<&MicroConfiguration<Algorithm>> {
        let fits = self.timed.iter().filter(|micro| micro.batch == self.batch && micro.workspace <= workspace);
        fits.min_by(|a, b| a.time.total_cmp(&b.time))
    }

    /// The algorithm that runs undivided in the least workspace, if that is within the limit.
    pub fn smallest_whole(&self) -> Option<&MicroConfiguration<Algorithm>> {
        let whole = self.timed.iter().filter(|micro| micro.batch == self.batch && micro.workspace <= self.limit);
        whole.min_by_key(|micro| micro.workspace)
    }

    /// What the search found among some algorithms only.
    pub fn among(&self, admits: impl Fn(&Algorithm) -> bool) -> Self {
        let timed = self.timed.iter().filter(|micro| admits(&micro.algorithm)).copied().collect();
        let all = |trial: &&Trial| trial.configuration.parts().iter().all(|(_, micro)| admits(&micro.algorithm));
        let trials = self.trials.as_ref().map(|trials| trials.iter().filter(all).cloned().collect());
        Self { batch: self.batch, limit: self.limit, untimed: Vec::new(), timed, trials }
    }

    /// What is known of the whole mini-batch in one piece by `algorithm`.
    pub fn whole(&self, algorithm: Algorithm) -> Option<&MicroConfiguration<Algorithm>> {
        self.timed.iter().find(|micro| micro.batch == self.batch && micro.algorithm == algorithm)
    }

    /// The best configuration so far with its time in milliseconds, measured in place where it was
    /// tried and predicted otherwise; of those within 2% of the fastest the one with the least
    /// workspace, then the fewest parts. `None` if nothing fits.
    pub fn best(&self) -> Option<(Configuration<Algorithm>, f64)> {
        let tried: Vec<&Trial> =
            self.trials.iter().flatten().filter(|trial| !trial.failed && !trial.times.is_empty()).collect();
        if !tried.is_empty() {
            let best = plan::prefer_small(&tried, |trial| trial.median(), |trial| cost(&trial.configuration));
            return best.map(|trial| (trial.configuration.clone(), trial.median()));
        }
        let failed = |configuration: &Configuration<Algorithm>| {
            self.trials.iter().flatten().any(|t| t.failed && t.configuration == *configuration)
        };
        let mut fitting = plan::desirable_set(self.batch, &self.timed);
        fitting.retain(|configuration| configuration.workspace() <= self.limit && !failed(configuration));
        let best = plan::prefer_small(&fitting, Configuration::time, cost)?;
        Some((best.clone(), best.time()))
    }

    /// The fastest undivided algorithm within the limit, with its time as [`Self::best`] gives it.
    pub fn undivided(&self) -> Option<(MicroConfiguration<Algorithm>, f64)> {
        let fastest = *self.fastest_whole(self.limit)?;
        let in_place = self
            .trials
            .iter()
            .flatten()
            .find(|trial| trial.configuration.is_undivided() && trial.configuration.parts()[0].1 == fastest);
        let time = in_place.map(Trial::median).filter(|time| time.is_finite()).unwrap_or(fastest.time);
        Some((fastest, time))
    }
}

/// What decides between configurations that take the same time: workspace, then how little they divide.
fn cost(configuration: &Configuration<Algorithm>) -> (usize, usize) {
    (configuration.workspace(), configuration.len())
}

/// The configurations worth running in place; none where there is no choice.
fn trials(batch: usize, timed: &[MicroConfiguration<Algorithm>], limit: usize) -> Vec<Trial> {
    let mut best = plan::best_configurations(batch, timed, limit, TRIALS);
    let Some(fastest) = best.first().map(Configuration::time) else { return Vec::new() };
    best.retain(|configuration| configuration.is_undivided() || configuration.time() <= fastest * HOPELESS);
    if best.len() < 2 {
        return Vec::new();
    }
    best.into_iter().map(|configuration| Trial { configuration, times: Vec::new(), failed: false }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cudnn::convolution::Direction;

    fn algorithm(id: i32) -> Algorithm {
        Algorithm { direction: Direction::Forward, id, math_type: 0, deterministic: true }
    }

    fn candidates(batch: usize, workspace: impl Fn(usize, i32) -> usize) -> Vec<Candidate> {
        let sizes = plan::BatchSizePolicy::PowerOfTwo.sizes(batch);
        let pairs = sizes.into_iter().rev().flat_map(|size| (0..2).map(move |id| (size, id)));
        pairs
            .map(|(size, id)| Candidate { batch: size, algorithm: algorithm(id), workspace: workspace(size, id) })
            .collect()
    }

    /// Runs a search on a machine whose times are given; returns the answer and how often it was asked.
    fn drive(search: &mut Search, time: impl Fn(usize, i32) -> f64) -> (Configuration<Algorithm>, usize) {
        let mut steps = 0;
        loop {
            steps += 1;
            match search.next() {
                Next::Time(c) => search.timed(c, time(c.batch, c.algorithm.id)),
                Next::Try(index) => {
                    let configuration = search.trial(index).unwrap().clone();
                    let took = configuration.micro_batches().map(|m| time(m.batch, m.algorithm.id)).sum();
                    search.tried(index, Some(took));
                }
                Next::Nothing => return (search.best().unwrap().0, steps),
            }
        }
    }

    #[test]
    fn a_fast_algorithm_that_fits_only_in_parts_is_divided() {
        // algorithm 1 is three times as fast and needs 10 bytes an image; a launch costs as much as 2 images
        let time = |size: usize, id: i32| 2.0 + size as f64 * if id == 1 { 1.0 } else { 3.0 };
        let mut search = Search::new(64, 170, candidates(64, |size, id| size * id as usize * 10), Vec::new());
        let (best, _) = drive(&mut search, time);
        assert_eq!(best.to_string(), "4×16[IMPLICIT_PRECOMP_GEMM]");
        let (undivided, undivided_time) = search.undivided().unwrap();
        assert_eq!((undivided.algorithm.id, undivided_time), (0, 194.0));
    }

    #[test]
    fn of_equal_times_the_least_workspace_wins() {
        let mut search = Search::new(64, 1000, candidates(64, |size, id| size * id as usize * 10), Vec::new());
        let (best, _) = drive(&mut search, |size, _| size as f64);
        assert_eq!((best.workspace(), best.is_undivided()), (0, true));
    }

    #[test]
    fn what_cannot_win_is_not_timed() {
        let time = |size: usize, id: i32| size as f64 * if id == 1 { 1.0 } else { 9.0 };
        let mut search = Search::new(64, usize::MAX, candidates(64, |_, _| 0), Vec::new());
        drive(&mut search, time);
        let slow: Vec<_> = search.measured().iter().filter(|m| m.algorithm.id == 0).map(|m| m.batch).collect();
        assert!(slow.iter().all(|&size| size == 64 || size <= 2), "{slow:?}");
    }

    #[test]
    fn every_algorithm_is_timed_once_before_any_is_timed_again() {
        let candidates = candidates(64, |size, id| if id == 1 && size > 4 { 101 } else { 0 });
        let mut search = Search::new(64, 100, candidates, Vec::new());
        let mut order = Vec::new();
        while let Next::Time(c) = search.next() {
            order.push((c.batch, c.algorithm.id));
            search.timed(c, if c.algorithm.id == 1 { 1.0 } else { 1000.0 } * c.batch as f64);
        }
        assert_eq!(order[..3], [(64, 0), (4, 1), (2, 1)], "the slow one is ruled out at once: {order:?}");
    }

    #[test]
    fn what_is_known_is_not_timed_again() {
        let time = |size: usize, id: i32| size as f64 * f64::from(id + 1);
        let mut first = Search::new(16, 100, candidates(16, |_, _| 0), Vec::new());
        let (best, _) = drive(&mut first, time);
        let mut second = Search::new(16, 100, candidates(16, |_, _| 0), first.measured().to_vec());
        let before = second.measured().len();
        let (again, _) = drive(&mut second, time);
        assert_eq!((second.measured().len(), again), (before, best));
    }

    #[test]
    fn what_fails_in_place_is_not_chosen() {
        let mut search = Search::new(4, 100, candidates(4, |_, _| 0), Vec::new());
        loop {
            match search.next() {
                Next::Time(c) => search.timed(c, c.batch as f64),
                Next::Try(index) => {
                    let undivided = search.trial(index).unwrap().is_undivided();
                    search.tried(index, undivided.then_some(50.0));
                }
                Next::Nothing => break,
            }
        }
        assert!(search.best().unwrap().0.is_undivided());
    }

    #[test]
    fn nothing_that_fits_is_no_answer() {
        let mut search = Search::new(4, 5, candidates(4, |_, _| 6), Vec::new());
        assert_eq!(search.next(), Next::Nothing);
        assert_eq!(search.best(), None);
    }
}
