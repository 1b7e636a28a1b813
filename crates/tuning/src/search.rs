//! The search for one problem's configurations: the candidates, the times so far, and the next candidate. A search runs
//! nothing itself.

mod candidates;
mod trials;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

use crate::contest::turns::MARGIN;
pub use candidates::{any_division, covers};
use planner::{Configuration, MicroConfiguration, WorkspaceBudget};
use trials::Trial;

/// How far below its rate at larger sizes an algorithm's time may fall, for data that stays in the
/// cache: [`planner::can_win`]'s slack.
const SLACK: f64 = 0.7;

/// The goal of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The fastest configuration: Workspace Reuse.
    Fastest {
        /// The most bytes of workspace.
        limit: usize,
    },
    /// The fastest configuration, if results that are not yet written also serve as workspace.
    FastestWithin(WorkspaceBudget),
    /// All configurations that no other beats in both time and workspace: Workspace Division.
    DesirableSet {
        /// The most bytes of workspace.
        limit: usize,
    },
}

impl Goal {
    /// The most bytes of workspace that a configuration may take.
    pub fn limit(self) -> usize {
        match self {
            Self::Fastest { limit }
            | Self::FastestWithin(WorkspaceBudget { limit, .. })
            | Self::DesirableSet { limit } => limit,
        }
    }

    /// The workspace budget of a micro-batch.
    pub fn room(self) -> WorkspaceBudget {
        match self {
            Self::FastestWithin(room) => room,
            Self::Fastest { limit } | Self::DesirableSet { limit } => WorkspaceBudget { limit, per_image: 0 },
        }
    }

    /// The same goal, with at most `bytes` of workspace.
    pub fn within(self, bytes: usize) -> Self {
        match self {
            Self::Fastest { limit } => Self::Fastest { limit: limit.min(bytes) },
            Self::FastestWithin(room) => Self::FastestWithin(WorkspaceBudget { limit: room.limit.min(bytes), ..room }),
            Self::DesirableSet { limit } => Self::DesirableSet { limit: limit.min(bytes) },
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fastest { .. } => "fastest",
            Self::FastestWithin(_) => "fastest beside unwritten results",
            Self::DesirableSet { .. } => "desirable set",
        })
    }
}

/// A micro-configuration to time: a micro-batch size, an algorithm, and its workspace in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<A> {
    pub batch: usize,
    pub algorithm: A,
    pub workspace: usize,
}

/// The results of earlier searches, in this process or another.
#[derive(Clone, Debug)]
pub struct Known<A> {
    pub measured: Vec<MicroConfiguration<A>>,
    /// Micro-batch sizes and algorithms that do not run.
    pub failed: Vec<(usize, A)>,
    /// Configurations that ran in place, with their milliseconds; `None` for a configuration that does not run.
    pub trials: Vec<(Configuration<A>, Option<f64>)>,
    /// A search with the same goal among the same candidates has ended. Candidates that it left out stay untimed, and
    /// nothing is measured again.
    pub ended: bool,
}

impl<A> Default for Known<A> {
    fn default() -> Self {
        Self { measured: Vec::new(), failed: Vec::new(), trials: Vec::new(), ended: false }
    }
}

/// The next task of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<A> {
    /// Time a micro-batch, then call [`Search::timed`] or [`Search::failed`].
    Time(Candidate<A>),
    /// Run the whole configuration with this index in place, then call [`Search::tried`].
    Try(usize),
    /// Nothing: [`Search::best`] and [`Search::desirable_set`] are the answers.
    Nothing,
}

/// The state of a search.
#[derive(Clone)]
pub struct Search<A> {
    batch: usize,
    goal: Goal,
    untimed: Vec<Candidate<A>>,
    timed: Vec<MicroConfiguration<A>>,
    /// The number of times in `timed` that were known before.
    known: usize,
    known_trials: Vec<(Configuration<A>, Option<f64>)>,
    ended: bool,
    trials: Option<Vec<Trial<A>>>,
}

