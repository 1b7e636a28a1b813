//! Which configurations are run in place once their parts are timed: a sum of times is a model, since
//! splitting costs launches and changes what stays in the cache.

use super::Goal;
use planner::{Configuration, MicroConfiguration, TIE};

/// How many configurations are run for [`Goal::Fastest`].
const MOST: usize = 4;
/// How many configurations are run for [`Goal::DesirableSet`].
const MOST_DESIRABLE: usize = 12;
/// How often each of them runs.
const ROUNDS: usize = 3;
/// A configuration that is predicted slower than the best by this factor is not tried.
const HOPELESS: f64 = 1.25;

/// A configuration that is run in place.
#[derive(Clone)]
pub struct Trial<A> {
    pub configuration: Configuration<A>,
    /// What an earlier search found.
    known: Option<f64>,
    times: Vec<f64>,
    failed: bool,
}

impl<A> Trial<A> {
    /// Milliseconds; not a number if it has not run.
    pub fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable_by(f64::total_cmp);
        self.known.or(times.get(times.len() / 2).copied()).unwrap_or(f64::NAN)
    }

    /// The sum of its parts' milliseconds.
    pub fn predicted(&self) -> f64 {
        self.configuration.time()
    }

    /// It ran, in `time` milliseconds; `None` if it failed.
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

    /// How often it has run.
    pub fn rounds(&self) -> usize {
        self.times.len()
    }

    /// Whether it is to run again.
    pub fn is_waiting(&self) -> bool {
        !self.failed && self.known.is_none() && self.times.len() < ROUNDS
    }

    /// Whether this search has run it: where its budget was spent maybe less often than it wanted to, and yet
    /// that decided what was chosen.
    pub fn is_own(&self) -> bool {
        !self.failed && !self.times.is_empty()
    }
}

/// The configurations worth running in place; none where there is no choice. What is known of them is
/// taken over if it is known of all, or if the search has `ended`: times in place are compared where they
/// were taken in turns. One that has ended also keeps to all that fits of what was run: of parts that take as long as each
/// other it may choose others now, of which nothing is known. Those are left out where something that was run fits as well.
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

/// Without what is predicted far slower than the first, but for the undivided configuration.
fn worthwhile<A>(mut best: Vec<Configuration<A>>) -> Vec<Configuration<A>> {
    if let Some(fastest) = best.first().map(Configuration::time) {
        best.retain(|configuration| configuration.is_undivided() || configuration.time() <= fastest * HOPELESS);
    }
    best
}

/// The desirable set by the times of its parts, without what is hardly faster than something smaller, at most
/// [`MOST_DESIRABLE`] of it; with undivided configurations that may turn out better than that.
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
        // the one whose place its smaller neighbour takes at the least loss
        let loss = |at: &usize| front[at - 1].time() / front[*at].time();
        let least = (1..front.len() - 1).min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap_or(1);
        front.remove(least);
    }
    front.extend(undivided);
    front.sort_by_key(Configuration::workspace);
    front
}

/// Whether two configurations run the same, whatever times are known of their parts.
fn is_same<A: Copy + PartialEq>(a: &Configuration<A>, b: &Configuration<A>) -> bool {
    let parts = |it: &Configuration<A>| -> Vec<_> {
        it.parts().iter().map(|(count, micro)| (*count, micro.batch, micro.algorithm)).collect()
    };
    parts(a) == parts(b)
}
