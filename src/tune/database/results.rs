//! Storing results and finding them again.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::{Database, Environment, SCHEMA};
use crate::cudnn::{Algorithm, Kernel};
use crate::plan::{Configuration, MicroConfiguration};

/// What came of measuring a micro-configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Images in the micro-batch.
    pub batch: usize,
    /// How they were computed.
    pub algorithm: Algorithm,
    /// Bytes of workspace that it takes, sums included.
    pub workspace: usize,
    /// Milliseconds; `None` if it does not run.
    pub time: Option<f64>,
}

impl Outcome {
    /// The micro-configuration, if it runs.
    pub fn micro_configuration(&self) -> Option<MicroConfiguration<Algorithm>> {
        let Self { batch, algorithm, workspace, time } = *self;
        time.map(|time| MicroConfiguration { batch, algorithm, time, workspace })
    }
}

impl From<MicroConfiguration<Algorithm>> for Outcome {
    fn from(micro: MicroConfiguration<Algorithm>) -> Self {
        let MicroConfiguration { batch, algorithm, time, workspace } = micro;
        Self { batch, algorithm, workspace, time: Some(time) }
    }
}

impl Database {
    /// What is known of a kernel's micro-configurations, of its own mini-batch and all smaller ones.
    pub fn measured(&self, environment: &Environment, kernel: &Kernel) -> Vec<Outcome> {
        let query = |connection: &Connection| {
            let Some(id) = find(connection, environment, kernel)? else { return Ok(Vec::new()) };
            let mut statement = connection.prepare_cached(
                "SELECT batch, algorithm, math_type, deterministic, workspace, time_ms FROM outcomes
                 WHERE kernel = ?1 AND batch <= ?2 AND summed_in_float = (?3 AND batch < ?2)",
            )?;
            let rows = statement
                .query_map(params![id, kernel.batch() as i64, kernel.sums_in_reduced_precision()], |row| {
                    outcome(row, kernel)
                })?;
            rows.collect()
        };
        self.find(query, |a, b| (a.batch, a.algorithm) == (b.batch, b.algorithm))
    }

    /// Keeps what was measured of a kernel's micro-configurations, in place of what was known of them. When it
    /// returns, killing the process loses none of it.
    pub fn store_measured(&self, environment: &Environment, kernel: &Kernel, outcomes: &[Outcome]) {
        let sound = |outcome: &&Outcome| outcome.time.is_none_or(is_time);
        if !outcomes.iter().any(|outcome| sound(&outcome)) {
            return;
        }
        self.store(environment, kernel, |transaction, id| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO outcomes (kernel, batch, summed_in_float, algorithm, math_type, deterministic,
                 workspace, time_ms, measured_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for Outcome { batch, algorithm, workspace, time } in outcomes.iter().filter(sound) {
                let summed = kernel.sums_in_reduced_precision() && *batch < kernel.batch();
                let Algorithm { id: algorithm, math_type, deterministic, .. } = *algorithm;
                statement.execute(params![
                    id,
                    *batch as i64,
                    summed,
                    algorithm,
                    math_type,
                    deterministic,
                    *workspace as i64,
                    time,
                    now(),
                ])?;
            }
            Ok(())
        });
    }

    /// The configurations of the whole mini-batch that were run in place, with the median of their times in
    /// milliseconds; `None` for one that does not run. Their parts are as [`Self::measured`] knows them.
    pub fn trials(&self, environment: &Environment, kernel: &Kernel) -> Vec<(Configuration<Algorithm>, Option<f64>)> {
        let query = |connection: &Connection| {
            let Some(id) = find(connection, environment, kernel)? else { return Ok(Vec::new()) };
            let mut statement =
                connection.prepare_cached("SELECT division, time_ms FROM trials WHERE kernel = ?1 AND batch = ?2")?;
            let rows = statement.query_map(params![id, kernel.batch() as i64], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Option<f64>>(1)?))
            })?;
            rows.collect()
        };
        let stored = self.find(query, |(a, _), (b, _)| a == b);
        if stored.is_empty() {
            return Vec::new();
        }
        let measured = self.measured(environment, kernel);
        let trial = |(division, time): (String, _)| Some((division_of(&division, &measured, kernel)?, time));
        stored.into_iter().filter_map(trial).collect()
    }

    /// Keeps what came of running a configuration of the whole mini-batch in place. Its parts must be stored.
    pub fn store_trial(
        &self,
        environment: &Environment,
        kernel: &Kernel,
        configuration: &Configuration<Algorithm>,
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
            let division = division_text(configuration);
            statement.execute(params![id, kernel.batch() as i64, division, time, now()]).map(|_| ())
        });
    }

    /// Whether a search of this kernel came to its end: another would measure nothing. The question is a text
    /// that names all that the search depends on besides the kernel: its limit, its class, its sizes, its goal.
    pub fn search_ended(&self, environment: &Environment, kernel: &Kernel, question: &str) -> bool {
        let query = |connection: &Connection| {
            let Some(id) = find(connection, environment, kernel)? else { return Ok(Vec::new()) };
            let mut statement = connection
                .prepare_cached("SELECT 1 FROM searches WHERE kernel = ?1 AND batch = ?2 AND question = ?3")?;
            let ended = statement.exists(params![id, kernel.batch() as i64, question])?;
            Ok(if ended { vec![()] } else { Vec::new() })
        };
        !self.find(query, |(), ()| true).is_empty()
    }

    /// Remembers that a search came to its end. What it measured must be stored.
    pub fn store_search_ended(&self, environment: &Environment, kernel: &Kernel, question: &str) {
        self.store(environment, kernel, |transaction, id| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO searches (kernel, batch, question, ended_at) VALUES (?1, ?2, ?3, ?4)",
            )?;
            statement.execute(params![id, kernel.batch() as i64, question, now()]).map(|_| ())
        });
    }

    /// Writes about a kernel in one short transaction.
    fn store(
        &self,
        environment: &Environment,
        kernel: &Kernel,
        write: impl FnOnce(&Transaction, i64) -> rusqlite::Result<()>,
    ) {
        self.ask(|connections| {
            let transaction = connections.user.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let id = add(&transaction, SCHEMA, environment, &spec(kernel))?;
            write(&transaction, id)?;
            transaction.commit()
        });
    }
}