impl<A: Copy + Eq + Hash> Search<A> {
    /// A search among `candidates` for `batch` images. It begins with the first fitting candidate of each algorithm,
    /// then takes the others in order. It uses times of candidates in `known` instead of measuring them again, and
    /// ignores all other known times. Candidates beyond the goal's limit are not timed, but their known times bound the
    /// times of others. Known times come with the candidates' workspaces: a database may have wrong ones.
    pub fn new(batch: usize, goal: Goal, candidates: Vec<Candidate<A>>, known: Known<A>) -> Self {
        let workspaces: HashMap<_, _> = candidates.iter().map(|it| ((it.batch, it.algorithm), it.workspace)).collect();
        let mut times = HashMap::new();
        known.measured.iter().for_each(|micro| _ = times.entry((micro.batch, micro.algorithm)).or_insert(micro));
        let timed = candidates.iter().filter(|candidate| candidate.batch <= batch).filter_map(|candidate| {
            let micro = times.get(&(candidate.batch, candidate.algorithm))?;
            Some(MicroConfiguration { workspace: candidate.workspace, ..**micro })
        });
        let timed: Vec<_> = timed.collect();
        let failed: HashSet<_> = known.failed.iter().copied().collect();
        let with_workspace = |&(count, micro): &(usize, MicroConfiguration<A>)| {
            let workspace = *workspaces.get(&(micro.batch, micro.algorithm))?;
            Some((count, MicroConfiguration { workspace, ..micro }))
        };
        let trial = |(configuration, time): &(Configuration<A>, Option<f64>)| {
            let parts: Option<Vec<_>> = configuration.parts().iter().map(with_workspace).collect();
            Some((Configuration::new(parts?), *time))
        };
        let known_trials = known.trials.iter().filter_map(trial).collect();
        let is_open = |c: &Candidate<A>| {
            let key = (c.batch, c.algorithm);
            c.batch <= batch
                && c.workspace <= goal.room().before(batch - c.batch)
                && !failed.contains(&key)
                && !times.contains_key(&key)
        };
        // With one time of every algorithm, `planner::can_win` rules out most of the rest: a mini-batch by a slow
        // algorithm may take longer than all of a fast one's parts together.
        let mut met = HashSet::new();
        let open = candidates.into_iter().filter(|candidate| !known.ended && is_open(candidate));
        let (first, rest): (Vec<_>, Vec<_>) = open.partition(|c| met.insert(c.algorithm));
        let untimed = first.into_iter().chain(rest).collect();
        Self { batch, goal, untimed, known: timed.len(), timed, known_trials, ended: known.ended, trials: None }
    }

    /// Returns the next task, and drops candidates that have become useless.
    pub fn wants(&mut self) -> Next<A> {
        self.wants_besides(&[]).unwrap_or(Next::Nothing)
    }

    /// Returns the next task while others time the candidates in `taken`; `None` if it depends on their times.
    pub fn wants_besides(&mut self, taken: &[Candidate<A>]) -> Option<Next<A>> {
        self.prune();
        if let Some(candidate) = self.untimed.iter().find(|candidate| !taken.contains(candidate)) {
            return Some(Next::Time(*candidate));
        }
        if !taken.is_empty() {
            return None;
        }
        let Self { batch, goal, timed, known_trials, ended, trials, .. } = self;
        let trials = trials.get_or_insert_with(|| trials::choose(*batch, timed, *goal, known_trials, *ended));
        let waiting = trials.iter().enumerate().filter(|(_, trial)| !*ended && trial.is_waiting());
        Some(match waiting.min_by_key(|(_, trial)| trial.rounds()) {
            Some((index, _)) => Next::Try(index),
            None => Next::Nothing,
        })
    }

    fn prune(&mut self) {
        if self.untimed.is_empty() {
            return;
        }
        let Self { batch, goal, untimed, timed, .. } = &*self;
        let of_use = match *goal {
            Goal::Fastest { limit } => {
                let untimed: Vec<_> = untimed.iter().map(|c| (c.batch, c.algorithm)).collect();
                planner::can_win(*batch, timed, limit, &untimed, SLACK)
            }
            Goal::FastestWithin(room) => {
                let untimed: Vec<_> = untimed.iter().map(|c| (c.batch, c.algorithm)).collect();
                planner::can_win_within(*batch, timed, room, &untimed, SLACK)
            }
            Goal::DesirableSet { limit } => {
                let untimed: Vec<_> = untimed.iter().map(|c| (c.batch, c.algorithm, c.workspace)).collect();
                planner::can_be_desirable(*batch, timed, limit, &untimed, SLACK)
            }
        };
        let mut of_use = of_use.into_iter();
        self.untimed.retain(|_| of_use.next().unwrap_or(false));
    }

    /// Records the candidate's time, in milliseconds.
    pub fn timed(&mut self, candidate: Candidate<A>, time: f64) {
        let Candidate { batch, algorithm, workspace } = candidate;
        self.untimed.retain(|c| *c != candidate);
        self.timed.push(MicroConfiguration { batch, algorithm, time, workspace });
    }

