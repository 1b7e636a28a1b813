//! Earlier results for a problem, and storing new ones: in the database, and as a line in the report for each
//! micro-configuration that was timed.

use serde_json::json;

use super::database::{Database, Environment, Outcome, Tuning, TuningLock};
use super::search::{Candidate, Goal, Known, Search};
use super::subject::Subject;
use super::waiting::Budget;
use crate::report;
use gpu::Device;
use planner::{BatchSizePolicy, MicroConfiguration};

/// The goal of a search, and its candidates.
#[derive(Clone)]
pub struct Wanted<K: Subject> {
    pub goal: Goal,
    pub candidates: Vec<Candidate<K::Algorithm>>,
    /// All that the search depends on besides its problem.
    question: String,
}

impl<K: Subject> Wanted<K> {
    /// Looks among these candidates. Limits with no candidate's workspace between them count as one.
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

    /// Looks among candidates that are still to come: the goal does not depend on them.
    pub fn of_all(goal: Goal, sizes: BatchSizePolicy, class: K::Class) -> Self {
        let bytes = goal.limit();
        let question = format!("{goal} of all within {bytes} bytes, sizes {sizes}, {class}{}", engines::<K>());
        Self { goal, candidates: Vec::new(), question }
    }

    /// Replaces the candidates.
    pub fn with_candidates(self, candidates: Vec<Candidate<K::Algorithm>>) -> Self {
        Self { candidates, ..self }
    }
}

/// The end of a question: the version of our engines.
fn engines<K: Subject>() -> String {
    K::ENGINES.map_or_else(String::new, |version| format!(", engines {version}"))
}

/// Why a search stopped.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// There was nothing left to do.
    Complete,
    /// The budget was spent. A search with the same budget would stop there too, so it counts as ended.
    Spent(Budget),
    /// The budget that running programs have for exploring was spent.
    Explored,
    /// The search was stopped, and can continue.
    Stopped,
}

impl End {
    fn suffix(self) -> Option<String> {
        match self {
            Self::Complete => Some(String::new()),
            Self::Spent(Budget { time, executions, .. }) if executions.is_finite() => {
                Some(format!("; as far as {} s and {executions} executions went", time.as_secs_f64()))
            }
            Self::Spent(Budget { time, .. }) => Some(format!("; as far as {} s went", time.as_secs_f64())),
            Self::Explored => Some("; as far as running programs explored".into()),
            Self::Stopped => None,
        }
    }
}

/// A problem's entry in the report and, if there is one, in the database.
pub struct Record<'a, K: Subject> {
    problem: &'a K,
    kept: Option<(&'static Database, Environment)>,
}

impl<'a, K: Subject> Record<'a, K> {
    /// The problem's record on device `ordinal`.
    pub fn of(problem: &'a K, device: Device, ordinal: i32) -> Self {
        let kept = |database| Some((database, Environment::of_device(device, ordinal)?));
        Self { problem, kept: Database::of_process().and_then(kept) }
    }

    /// True if nothing is known about the problem.
    pub fn is_empty(&self) -> bool {
        self.kept.as_ref().is_none_or(|(database, environment)| database.measured(environment, self.problem).is_empty())
    }

    /// Returns the known micro-configurations, whether they run or not. Their workspaces are as the database has them.
    pub fn candidates(&self) -> Vec<Candidate<K::Algorithm>> {
        let Some((database, environment)) = &self.kept else { return Vec::new() };
        let candidate =
            |Outcome { batch, algorithm, workspace, .. }: Outcome<_>| Candidate { batch, algorithm, workspace };
        database.measured(environment, self.problem).into_iter().map(candidate).collect()
    }

