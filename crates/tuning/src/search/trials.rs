//! The configurations that are run in place once their parts are timed. A sum of times is only a model, since splitting
//! costs launches and changes the contents of the cache.

use super::Goal;
use planner::{Configuration, MicroConfiguration, TIE};

/// The most configurations to run for [`Goal::Fastest`].
const MOST: usize = 4;
/// The most configurations to run for [`Goal::DesirableSet`].
const MOST_DESIRABLE: usize = 12;
/// The runs of each configuration.
const ROUNDS: usize = 3;
/// A configuration that is predicted slower than the best by this factor is not tried.
const HOPELESS: f64 = 1.25;

/// A configuration to run in place.
#[derive(Clone)]
pub struct Trial<A> {
    pub configuration: Configuration<A>,
    /// The time that an earlier search found, in milliseconds.
    known: Option<f64>,
    times: Vec<f64>,
    failed: bool,
}

impl<A> Trial<A> {
    /// The median time, in milliseconds; NaN if it has not run.
    pub fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable_by(f64::total_cmp);
        self.known.or(times.get(times.len() / 2).copied()).unwrap_or(f64::NAN)
    }

    /// The sum of the parts' times, in milliseconds.
    pub fn predicted(&self) -> f64 {
        self.configuration.time()
    }

    /// Records a run of `time` milliseconds, or a failure if `None`.
    pub fn ran(&mut self, time: Option<f64>) {
        match time {
            Some(time) => self.times.push(time),
            None => self.failed = true,
        }
    }

    pub fn has_run(&self) -> bool {
        !self.failed && !self.median().is_nan()
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The number of runs so far.
    pub fn rounds(&self) -> usize {
        self.times.len()
    }

    /// True if it has to run again.
    pub fn is_waiting(&self) -> bool {
        !self.failed && self.known.is_none() && self.times.len() < ROUNDS
    }

    /// True if this search ran it. It may have run less often than planned if the budget was spent, but its time still
    /// decided the choice.
    pub fn is_requested(&self) -> bool {
        !self.failed && !self.times.is_empty()
    }
}

/// Returns the configurations worth running in place; none if there is no choice. Times in place compare only if taken
/// in turns, so known times count only if all have one, or if the search has `ended`. An ended search also keeps every
/// known configuration that ran and fits: with parts that tie, the planner may now choose other configurations, which
/// have no times. Those are dropped if one that ran needs no more workspace.
pub fn choose<A: Copy + PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    goal: Goal,
    known: &[(Configuration<A>, Option<f64>)],
    ended: bool,
) -> Vec<Trial<A>> {
    let chosen = match goal {
        Goal::Fastest { limit } => worthwhile(planner::best_configurations(batch, timed, limit, MOST)),
        Goal::FastestWithin(room) => worthwhile(planner::best_within(batch, timed, room, MOST)),
        Goal::DesirableSet { limit } => front(batch, timed, limit),
    };
    let trial = |configuration: Configuration<A>| {
        let found = known.iter().find(|(known, _)| is_same(known, &configuration)).map(|(_, time)| *time);
        Trial { configuration, known: found.flatten(), times: Vec::new(), failed: found == Some(None) }
    };
    let mut trials: Vec<_> = chosen.into_iter().map(trial).collect();
    if ended {
        let fits = |configuration: &Configuration<A>| {
            let is_timed = |part: &MicroConfiguration<A>| {
                timed.iter().any(|micro| micro.batch == part.batch && micro.algorithm == part.algorithm)
            };
            configuration.needs(goal.room().per_image) <= goal.limit()
                && configuration.parts().iter().all(|(_, part)| is_timed(part))
        };
        for (configuration, _) in known.iter().filter(|(configuration, time)| time.is_some() && fits(configuration)) {
            if !trials.iter().any(|trial| is_same(&trial.configuration, configuration)) {
                trials.push(trial(configuration.clone()));
            }
        }
        let ran: Vec<_> =
            trials.iter().filter(|trial| trial.has_run()).map(|trial| trial.configuration.workspace()).collect();
        let is_covered = |trial: &Trial<A>| ran.iter().any(|&workspace| workspace <= trial.configuration.workspace());
        trials.retain(|trial| trial.has_run() || trial.has_failed() || !is_covered(trial));
    }
    let is_known = ended && trials.iter().any(Trial::has_run);
    if trials.len() < 2 && !is_known {
        return Vec::new();
    }
    if !ended && trials.iter().any(|trial| trial.is_waiting()) {
        trials.iter_mut().for_each(|trial| trial.known = None);
    }
    trials
}

/// Drops configurations that are predicted far slower than the first, but keeps the undivided one.
fn worthwhile<A>(mut best: Vec<Configuration<A>>) -> Vec<Configuration<A>> {
    if let Some(fastest) = best.first().map(Configuration::time) {
        best.retain(|configuration| configuration.is_undivided() || configuration.time() <= fastest * HOPELESS);
    }
    best
}

/// Returns the desirable set by the times of its parts, at most [`MOST_DESIRABLE`] configurations, without any that is
/// hardly faster than a smaller one. Adds undivided configurations that may turn out better.
pub fn front<A: Copy + PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    limit: usize,
) -> Vec<Configuration<A>> {
    let mut front = planner::desirable_set(batch, timed);
    front.retain(|configuration| configuration.workspace() <= limit);
    let mut fastest = f64::INFINITY;
    front.retain(|configuration| {
        let is_faster = configuration.time() < fastest * (1.0 - TIE);
        fastest = if is_faster { configuration.time() } else { fastest };
        is_faster
    });
    let whole: Vec<_> = timed.iter().filter(|micro| micro.batch == batch).copied().collect();
    let mut undivided = planner::desirable_set(batch, &whole);
    undivided.retain(|configuration| {
        let best = front.iter().rfind(|other| other.workspace() <= configuration.workspace());
        configuration.workspace() <= limit
            && best.is_some_and(|best| configuration.time() <= best.time() * HOPELESS && !is_same(best, configuration))
    });
    while front.len() > 2 && front.len() + undivided.len() > MOST_DESIRABLE {
        // the configuration whose smaller neighbour can replace it at the least loss
        let loss = |at: &usize| front[at - 1].time() / front[*at].time();
        let least = (1..front.len() - 1).min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap_or(1);
        front.remove(least);
    }
    front.extend(undivided);
    front.sort_by_key(Configuration::workspace);
    front
}

/// True if two configurations run the same micro-batches, whatever the known times of their parts.
fn is_same<A: Copy + PartialEq>(a: &Configuration<A>, b: &Configuration<A>) -> bool {
    let parts = |it: &Configuration<A>| -> Vec<_> {
        it.parts().iter().map(|(count, micro)| (*count, micro.batch, micro.algorithm)).collect()
    };
    parts(a) == parts(b)
}
