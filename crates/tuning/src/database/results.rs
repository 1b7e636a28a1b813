//! Storing results and finding them again.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::rows::{self, is_time};
use super::{Database, Environment};
use crate::subject::Subject;
use planner::{Configuration, MicroConfiguration};

/// The most rows that a question about one problem reads: more than the largest search stores, and few enough to plan
/// with at once.
const MOST_ROWS: i64 = 1 << 15;

/// The result of measuring a micro-configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome<A> {
    /// The number of images in the micro-batch.
    pub batch: usize,
    /// The algorithm that computed them.
    pub algorithm: A,
    /// The workspace in bytes, sums included.
    pub workspace: usize,
    /// Milliseconds; `None` if it does not run.
    pub time: Option<f64>,
}

impl<A: Copy> Outcome<A> {
    /// Returns the micro-configuration, if it runs.
    pub fn micro_configuration(&self) -> Option<MicroConfiguration<A>> {
        let Self { batch, algorithm, workspace, time } = *self;
        time.map(|time| MicroConfiguration { batch, algorithm, time, workspace })
    }
}

impl<A> From<MicroConfiguration<A>> for Outcome<A> {
    fn from(micro: MicroConfiguration<A>) -> Self {
        let MicroConfiguration { batch, algorithm, time, workspace } = micro;
        Self { batch, algorithm, workspace, time: Some(time) }
    }
}

impl Database {
    /// Returns the stored micro-configurations of a problem, for its own mini-batch and all smaller ones. Ignores
    /// algorithm texts that this version cannot read.
    pub fn measured<K: Subject>(&self, environment: &Environment, kernel: &K) -> Vec<Outcome<K::Algorithm>> {
        let query = |connection: &Connection| {
            let Some(id) = find(connection, environment, kernel)? else { return Ok(Vec::new()) };
            let mut statement = connection.prepare_cached(
                "SELECT batch, algorithm, workspace, time_ms FROM outcomes
                 WHERE kernel = ?1 AND batch <= ?2 AND summed_in_float = (?3 AND batch < ?2) LIMIT ?4",
            )?;
            let values = params![id, kernel.batch() as i64, kernel.sums_in_reduced_precision(), MOST_ROWS];
            let found = rows::all(&mut statement, values, |row| {
                let algorithm = kernel.algorithm_of(row.get_ref(1)?.as_str()?);
                let (batch, workspace, time) = (rows::batch(row, 0)?, row.get(2)?, rows::time(row, 3)?);
                Ok(algorithm.map(|algorithm| Outcome { batch, algorithm, workspace, time }))
            })?;
            Ok(found.into_iter().flatten().collect())
        };
        self.find(query, |outcome| (outcome.batch, outcome.algorithm))
    }

    /// Stores measured micro-configurations of a problem, and replaces earlier results. Once it returns, killing the
    /// process loses none of them.
    pub fn store_measured<K: Subject>(
        &self,
        environment: &Environment,
        kernel: &K,
        outcomes: &[Outcome<K::Algorithm>],
    ) {
        let sound = |outcome: &&Outcome<K::Algorithm>| outcome.time.is_none_or(is_time);
        if !outcomes.iter().any(|outcome| sound(&outcome)) {
            return;
        }
        self.store(environment, kernel, |transaction, id| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO outcomes (kernel, batch, summed_in_float, algorithm, workspace, time_ms,
                 measured_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for Outcome { batch, algorithm, workspace, time } in outcomes.iter().filter(sound) {
                let summed = kernel.sums_in_reduced_precision() && *batch < kernel.batch();
                let (batch, workspace) = (*batch as i64, *workspace as i64);
                let algorithm = kernel.algorithm_text(algorithm);
                statement.execute(params![id, batch, summed, algorithm, workspace, time, now()])?;
            }
            Ok(())
        });
    }

    /// Returns the configurations of the whole mini-batch that were run in place, with the median of their times in
    /// milliseconds; `None` for one that does not run. Their parts have the times of [`Self::measured`].
    pub fn trials<K: Subject>(
        &self,
        environment: &Environment,
        kernel: &K,
    ) -> Vec<(Configuration<K::Algorithm>, Option<f64>)> {
        let query = |connection: &Connection| {
            let Some(id) = find(connection, environment, kernel)? else { return Ok(Vec::new()) };
            let mut statement = connection
                .prepare_cached("SELECT division, time_ms FROM trials WHERE kernel = ?1 AND batch = ?2 LIMIT ?3")?;
            rows::all(&mut statement, params![id, kernel.batch() as i64, MOST_ROWS], |row| {
                Ok((row.get::<_, String>(0)?, rows::time(row, 1)?))
            })
        };
        let stored = self.find(query, |(division, _)| division.clone());
        if stored.is_empty() {
            return Vec::new();
        }
        let measured = self.measured(environment, kernel);
        let measured = measured.iter().map(|outcome| ((outcome.batch, outcome.algorithm), outcome)).collect();
        let trial = |(division, time): (String, _)| Some((division_of(&division, &measured, kernel)?, time));
        stored.into_iter().filter_map(trial).collect()
    }

    /// Stores the result of running a configuration of the whole mini-batch in place. Its parts must be stored already.
    pub fn store_trial<K: Subject>(
        &self,
        environment: &Environment,
        kernel: &K,
        configuration: &Configuration<K::Algorithm>,
        time: Option<f64>,
    ) {
        if !time.is_none_or(is_time) {
            return;
        }
        self.store(environment, kernel, |transaction, id| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO trials (kernel, batch, division, time_ms, measured_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let division = division_text(configuration, kernel);
            statement.execute(params![id, kernel.batch() as i64, division, time, now()]).map(|_| ())
        });
    }