    /// Returns a search that continues from the database and from the results that this process has `measured`. It has
    /// nothing to do if an equal search has ended, either with [`End::Complete`] or with one of the `ends`.
    pub fn search(
        &self,
        wanted: &Wanted<K>,
        measured: &[MicroConfiguration<K::Algorithm>],
        ends: &[End],
    ) -> Search<K::Algorithm> {
        let mut known = Known::default();
        if let Some((database, environment)) = &self.kept {
            // Another process may store results meanwhile: micro-configurations, then trials, then the end. Read in the
            // opposite order, an end comes with all that it rests on.
            let question = &wanted.question;
            let has_ended = |suffix| database.search_ended(environment, self.problem, &format!("{question}{suffix}"));
            known.ended = [End::Complete].iter().chain(ends).filter_map(|end| end.suffix()).any(has_ended);
            known.trials = database.trials(environment, self.problem);
            for outcome in database.measured(environment, self.problem) {
                match outcome.micro_configuration() {
                    Some(micro) => known.measured.push(micro),
                    None => known.failed.push((outcome.batch, outcome.algorithm)),
                }
            }
            known.ended &= !known.measured.is_empty();
        }
        known.measured.extend(measured);
        Search::new(self.problem.batch(), wanted.goal, wanted.candidates.clone(), known)
    }

    /// Returns whether an algorithm rounds the problem's floats, if that was found; see [`rounding`](crate::rounding).
    pub fn rounds(&self, algorithm: &K::Algorithm) -> Option<bool> {
        let (database, environment) = self.kept.as_ref()?;
        let was_found = |rounds| database.search_ended(environment, self.problem, &self.rounding(algorithm, rounds));
        [true, false].into_iter().find(|rounds| was_found(*rounds))
    }

    /// Stores whether an algorithm rounds the problem's floats.
    pub fn found_rounding(&self, algorithm: &K::Algorithm, rounds: bool) {
        if let Some((database, environment)) = &self.kept {
            database.store_search_ended(environment, self.problem, &self.rounding(algorithm, rounds));
        }
    }

    /// The text by which the database keeps whether an algorithm rounds: as the question of a search that has ended.
    fn rounding(&self, algorithm: &K::Algorithm, rounds: bool) -> String {
        // Findings of earlier versions, under another text, are of one image.
        let does = if rounds { "rounds all images to TF32" } else { "does not round all images to TF32" };
        format!("{} {does}", self.problem.algorithm_text(algorithm))
    }

    /// Waits until no other process tunes the problem; then more may be known. `None` if one still does.
    pub fn begin(&self, wait: std::time::Duration) -> Option<Option<TuningLock>> {
        let Some((database, environment)) = &self.kept else { return Some(None) };
        match database.begin_tuning(environment, self.problem, wait) {
            Tuning::Mine(lock) => Some(Some(lock)),
            Tuning::TimedOut => None,
        }
    }

    /// Takes the right to explore the problem while the program runs. `None` if another process explores it now.
    pub fn begin_exploring(&self) -> Option<Option<TuningLock>> {
        let Some((database, environment)) = &self.kept else { return Some(None) };
        database.begin_exploring(environment, &self.problem.with_batch(1).spec()).map(Some)
    }

    /// Stores the time of a candidate, in milliseconds, on device `ordinal`.
    pub fn timed(&self, candidate: &Candidate<K::Algorithm>, time: f64, ordinal: i32) {
        let Candidate { batch, algorithm, workspace } = *candidate;
        self.found(&[MicroConfiguration { batch, algorithm, time, workspace }], ordinal);
    }

    /// Stores and reports the times of micro-configurations on device `ordinal`.
    pub fn found(&self, found: &[MicroConfiguration<K::Algorithm>], ordinal: i32) {
        let outcomes: Vec<_> = found.iter().map(|micro| Outcome::from(*micro)).collect();
        // Stored before it is reported: wherever this process is killed, a reported time is never measured again.
        self.keep(&outcomes);
        for MicroConfiguration { batch, algorithm, time, workspace } in found {
            guest::report::write(|| {
                let event = json!({
                    "event": "timed", "batch": batch, "algorithm": algorithm.to_string(), "workspace": workspace,
                    "time_ms": time, "device": ordinal,
                });
                report::merged(self.problem, event)
            });
            log::debug!("{}: {batch}[{algorithm}] {time:.3} ms, {workspace} bytes, on device {ordinal}", self.problem);
        }
    }