    /// Records that the candidate does not run.
    pub fn failed(&mut self, candidate: Candidate<A>) {
        self.untimed.retain(|c| *c != candidate);
    }

    /// The images of the mini-batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Leaves out the candidates on an algorithm with `batch` images or more: it takes too long for them.
    pub fn drop_larger(&mut self, algorithm: A, batch: usize) {
        self.untimed.retain(|c| c.algorithm != algorithm || c.batch < batch);
    }

    /// The configuration that [`Next::Try`] names.
    pub fn trial(&self, index: usize) -> Option<&Configuration<A>> {
        self.trials.as_ref()?.get(index).map(|trial| &trial.configuration)
    }

    /// Records the time of a trial, in milliseconds; `None` if it did not run.
    pub fn tried(&mut self, index: usize, time: Option<f64>) {
        if let Some(trial) = self.trials.as_mut().and_then(|trials| trials.get_mut(index)) {
            trial.ran(time);
        }
    }

    /// True if an equal search ended before: nothing is measured again.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// All times, including those known before.
    pub fn measured(&self) -> &[MicroConfiguration<A>] {
        &self.timed
    }

    /// The times that this search added.
    pub fn found(&self) -> &[MicroConfiguration<A>] {
        &self.timed[self.known..]
    }

    /// The number of candidates still to be timed, as far as known.
    pub fn remaining(&self) -> usize {
        self.untimed.len()
    }

    /// The configurations that this search, and no earlier one, ran in place, with the median of their milliseconds.
    pub fn trials(&self) -> impl Iterator<Item = (&Configuration<A>, f64)> {
        let own = self.trials.iter().flatten().filter(|trial| trial.is_requested());
        own.map(|trial| (&trial.configuration, trial.median()))
    }

    /// Returns the fastest algorithm that runs undivided in `workspace` bytes.
    pub fn fastest_whole(&self, workspace: usize) -> Option<&MicroConfiguration<A>> {
        let fits = self.timed.iter().filter(|micro| micro.batch == self.batch && micro.workspace <= workspace);
        fits.min_by(|a, b| a.time.total_cmp(&b.time))
    }

    /// Returns the algorithm that runs undivided in the least workspace, if that is within the limit.
    pub fn smallest_whole(&self) -> Option<&MicroConfiguration<A>> {
        let limit = self.goal.limit();
        let whole = self.timed.iter().filter(|micro| micro.batch == self.batch && micro.workspace <= limit);
        whole.min_by_key(|micro| micro.workspace)
    }

    /// Returns the search's results for the admitted algorithms only.
    pub fn among(&self, admits: impl Fn(&A) -> bool) -> Self {
        let timed = self.timed.iter().filter(|micro| admits(&micro.algorithm)).copied().collect();
        let all = |trial: &&Trial<A>| trial.configuration.parts().iter().all(|(_, micro)| admits(&micro.algorithm));
        let trials = self.trials.as_ref().map(|trials| trials.iter().filter(all).cloned().collect());
        let Self { batch, goal, ended, .. } = *self;
        Self { batch, goal, untimed: Vec::new(), known: 0, timed, known_trials: Vec::new(), ended, trials }
    }

    /// Returns the time of the whole mini-batch in one piece by `algorithm`, if known.
    pub fn whole(&self, algorithm: A) -> Option<&MicroConfiguration<A>> {
        self.timed.iter().find(|micro| micro.batch == self.batch && micro.algorithm == algorithm)
    }

    /// Returns the best configuration so far with its time in milliseconds, measured in place if it was tried and
    /// predicted otherwise. Of the configurations within 2% of the fastest, it has the least workspace, then the fewest
    /// parts. `None` if nothing fits.
    pub fn best(&self) -> Option<(Configuration<A>, f64)> {
        preferred(&self.contenders())
    }

    /// The configurations among which [`Self::best`] chooses, with their times.
    fn contenders(&self) -> Vec<(Configuration<A>, f64)> {
        let tried = self.trials.iter().flatten().filter(|trial| trial.has_run());
        let tried: Vec<_> = tried.map(|trial| (trial.configuration.clone(), trial.median())).collect();
        if !tried.is_empty() {
            return tried;
        }
        let mut fitting = match self.goal {
            Goal::FastestWithin(room) => planner::best_within(self.batch, &self.timed, room, usize::MAX),
            Goal::Fastest { .. } | Goal::DesirableSet { .. } => planner::desirable_set(self.batch, &self.timed),
        };
        let needs = |configuration: &Configuration<A>| configuration.needs(self.goal.room().per_image);
        fitting.retain(|configuration| needs(configuration) <= self.goal.limit() && !self.has_failed(configuration));
        let timed = |configuration: Configuration<A>| {
            let time = configuration.time();
            (configuration, time)
        };
        fitting.into_iter().map(timed).collect()
    }

