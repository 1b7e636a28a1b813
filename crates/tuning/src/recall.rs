//! Planning from the database alone: measures nothing, and needs neither cuDNN nor a device.

use super::database::{Database, Environment, Outcome};
use super::search::{by_workspace, undominated};
use super::subject::Subject;
use planner::{BatchSizePolicy, Configuration, TIE};

/// The database's results for a problem's mini-batch: two kinds of times, which do not compare with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled<A> {
    /// By the times of micro-batches that ran alone, added up.
    pub alone: Times<A>,
    /// By the times of whole configurations that ran in place.
    pub in_place: Times<A>,
    /// The policy's sizes that the database has no time of, ascending.
    pub unmeasured: Vec<usize>,
    /// All configurations that ran in place.
    tried: Vec<Configuration<A>>,
}

/// Configurations with their milliseconds, which compare with each other. Workspace ascends.
#[derive(Clone, Debug, PartialEq)]
pub struct Times<A> {
    /// The configurations that no other beats in both time and workspace; none if the known micro-configurations do not
    /// make up the mini-batch.
    pub desirable: Vec<(Configuration<A>, f64)>,
    /// The known algorithms for the mini-batch in one piece.
    pub undivided: Vec<(Configuration<A>, f64)>,
}

/// Returns the database's results for `problem` in `environment`, for the sizes of a policy and the algorithms that
/// `admits` accepts.
pub fn recall<K: Subject>(
    database: &Database,
    environment: &Environment,
    problem: &K,
    sizes: BatchSizePolicy,
    admits: impl Fn(&K::Algorithm) -> bool,
) -> Recalled<K::Algorithm> {
    let sizes = sizes.sizes(problem.batch());
    let mut outcomes = database.measured(environment, problem);
    outcomes.retain(|outcome| sizes.contains(&outcome.batch) && admits(&outcome.algorithm));
    let admitted = |configuration: &Configuration<K::Algorithm>| {
        let parts = configuration.parts().iter();
        parts.clone().all(|(_, part)| sizes.contains(&part.batch) && admits(&part.algorithm))
    };
    let mut trials = database.trials(environment, problem);
    trials.retain(|(tried, _)| admitted(tried));

    let timed: Vec<_> = outcomes.iter().filter_map(Outcome::micro_configuration).collect();
    let is_timed = |size: &usize| timed.iter().any(|micro| micro.batch == *size);
    // A whole configuration may fail although each of its parts ran.
    let has_failed = |configuration: &Configuration<K::Algorithm>| {
        trials.iter().any(|(tried, time)| tried == configuration && time.is_none())
    };
    let predicted = |configurations: Vec<Configuration<K::Algorithm>>| -> Vec<_> {
        let sound = configurations.into_iter().filter(|configuration| !has_failed(configuration));
        sound.map(|configuration| (configuration.clone(), configuration.time())).collect()
    };
    let whole = timed.iter().filter(|micro| micro.batch == problem.batch());
    let alone = Times {
        desirable: predicted(planner::desirable_set(problem.batch(), &timed)),
        undivided: by_workspace(predicted(whole.map(|micro| Configuration::undivided(*micro)).collect())),
    };
    let ran: Vec<_> = trials.iter().filter_map(|(tried, time)| Some((tried.clone(), (*time)?))).collect();
    let undivided = ran.iter().filter(|(tried, _)| tried.is_undivided()).cloned().collect();
    let tried = ran.iter().map(|(tried, _)| tried.clone()).collect();
    let in_place = Times { desirable: undominated(ran), undivided: by_workspace(undivided) };
    let unmeasured = sizes.iter().copied().filter(|size| !is_timed(size)).collect();
    Recalled { alone, in_place, unmeasured, tried }
}

impl<A> Recalled<A> {
    /// Returns true if the times in place suffice for plans within this limit: the search ran a configuration that is
    /// predicted as fast as any that fits, and an undivided one if any fits.
    pub fn is_tried_within(&self, limit: usize) -> bool {
        let fits = |known: &&(Configuration<A>, f64)| known.0.workspace() <= limit;
        let fastest = |times: &mut dyn Iterator<Item = f64>| times.min_by(f64::total_cmp);
        let predicted = fastest(&mut self.alone.desirable.iter().filter(fits).map(|(_, time)| *time));
        let tried = self.tried.iter().filter(|tried| tried.workspace() <= limit);
        let tried = fastest(&mut tried.map(Configuration::time));
        let as_fast = match (predicted, tried) {
            (Some(predicted), Some(tried)) => tried <= predicted * (1.0 + TIE),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let undivided = |times: &Times<A>| times.undivided.iter().any(|known| fits(&known));
        as_fast && (undivided(&self.in_place) || !undivided(&self.alone))
    }
}