    /// Stores that a candidate does not run, however often it is tried.
    pub fn failed(&self, candidate: &Candidate<K::Algorithm>) {
        let Candidate { batch, algorithm, workspace } = *candidate;
        self.keep(&[Outcome { batch, algorithm, workspace, time: None }]);
    }

    fn keep(&self, outcomes: &[Outcome<K::Algorithm>]) {
        if let Some((database, environment)) = &self.kept {
            database.store_measured(environment, self.problem, outcomes);
        }
    }

    /// Stores the end of a search, and the configurations that it ran in place.
    pub fn ended(&self, wanted: &Wanted<K>, search: &Search<K::Algorithm>, end: End) {
        let Some((database, environment)) = &self.kept else { return };
        for (configuration, time) in search.trials() {
            database.store_trial(environment, self.problem, configuration, Some(time));
        }
        if let Some(suffix) = end.suffix() {
            database.store_search_ended(environment, self.problem, &format!("{}{suffix}", wanted.question));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use planner::WorkspaceBudget;
    use serde_json::Value;

    use super::*;

    /// A subject that our engines may run, or none of them.
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
        let (goal, sizes) =
            (Goal::FastestWithin(WorkspaceBudget { limit: 1 << 20, per_image: 0 }), BatchSizePolicy::PowerOfTwo);
        let question = Wanted::<Toy<true>>::of_all(goal, sizes, 7).question;
        assert!(question.ends_with(", 7, engines 0123"), "{question}");
        let question = Wanted::<Toy<false>>::of_all(goal, sizes, 7).question;
        assert!(question.ends_with(", 7"), "{question}");
    }

    /// Another process tunes while this one looks. A search that has ended knows each time that it rests on: with fewer,
    /// this process would choose otherwise than all others.
    #[test]
    fn a_search_that_has_ended_knows_all_times() {
        const ROUNDS: usize = 200;
        const ALGORITHMS: u8 = 3;
        let path = std::env::temp_dir().join(format!("ucudnn-record-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let open = || &*Box::leak(Box::new(Database::open(&path.join("tuning.sqlite"), None).unwrap()));
        let (looks, tunes) = (open(), open());
        let record = |database, round: usize| {
            let environment = Environment {
                device: round.to_string(),
                multiprocessors: 1,
                cudnn: "91900".into(),
                driver: "13000".into(),
            };
            Record { problem: &Toy::<false>, kept: Some((database, environment)) }
        };
        let candidates: Vec<_> =
            (0..ALGORITHMS).map(|algorithm| Candidate { batch: 1, algorithm, workspace: 0 }).collect();
        let wanted = Wanted::among(candidates.clone(), Goal::Fastest { limit: 0 }, BatchSizePolicy::PowerOfTwo, 7);
        let mut found: Vec<Option<Search<u8>>> = vec![None; ROUNDS];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let record = record(tunes, round);
                    let mut search = record.search(&wanted, &[], &[]);
                    for candidate in &candidates {
                        record.timed(candidate, 1.0, 0);
                        search.timed(*candidate, 1.0);
                    }
                    record.ended(&wanted, &search, End::Complete);
                }
            });
            for (round, found) in found.iter_mut().enumerate() {
                let record = record(looks, round);
                while !found.as_ref().is_some_and(Search::has_ended) {
                    assert!(looks.keeps() && tunes.keeps(), "the database was given up");
                    *found = Some(record.search(&wanted, &[], &[]));
                }
            }
        });
        let _ = std::fs::remove_dir_all(&path);
        for (round, found) in found.iter().flatten().enumerate() {
            assert_eq!(found.measured().len(), candidates.len(), "round {round}");
        }
    }
}
