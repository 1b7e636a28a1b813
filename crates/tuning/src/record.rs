//! What is known of a kernel from before, and where what is found out now goes to: the database, and a
//! line in the report for each micro-configuration that was timed.

use serde_json::json;

use super::database::{Database, Environment, Outcome, Tuning, TuningLock};
use super::search::{Candidate, Goal, Known, Search};
use super::subject::Subject;
use super::waiting::Budget;
use crate::report;
use gpu::Device;
use planner::{BatchSizePolicy, MicroConfiguration};

/// What is looked for among a kernel's configurations.
#[derive(Clone)]
pub struct Wanted<K: Subject> {
    pub goal: Goal,
    pub candidates: Vec<Candidate<K::Algorithm>>,
    /// All that a search depends on besides its kernel.
    question: String,
}

impl<K: Subject> Wanted<K> {
    /// Among these candidates. Limits between which no candidate's workspace lies are one.
    pub fn among(
        candidates: Vec<Candidate<K::Algorithm>>,
        goal: Goal,
        sizes: BatchSizePolicy,
        class: K::Class,
    ) -> Self {
        let workspaces = candidates.iter().map(|candidate| candidate.workspace);
        let bytes = workspaces.filter(|&workspace| workspace <= goal.limit()).max().unwrap_or(0);
        let largest = candidates.iter().map(|candidate| candidate.batch).max().unwrap_or(0);
        let question = format!("{goal} within {bytes} bytes, sizes {sizes} up to {largest}, {class}{}", engines::<K>());
        Self { goal, candidates, question }
    }

    /// Among whatever is offered, which need not be known to tell what is wanted: candidates are still to come.
    pub fn of_all(goal: Goal, sizes: BatchSizePolicy, class: K::Class) -> Self {
        let bytes = goal.limit();
        let question = format!("{goal} of all within {bytes} bytes, sizes {sizes}, {class}{}", engines::<K>());
        Self { goal, candidates: Vec::new(), question }
    }

    /// The same with other candidates.
    pub fn with_candidates(self, candidates: Vec<Candidate<K::Algorithm>>) -> Self {
        Self { candidates, ..self }
    }
}

/// What a question ends with.
fn engines<K: Subject>() -> String {
    K::ENGINES.map_or_else(String::new, |version| format!(", engines {version}"))
}

/// How a search came to stop.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// There was nothing more to do.
    Complete,
    /// The budget was spent. With the same budget it would be again: what was not reached stays so.
    Spent(Budget),
    /// What running programs may spend on exploring was spent.
    Explored,
    /// It was stopped, and is to go on.
    Stopped,
}

impl End {
    fn suffix(self) -> Option<String> {
        match self {
            Self::Complete => Some(String::new()),
            Self::Spent(Budget { time, executions }) if executions.is_finite() => {
                Some(format!("; as far as {} s and {executions} executions went", time.as_secs_f64()))
            }
            Self::Spent(Budget { time, .. }) => Some(format!("; as far as {} s went", time.as_secs_f64())),
            Self::Explored => Some("; as far as running programs explored".into()),
            Self::Stopped => None,
        }
    }
}

/// A kernel's entry in the database, if there is one, and in the report.
pub struct Record<'a, K: Subject> {
    kernel: &'a K,
    kept: Option<(&'static Database, Environment)>,
}

impl<'a, K: Subject> Record<'a, K> {
    /// The kernel's on the device of this number.
    pub fn of(kernel: &'a K, device: Device, ordinal: i32) -> Self {
        let kept = || {
            let database = Database::of_process()?;
            let identity = device.identity(ordinal)?;
            Some((database, Environment::of(identity.name, identity.multiprocessors, identity.driver)?))
        };
        Self { kernel, kept: kept() }
    }

    /// Whether anything at all is known of the kernel.
    pub fn is_empty(&self) -> bool {
        self.kept.as_ref().is_none_or(|(database, environment)| database.measured(environment, self.kernel).is_empty())
    }

    /// What is known of micro-batch sizes and algorithms that are admitted, whether they run or not.
    pub fn candidates(&self, admits: impl Fn(usize, &K::Algorithm) -> bool) -> Vec<Candidate<K::Algorithm>> {
        let Some((database, environment)) = &self.kept else { return Vec::new() };
        let mut known = database.measured(environment, self.kernel);
        known.retain(|outcome| admits(outcome.batch, &outcome.algorithm));
        let candidate =
            |Outcome { batch, algorithm, workspace, .. }: Outcome<_>| Candidate { batch, algorithm, workspace };
        known.into_iter().map(candidate).collect()
    }

