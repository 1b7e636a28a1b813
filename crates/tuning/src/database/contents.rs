//! Listing and pruning the results in a database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, TransactionBehavior, params};

use super::{Database, Environment, Timing, refusal, rows};

/// The number of results in one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The environment's number in this file, for [`Prune::Environment`] and [`Database::problems`].
    pub id: i64,
    /// The environment that its results are valid for.
    pub environment: Environment,
    /// The number of convolution problems, not counting batch sizes.
    pub problems: usize,
    /// The number of micro-configurations that were measured, whether they run or not.
    pub outcomes: usize,
    /// The number of configurations that were run in place.
    pub trials: usize,
    /// The number of searches that ended.
    pub searches: usize,
    /// The number of other subjects, such as recurrent networks, each counted once per version of its GPU kernels.
    pub subjects: usize,
    /// The number of their times, including those of configurations that do not run.
    pub timings: usize,
    /// When the first and the last result was measured; `None` if there are none.
    pub measured: Option<(SystemTime, SystemTime)>,
}

/// The times of one subject that is not a convolution problem.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedContents {
    /// The subject's family.
    pub family: String,
    /// The subject's text.
    pub subject: String,
    /// The version of the GPU kernels that ran it.
    pub version: String,
    /// Its times, fastest first; entries that do not run come last.
    pub timings: Vec<Timing>,
    /// When the newest of them was measured.
    pub measured: SystemTime,
}

/// The results of one convolution problem.
#[derive(Clone, Debug, PartialEq)]
pub struct ProblemContents {
    /// The problem's text over one image.
    pub spec: String,
    /// The micro-batch sizes that were measured, ascending.
    pub sizes: Vec<usize>,
    /// The number of micro-configurations that were measured, whether they run or not.
    pub outcomes: usize,
    /// The mini-batches with configurations that were run in place or with searches that ended, ascending.
    pub batches: Vec<usize>,
    /// When the newest result was measured; `None` if there are none.
    pub measured: Option<SystemTime>,
}

/// The results to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prune {
    /// An environment with all its results, by its number in [`Contents`].
    Environment(i64),
    /// Results measured before this moment, and the ends of searches that depend on them.
    Before(SystemTime),
}