    /// True if a search of this problem has ended, so that another would measure nothing. The question is a text with
    /// everything else that the search depends on: its limit, its class, its sizes, its goal.
    pub fn search_ended<K: Subject>(&self, environment: &Environment, kernel: &K, question: &str) -> bool {
        let query = |connection: &Connection| {
            let Some(id) = find(connection, environment, kernel)? else { return Ok(Vec::new()) };
            let mut statement = connection
                .prepare_cached("SELECT 1 FROM searches WHERE kernel = ?1 AND batch = ?2 AND question = ?3")?;
            let ended = statement.exists(params![id, kernel.batch() as i64, question])?;
            Ok(if ended { vec![()] } else { Vec::new() })
        };
        !self.find(query, |()| ()).is_empty()
    }

    /// Stores the end of a search. Its measurements must be stored already.
    pub fn store_search_ended<K: Subject>(&self, environment: &Environment, kernel: &K, question: &str) {
        self.store(environment, kernel, |transaction, id| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO searches (kernel, batch, question, ended_at) VALUES (?1, ?2, ?3, ?4)",
            )?;
            statement.execute(params![id, kernel.batch() as i64, question, now()]).map(|_| ())
        });
    }

    /// Writes to a problem's rows in one short transaction.
    fn store<K: Subject>(
        &self,
        environment: &Environment,
        kernel: &K,
        write: impl FnOnce(&Transaction, i64) -> rusqlite::Result<()>,
    ) {
        self.keep(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let id = add(&transaction, environment, &spec(kernel))?;
            write(&transaction, id)?;
            transaction.commit()
        });
    }
}

/// The key of a problem: its text over one image.
fn spec<K: Subject>(kernel: &K) -> String {
    kernel.with_batch(1).spec()
}

fn find<K: Subject>(connection: &Connection, environment: &Environment, kernel: &K) -> rusqlite::Result<Option<i64>> {
    find_spec(connection, environment, &spec(kernel))
}

fn find_spec(connection: &Connection, environment: &Environment, spec: &str) -> rusqlite::Result<Option<i64>> {
    let Environment { device, multiprocessors, cudnn, driver } = environment;
    let mut statement = connection.prepare_cached(
        "SELECT kernels.id FROM kernels JOIN environments ON environments.id = kernels.environment
         WHERE device = ?1 AND multiprocessors = ?2 AND cudnn = ?3 AND driver = ?4 AND spec = ?5",
    )?;
    let found = statement.query_row(params![device, multiprocessors, cudnn, driver, spec], |row| row.get(0));
    found.optional()
}

/// Returns the number of an environment, and adds the environment if it has none.
pub(super) fn add_environment(connection: &Connection, environment: &Environment) -> rusqlite::Result<i64> {
    let Environment { device, multiprocessors, cudnn, driver } = environment;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO environments (device, multiprocessors, cudnn, driver)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![device, multiprocessors, cudnn, driver])?;
    connection
        .prepare_cached(
            "SELECT id FROM environments
             WHERE device = ?1 AND multiprocessors = ?2 AND cudnn = ?3 AND driver = ?4",
        )?
        .query_row(params![device, multiprocessors, cudnn, driver], |row| row.get(0))
}

/// Returns the number of a problem (its text over one image) in an environment, and adds the problem if it has none.
pub(super) fn add(connection: &Connection, environment: &Environment, spec: &str) -> rusqlite::Result<i64> {
    if let Some(id) = find_spec(connection, environment, spec)? {
        return Ok(id);
    }
    let environment = add_environment(connection, environment)?;
    connection
        .prepare_cached("INSERT INTO kernels (environment, spec) VALUES (?1, ?2)")?
        .execute(params![environment, spec])?;
    Ok(connection.last_insert_rowid())
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// A configuration as `3x32 1:0:deterministic + 1x4 0:0:deterministic`: for each part its count, the images of its
/// micro-batch, and its algorithm.
fn division_text<K: Subject>(configuration: &Configuration<K::Algorithm>, kernel: &K) -> String {
    let part = |(count, micro): &(usize, MicroConfiguration<K::Algorithm>)| {
        format!("{count}x{} {}", micro.batch, kernel.algorithm_text(&micro.algorithm))
    };
    configuration.parts().iter().map(part).collect::<Vec<_>>().join(AND)
}

/// Separates the parts of a division.
const AND: &str = " + ";

/// Parses the text of a division into the count, images and algorithm of each part.
pub(super) fn division_parts<K: Subject>(text: &str, kernel: &K) -> Option<Vec<(usize, usize, K::Algorithm)>> {
    let part = |text: &str| {
        let (size, algorithm) = text.split_once(' ')?;
        let (count, batch) = size.split_once('x')?;
        Some((count.parse().ok()?, batch.parse().ok()?, kernel.algorithm_of(algorithm)?))
    };
    text.split(AND).map(part).collect()
}

/// Returns the configuration that a text names, with measured parts. `None` if a part is not known, or if the parts are
/// not the whole mini-batch.
fn division_of<K: Subject>(
    text: &str,
    measured: &HashMap<(usize, K::Algorithm), &Outcome<K::Algorithm>>,
    kernel: &K,
) -> Option<Configuration<K::Algorithm>> {
    let micro = |(count, batch, algorithm)| Some((count, measured.get(&(batch, algorithm))?.micro_configuration()?));
    let parts: Option<Vec<_>> = division_parts(text, kernel)?.into_iter().map(micro).collect();
    Some(Configuration::new(parts?)).filter(|configuration| configuration.batch() == kernel.batch())
}