    /// A search that goes on from what is known here and from what the process has `measured` itself. It has
    /// nothing to do if one like it has ended, by itself or at one of the `ends`.
    pub fn search(
        &self,
        wanted: &Wanted<K>,
        measured: &[MicroConfiguration<K::Algorithm>],
        ends: &[End],
    ) -> Search<K::Algorithm> {
        let mut known = Known::default();
        if let Some((database, environment)) = &self.kept {
            for outcome in database.measured(environment, self.kernel) {
                match outcome.micro_configuration() {
                    Some(micro) => known.measured.push(micro),
                    None => known.failed.push((outcome.batch, outcome.algorithm)),
                }
            }
            known.trials = database.trials(environment, self.kernel);
            let question = &wanted.question;
            known.ended = [End::Complete].iter().chain(ends).filter_map(|end| end.suffix()).any(|suffix| {
                !known.measured.is_empty()
                    && database.search_ended(environment, self.kernel, &format!("{question}{suffix}"))
            });
        }
        known.measured.extend(measured);
        Search::new(self.kernel.batch(), wanted.goal, wanted.candidates.clone(), known)
    }

    /// Waits until no other process tunes the kernel: then more may be known. `None` if one still does.
    pub fn begin(&self, wait: std::time::Duration) -> Option<Option<TuningLock>> {
        let Some((database, environment)) = &self.kept else { return Some(None) };
        match database.begin_tuning(environment, self.kernel, wait) {
            Tuning::Mine(lock) => Some(Some(lock)),
            Tuning::TimedOut => None,
        }
    }

    /// A candidate was timed, in milliseconds, on the device of this number.
    pub fn timed(&self, candidate: &Candidate<K::Algorithm>, time: f64, ordinal: i32) {
        let Candidate { batch, algorithm, workspace } = *candidate;
        self.found(&[MicroConfiguration { batch, algorithm, time, workspace }], ordinal);
    }

    /// Micro-configurations were timed, on the device of this number.
    pub fn found(&self, found: &[MicroConfiguration<K::Algorithm>], ordinal: i32) {
        let outcomes: Vec<_> = found.iter().map(|micro| Outcome::from(*micro)).collect();
        // Kept first: what was reported is measured never again, wherever this process is killed.
        self.keep(&outcomes);
        for MicroConfiguration { batch, algorithm, time, workspace } in found {
            guest::report::write(|| {
                let event = json!({
                    "event": "timed", "batch": batch, "algorithm": algorithm.to_string(), "workspace": workspace,
                    "time_ms": time, "device": ordinal,
                });
                report::merged(self.kernel, event)
            });
            log::debug!("{}: {batch}[{algorithm}] {time:.3} ms, {workspace} bytes, on device {ordinal}", self.kernel);
        }
    }

    /// A candidate does not run, as often as it is tried.
    pub fn failed(&self, candidate: &Candidate<K::Algorithm>) {
        let Candidate { batch, algorithm, workspace } = *candidate;
        self.keep(&[Outcome { batch, algorithm, workspace, time: None }]);
    }

    fn keep(&self, outcomes: &[Outcome<K::Algorithm>]) {
        if let Some((database, environment)) = &self.kept {
            database.store_measured(environment, self.kernel, outcomes);
        }
    }

    /// A search has stopped: keeps what it ran in place, and that it has ended.
    pub fn ended(&self, wanted: &Wanted<K>, search: &Search<K::Algorithm>, end: End) {
        let Some((database, environment)) = &self.kept else { return };
        for (configuration, time) in search.trials() {
            database.store_trial(environment, self.kernel, configuration, Some(time));
        }
        if let Some(suffix) = end.suffix() {
            database.store_search_ended(environment, self.kernel, &format!("{}{suffix}", wanted.question));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use planner::Room;
    use serde_json::Value;

    use super::*;

    /// A subject with engines of ours, or without.
    #[derive(Clone, PartialEq)]
    struct Toy<const HAS_ENGINES: bool>;

    impl<const HAS_ENGINES: bool> fmt::Display for Toy<HAS_ENGINES> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a toy")
        }
    }

    impl<const HAS_ENGINES: bool> Subject for Toy<HAS_ENGINES> {
        type Algorithm = u8;
        type Class = u8;
        const ENGINES: Option<&str> = if HAS_ENGINES { Some("0123") } else { None };

        fn batch(&self) -> usize {
            1
        }

        fn with_batch(&self, _: usize) -> Self {
            self.clone()
        }

        fn spec(&self) -> String {
            self.to_string()
        }

        fn dims(&self) -> [Vec<i64>; 3] {
            Default::default()
        }

        fn sums_in_reduced_precision(&self) -> bool {
            false
        }

        fn algorithm_text(&self, algorithm: &u8) -> String {
            algorithm.to_string()
        }

        fn algorithm_of(&self, text: &str) -> Option<u8> {
            text.parse().ok()
        }

        fn report(&self) -> Value {
            Value::Null
        }
    }

    /// Another version of our engines makes another question; a search among cuDNN's algorithms alone has none.
    #[test]
    fn a_question_names_the_version_of_our_engines() {
        let (goal, sizes) = (Goal::FastestWithin(Room { limit: 1 << 20, per_image: 0 }), BatchSizePolicy::PowerOfTwo);
        let question = Wanted::<Toy<true>>::of_all(goal, sizes, 7).question;
        assert!(question.ends_with(", 7, engines 0123"), "{question}");
        let question = Wanted::<Toy<false>>::of_all(goal, sizes, 7).question;
        assert!(question.ends_with(", 7"), "{question}");
    }
}