/// How a kernel is kept: over one image.
fn spec(kernel: &Kernel) -> String {
    kernel.with_batch(1).spec()
}

fn find(connection: &Connection, environment: &Environment, kernel: &Kernel) -> rusqlite::Result<Option<i64>> {
    find_spec(connection, SCHEMA, environment, &spec(kernel))
}

fn find_spec(
    connection: &Connection,
    schema: i64,
    environment: &Environment,
    spec: &str,
) -> rusqlite::Result<Option<i64>> {
    let Environment { device, multiprocessors, cudnn, driver } = environment;
    let mut statement = connection.prepare_cached(
        "SELECT kernels.id FROM kernels JOIN environments ON environments.id = kernels.environment
         WHERE schema = ?1 AND device = ?2 AND multiprocessors = ?3 AND cudnn = ?4 AND driver = ?5 AND spec = ?6",
    )?;
    let found = statement.query_row(params![schema, device, multiprocessors, cudnn, driver, spec], |row| row.get(0));
    found.optional()
}

/// The number of a kernel (its text over one image) in an environment, from now on if it has none.
pub(super) fn add(
    connection: &Connection,
    schema: i64,
    environment: &Environment,
    spec: &str,
) -> rusqlite::Result<i64> {
    if let Some(id) = find_spec(connection, schema, environment, spec)? {
        return Ok(id);
    }
    let Environment { device, multiprocessors, cudnn, driver } = environment;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO environments (schema, device, multiprocessors, cudnn, driver)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![schema, device, multiprocessors, cudnn, driver])?;
    connection
        .prepare_cached(
            "INSERT INTO kernels (environment, spec) SELECT id, ?6 FROM environments
             WHERE schema = ?1 AND device = ?2 AND multiprocessors = ?3 AND cudnn = ?4 AND driver = ?5",
        )?
        .execute(params![schema, device, multiprocessors, cudnn, driver, spec])?;
    Ok(connection.last_insert_rowid())
}

fn outcome(row: &Row, kernel: &Kernel) -> rusqlite::Result<Outcome> {
    Ok(Outcome {
        batch: row.get(0)?,
        algorithm: Algorithm {
            direction: kernel.direction,
            id: row.get(1)?,
            math_type: row.get(2)?,
            deterministic: row.get(3)?,
        },
        workspace: row.get(4)?,
        time: row.get(5)?,
    })
}

/// A time in milliseconds, and no infinity or the like.
pub(super) fn is_time(time: f64) -> bool {
    time.is_finite() && time >= 0.0
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// A configuration as `3x32:1:0+1x4:0:0`: how often, the micro-batch's images, the algorithm, the math type.
fn division_text(configuration: &Configuration<Algorithm>) -> String {
    let part = |(count, micro): &(usize, MicroConfiguration<Algorithm>)| {
        format!("{count}x{}:{}:{}", micro.batch, micro.algorithm.id, micro.algorithm.math_type)
    };
    configuration.parts().iter().map(part).collect::<Vec<_>>().join("+")
}

/// The parts of a division's text: how often, images, algorithm, math type.
pub(super) fn division_parts(text: &str) -> Option<Vec<(usize, usize, i32, i32)>> {
    let part = |text: &str| {
        let (count, rest) = text.split_once('x')?;
        let mut numbers = rest.split(':');
        let part = (
            count.parse().ok()?,
            numbers.next()?.parse().ok()?,
            numbers.next()?.parse().ok()?,
            numbers.next()?.parse().ok()?,
        );
        numbers.next().is_none().then_some(part)
    };
    text.split('+').map(part).collect()
}

/// The configuration that a text names, of what was measured. `None` if something of it is not known, or it is
/// not the whole mini-batch.
fn division_of(text: &str, measured: &[Outcome], kernel: &Kernel) -> Option<Configuration<Algorithm>> {
    let micro = |(count, batch, id, math_type)| {
        let mut known = measured.iter();
        let known = known
            .find(|known| (known.batch, known.algorithm.id, known.algorithm.math_type) == (batch, id, math_type))?;
        Some((count, known.micro_configuration()?))
    };
    let parts: Option<Vec<_>> = division_parts(text)?.into_iter().map(micro).collect();
    Some(Configuration::new(parts?)).filter(|configuration| configuration.batch() == kernel.batch())
}