    /// Returns [`Self::best`], or the requested algorithm undivided, if that fits and no other is faster by the margin of
    /// contests.
    pub fn best_beside(&self, requested: Option<A>) -> Option<(Configuration<A>, f64)> {
        let contenders = self.contenders();
        let least = contenders.iter().map(|(_, time)| *time).min_by(f64::total_cmp);
        let stays = |(whole, its): &(MicroConfiguration<A>, f64)| {
            whole.workspace <= self.goal.limit() && least.is_some_and(|least| least > MARGIN * its)
        };
        let requested = requested.and_then(|requested| self.whole_of(requested)).filter(stays);
        requested.map(|(whole, its)| (Configuration::undivided(whole), its)).or_else(|| preferred(&contenders))
    }

    /// Returns the configurations within the limit that no other beats in both time and workspace, with times as from
    /// [`Self::best`]: workspace ascending, time descending.
    pub fn desirable_set(&self) -> Vec<(Configuration<A>, f64)> {
        let tried = self.trials.iter().flatten().filter(|trial| !trial.has_failed());
        let mut found: Vec<_> = tried
            .map(|trial| {
                (trial.configuration.clone(), if trial.has_run() { trial.median() } else { trial.predicted() })
            })
            .collect();
        if found.is_empty() {
            let mut front = trials::front(self.batch, &self.timed, self.goal.limit());
            front.retain(|configuration| !self.has_failed(configuration));
            found = front.into_iter().map(|configuration| (configuration.clone(), configuration.time())).collect();
        }
        undominated(found)
    }

    /// Returns the fastest undivided algorithm within the limit, with its time as from [`Self::best`].
    pub fn undivided(&self) -> Option<(MicroConfiguration<A>, f64)> {
        let fastest = *self.fastest_whole(self.goal.limit())?;
        Some((fastest, self.in_place(fastest)))
    }

    /// Returns an algorithm undivided, with its time as from [`Self::best`]; `None` if that is not known, or if it failed.
    pub fn whole_of(&self, algorithm: A) -> Option<(MicroConfiguration<A>, f64)> {
        let whole = *self.whole(algorithm)?;
        (!self.has_failed(&Configuration::undivided(whole))).then(|| (whole, self.in_place(whole)))
    }

    /// The time of the whole mini-batch in one piece: in place if it was tried, and alone otherwise.
    fn in_place(&self, whole: MicroConfiguration<A>) -> f64 {
        let is_it = |trial: &&Trial<A>| trial.configuration.is_undivided() && trial.configuration.parts()[0].1 == whole;
        let in_place = self.trials.iter().flatten().find(is_it).filter(|trial| trial.has_run());
        in_place.map_or(whole.time, Trial::median)
    }

    fn has_failed(&self, configuration: &Configuration<A>) -> bool {
        self.trials.iter().flatten().any(|trial| trial.has_failed() && trial.configuration == *configuration)
    }
}

/// Of the configurations within 2% of the fastest, the one with the least workspace, then with the fewest parts.
fn preferred<A: Copy>(contenders: &[(Configuration<A>, f64)]) -> Option<(Configuration<A>, f64)> {
    planner::prefer_small(contenders, |(_, time)| *time, |(configuration, _)| cost(configuration)).cloned()
}

/// Sorts configurations with their times by workspace, then by time.
pub(crate) fn by_workspace<A>(mut timed: Vec<(Configuration<A>, f64)>) -> Vec<(Configuration<A>, f64)> {
    timed.sort_by(|(a, a_time), (b, b_time)| a.workspace().cmp(&b.workspace()).then(a_time.total_cmp(b_time)));
    timed
}

/// Returns the configurations that no other beats in both time and workspace: workspace ascending, time descending.
pub(crate) fn undominated<A>(timed: Vec<(Configuration<A>, f64)>) -> Vec<(Configuration<A>, f64)> {
    let mut timed = by_workspace(timed);
    let mut fastest = f64::INFINITY;
    timed.retain(|(_, time)| {
        let is_faster = *time < fastest;
        fastest = fastest.min(*time);
        is_faster
    });
    timed
}

/// The order of configurations that take the same time: less workspace first, then fewer micro-batches.
fn cost<A>(configuration: &Configuration<A>) -> (usize, usize) {
    (configuration.workspace(), configuration.len())
}