impl Database {
    /// Lists the user's file, one entry for each environment, the newest first.
    pub fn contents(&self) -> Result<Vec<Contents>, String> {
        self.command(|connection| {
            let mut statement = connection.prepare(
                "WITH moments AS (
                     SELECT environment, measured_at FROM kernels JOIN outcomes ON kernel = id
                     UNION ALL SELECT environment, measured_at FROM timings)
                 SELECT id, device, multiprocessors, cudnn, driver,
                     (SELECT count(*) FROM kernels WHERE environment = environments.id),
                     (SELECT count(*) FROM kernels JOIN outcomes ON kernel = id WHERE environment = environments.id),
                     (SELECT count(*) FROM kernels JOIN trials ON kernel = id WHERE environment = environments.id),
                     (SELECT count(*) FROM kernels JOIN searches ON kernel = id WHERE environment = environments.id),
                     (SELECT count(*) FROM (SELECT DISTINCT family, version, subject FROM timings
                      WHERE environment = environments.id)),
                     (SELECT count(*) FROM timings WHERE environment = environments.id),
                     (SELECT min(measured_at) FROM moments WHERE environment = environments.id),
                     (SELECT max(measured_at) FROM moments WHERE environment = environments.id) AS newest
                 FROM environments ORDER BY newest DESC, id",
            )?;
            rows::all(&mut statement, [], |row| {
                let (first, last): (Option<i64>, Option<i64>) = (row.get(11)?, row.get(12)?);
                Ok(Contents {
                    id: row.get(0)?,
                    environment: Environment {
                        device: row.get(1)?,
                        multiprocessors: row.get(2)?,
                        cudnn: row.get(3)?,
                        driver: row.get(4)?,
                    },
                    problems: row.get(5)?,
                    outcomes: row.get(6)?,
                    trials: row.get(7)?,
                    searches: row.get(8)?,
                    subjects: row.get(9)?,
                    timings: row.get(10)?,
                    measured: first.zip(last).map(|(first, last)| (moment(first), moment(last))),
                })
            })
        })
    }

    /// Lists the problems of one environment in the user's file, in the order in which they were first stored.
    pub fn problems(&self, environment: i64) -> Result<Vec<ProblemContents>, String> {
        self.command(|connection| {
            let mut statement =
                connection.prepare("SELECT id, spec FROM kernels WHERE environment = ?1 ORDER BY id")?;
            let problems = rows::all(&mut statement, [environment], |row| Ok((row.get(0)?, row.get(1)?)))?;
            problems.into_iter().map(|(id, spec)| problem_contents(connection, id, spec)).collect()
        })
    }

    /// Lists the other subjects of one environment in the user's file, one entry a subject and version of GPU kernels.
    pub fn timed(&self, environment: i64) -> Result<Vec<TimedContents>, String> {
        self.command(|connection| {
            let mut statement = connection.prepare(
                "SELECT family, version, subject, what, part, time_ms, runs, measured_at FROM timings
                 WHERE environment = ?1 ORDER BY family, version, subject, time_ms IS NULL, time_ms",
            )?;
            let rows = rows::all(&mut statement, [environment], |row| {
                let subject: (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let (what, part, time, runs) = (row.get(3)?, row.get(4)?, rows::time(row, 5)?, row.get(6)?);
                Ok((subject, Timing { what, part, time, runs }, moment(row.get(7)?)))
            })?;
            let mut listed: Vec<TimedContents> = Vec::new();
            for ((family, version, subject), timing, measured) in rows {
                let same = |last: &&mut TimedContents| {
                    (&last.family, &last.version, &last.subject) == (&family, &version, &subject)
                };
                match listed.last_mut().filter(same) {
                    Some(last) => {
                        last.timings.push(timing);
                        last.measured = last.measured.max(measured);
                    }
                    None => listed.push(TimedContents { family, subject, version, timings: vec![timing], measured }),
                }
            }
            Ok(listed)
        })
    }

    /// Removes results from the user's file. Returns the number of results removed.
    pub fn prune(&self, what: Prune) -> Result<usize, String> {
        let removed = self.command(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let count = |connection: &Connection| {
                let query = "SELECT (SELECT count(*) FROM outcomes) + (SELECT count(*) FROM trials)
                             + (SELECT count(*) FROM searches) + (SELECT count(*) FROM timings)";
                connection.query_row(query, [], |row| row.get::<_, usize>(0))
            };
            let before = count(&transaction)?;
            match what {
                Prune::Environment(id) => {
                    transaction.execute("DELETE FROM environments WHERE id = ?1", [id])?;
                }
                Prune::Before(moment) => {
                    let moment = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
                    // Without its results, such a search would still count as ended, and nothing would be measured.
                    transaction.execute(
                        "DELETE FROM searches WHERE ended_at < ?1
                         OR kernel IN (SELECT kernel FROM outcomes WHERE measured_at < ?1)",
                        [moment],
                    )?;
                    transaction.execute("DELETE FROM trials WHERE measured_at < ?1", [moment])?;
                    transaction.execute("DELETE FROM outcomes WHERE measured_at < ?1", [moment])?;
                    transaction.execute("DELETE FROM timings WHERE measured_at < ?1", [moment])?;
                    transaction.execute("DELETE FROM models WHERE fitted_at < ?1", [moment])?;
                }
            }
            transaction.execute_batch(
                "DELETE FROM kernels WHERE NOT EXISTS (SELECT 1 FROM outcomes WHERE kernel = id)
                     AND NOT EXISTS (SELECT 1 FROM trials WHERE kernel = id)
                     AND NOT EXISTS (SELECT 1 FROM searches WHERE kernel = id);
                 DELETE FROM environments WHERE NOT EXISTS (SELECT 1 FROM kernels WHERE environment = environments.id)
                     AND NOT EXISTS (SELECT 1 FROM timings WHERE environment = environments.id);",
            )?;
            let after = count(&transaction)?;
            transaction.commit()?;
            Ok(before - after)
        })?;
        // Shrinks the file. Fails while others read or write; then later results reuse the space.
        let _ = self.command(|connection| connection.execute_batch("VACUUM"));
        Ok(removed)
    }

    /// Runs `act` for a command of the `ucudnn` tool, which reports the error.
    pub(super) fn command<T>(&self, act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, String> {
        let mut connections = self.connections.lock();
        self.steps.begin_unbounded();
        act(&mut connections.user).map_err(|error| refusal::explain(&self.path, &error))
    }
}

fn problem_contents(connection: &Connection, id: i64, spec: String) -> rusqlite::Result<ProblemContents> {
    let numbers = |query: &str| {
        let mut statement = connection.prepare_cached(query)?;
        rows::all(&mut statement, [id], |row| rows::batch(row, 0))
    };
    let (outcomes, measured): (usize, Option<i64>) = connection
        .prepare_cached("SELECT count(*), max(measured_at) FROM outcomes WHERE kernel = ?1")?
        .query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(ProblemContents {
        spec,
        sizes: numbers("SELECT DISTINCT batch FROM outcomes WHERE kernel = ?1 ORDER BY batch")?,
        outcomes,
        batches: numbers(
            "SELECT batch FROM trials WHERE kernel = ?1 UNION SELECT batch FROM searches WHERE kernel = ?1 ORDER BY batch",
        )?,
        measured: measured.map(moment),
    })
}

fn moment(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.max(0) as u64)
}
