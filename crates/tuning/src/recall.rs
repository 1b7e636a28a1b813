//! Planning from the database alone: measures nothing, and needs neither cuDNN nor a device.

use super::database::{Database, Environment, Outcome};
use super::search::{Candidate, Goal, Known, Search};
use super::subject::Subject;
use planner::{BatchSizePolicy, Configuration};

/// The database's results for a problem's mini-batch. Each configuration comes with its milliseconds, measured in place
/// if it was tried and predicted otherwise. Workspace ascends.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled<A> {
    /// The configurations that no other beats in both time and workspace; none if the known micro-configurations do not
    /// make up the mini-batch.
    pub desirable: Vec<(Configuration<A>, f64)>,
    /// The known algorithms for the mini-batch in one piece.
    pub undivided: Vec<(Configuration<A>, f64)>,
}

/// Returns the database's results for `problem` in `environment`, for the sizes of a policy and the algorithms that
/// `admits` accepts: the answer of a search that measures nothing more.
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
    let trials = database.trials(environment, problem);

    let whole = outcomes.iter().filter(|outcome| outcome.batch == problem.batch());
    let whole = whole.filter_map(Outcome::micro_configuration).map(Configuration::undivided);
    let in_place = |undivided: &Configuration<K::Algorithm>| {
        let tried = trials.iter().find(|(tried, _)| tried == undivided)?;
        tried.1
    };
    let mut undivided: Vec<_> = whole.map(|whole| (whole.clone(), in_place(&whole).unwrap_or(whole.time()))).collect();
    undivided.sort_by_key(|(configuration, _)| configuration.workspace());

    let candidate = |outcome: &Outcome<K::Algorithm>| Candidate {
        batch: outcome.batch,
        algorithm: outcome.algorithm,
        workspace: outcome.workspace,
    };
    let candidates = outcomes.iter().map(candidate).collect();
    let measured = outcomes.iter().filter_map(Outcome::micro_configuration).collect();
    let failed = outcomes.iter().filter(|outcome| outcome.time.is_none());
    let failed = failed.map(|outcome| (outcome.batch, outcome.algorithm)).collect();
    let known = Known { measured, failed, trials, ended: true };
    let mut search = Search::new(problem.batch(), Goal::DesirableSet { limit: usize::MAX }, candidates, known);
    // The search has ended, but this call still chooses the trials that `desirable_set` reads.
    search.wants();
    Recalled { desirable: search.desirable_set(), undivided }
}
