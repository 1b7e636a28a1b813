//! Planning from what a database knows, with nothing measured: it needs no cuDNN and no device.

use super::database::{Database, Environment, Outcome};
use super::search::{Candidate, Goal, Known, Search};
use super::subject::Subject;
use planner::{BatchSizePolicy, Configuration};

/// What a database knows of a kernel's mini-batch. Configurations come with their milliseconds, measured in place
/// where they were tried and predicted otherwise; workspace ascends.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled<A> {
    /// The configurations that no other beats in both time and workspace; none if no micro-configurations that are
    /// known make up the mini-batch.
    pub desirable: Vec<(Configuration<A>, f64)>,
    /// What is known of the mini-batch in one piece.
    pub undivided: Vec<(Configuration<A>, f64)>,
}

/// What `database` knows of `kernel` in `environment`, of micro-batch sizes of a policy and algorithms that are admitted:
/// what a search would answer that measures nothing more.
pub fn recall<K: Subject>(
    database: &Database,
    environment: &Environment,
    kernel: &K,
    sizes: BatchSizePolicy,
    admits: impl Fn(&K::Algorithm) -> bool,
) -> Recalled<K::Algorithm> {
    let sizes = sizes.sizes(kernel.batch());
    let mut outcomes = database.measured(environment, kernel);
    outcomes.retain(|outcome| sizes.contains(&outcome.batch) && admits(&outcome.algorithm));
    let trials = database.trials(environment, kernel);

    let whole = outcomes.iter().filter(|outcome| outcome.batch == kernel.batch());
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
    let mut search = Search::new(kernel.batch(), Goal::DesirableSet { limit: usize::MAX }, candidates, known);
    // It has ended; what it would try in place is chosen all the same.
    search.wants();
    Recalled { desirable: search.desirable_set(), undivided }
}
