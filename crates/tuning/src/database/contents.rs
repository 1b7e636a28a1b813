//! What is in a database: listing it, and removing from it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, TransactionBehavior, params};

use super::{Database, Environment, SCHEMA, StepTime, file};

/// What is known in one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The environment's number in this file, for [`Prune::Environment`] and [`Database::kernels`].
    pub id: i64,
    /// What its results are valid for.
    pub environment: Environment,
    /// The schema that they were stored under: none but [`SCHEMA`]'s are used.
    pub schema: i64,
    /// Kernels, whatever their batch sizes.
    pub kernels: usize,
    /// Micro-configurations that were measured, whether they run or not.
    pub outcomes: usize,
    /// Configurations that were run in place.
    pub trials: usize,
    /// Searches that came to their end.
    pub searches: usize,
    /// Recurrent networks, each on batches of one shape.
    pub networks: usize,
    /// What was timed of them, whether it runs or not.
    pub step_times: usize,
    /// When the first and the last of the results was measured; `None` if there are none.
    pub measured: Option<(SystemTime, SystemTime)>,
}

/// What is known of one recurrent network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkContents {
    /// The network's text; [`Inference::from_spec`](recurrent::inference::Inference::from_spec) reads it.
    pub spec: String,
    /// The version of our kernels that it was run by.
    pub kernels: String,
    /// What was timed, the fastest first, and last what does not run.
    pub step_times: Vec<StepTime>,
    /// When the last of it was.
    pub measured: SystemTime,
}

/// What is known of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelContents {
    /// The kernel's text over one image; [`AnyKernel::from_spec`](convolution::problem::any::AnyKernel::from_spec) reads it.
    pub spec: String,
    /// The micro-batch sizes that were measured, ascending.
    pub sizes: Vec<usize>,
    /// Micro-configurations that were measured, whether they run or not.
    pub outcomes: usize,
    /// The mini-batches of which configurations were run in place or searches came to their end, ascending.
    pub batches: Vec<usize>,
    /// When the last of the results was measured; `None` if there are none.
    pub measured: Option<SystemTime>,
}

/// What to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prune {
    /// An environment with all that is known in it, by its number in [`Contents`].
    Environment(i64),
    /// What was measured before this moment, and the ends of searches that rest on it.
    Before(SystemTime),
    /// Everything that was stored under another schema than [`SCHEMA`].
    OtherSchemas,
}

impl Database {
    /// What the user's file holds, an entry an environment, this version's schema and the newest first.
    pub fn contents(&self) -> Result<Vec<Contents>, String> {
        self.command(|connection| {
            let mut statement = connection.prepare(
                "WITH moments AS (
                     SELECT environment, measured_at FROM kernels JOIN outcomes ON kernel = id
                     UNION ALL SELECT environment, measured_at FROM step_times)
                 SELECT id, schema, device, multiprocessors, cudnn, driver,
                     (SELECT count(*) FROM kernels WHERE environment = environments.id),
                     (SELECT count(*) FROM kernels JOIN outcomes ON kernel = id WHERE environment = environments.id),
                     (SELECT count(*) FROM kernels JOIN trials ON kernel = id WHERE environment = environments.id),
                     (SELECT count(*) FROM kernels JOIN searches ON kernel = id WHERE environment = environments.id),
                     (SELECT count(*) FROM (SELECT DISTINCT kernels, network FROM step_times
                      WHERE environment = environments.id)),
                     (SELECT count(*) FROM step_times WHERE environment = environments.id),
                     (SELECT min(measured_at) FROM moments WHERE environment = environments.id),
                     (SELECT max(measured_at) FROM moments WHERE environment = environments.id) AS newest
                 FROM environments ORDER BY schema <> ?1, newest DESC, id",
            )?;
            let rows = statement.query_map([SCHEMA], |row| {
                let (first, last): (Option<i64>, Option<i64>) = (row.get(12)?, row.get(13)?);
                Ok(Contents {
                    id: row.get(0)?,
                    schema: row.get(1)?,
                    environment: Environment {
                        device: row.get(2)?,
                        multiprocessors: row.get(3)?,
                        cudnn: row.get(4)?,
                        driver: row.get(5)?,
                    },
                    kernels: row.get(6)?,
                    outcomes: row.get(7)?,
                    trials: row.get(8)?,
                    searches: row.get(9)?,
                    networks: row.get(10)?,
                    step_times: row.get(11)?,
                    measured: first.zip(last).map(|(first, last)| (moment(first), moment(last))),
                })
            })?;
            rows.collect()
        })
    }

    /// What the user's file holds in one environment, an entry a kernel, in the order in which they were met.
    pub fn kernels(&self, environment: i64) -> Result<Vec<KernelContents>, String> {
        self.command(|connection| {
            let mut statement =
                connection.prepare("SELECT id, spec FROM kernels WHERE environment = ?1 ORDER BY id")?;
            let kernels = statement.query_map([environment], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let kernels: Vec<(i64, String)> = kernels.collect::<Result<_, _>>()?;
            kernels.into_iter().map(|(id, spec)| kernel_contents(connection, id, spec)).collect()
        })
    }

    /// What the user's file holds of recurrent networks in one environment, an entry a network and version of our kernels.
    pub fn networks(&self, environment: i64) -> Result<Vec<NetworkContents>, String> {
        self.command(|connection| {
            let mut statement = connection.prepare(
                "SELECT network, kernels, what, step_ms, measured_at FROM step_times WHERE environment = ?1
                 ORDER BY kernels, network, step_ms IS NULL, step_ms",
            )?;
            let mut rows = statement.query([environment])?;
            let mut networks: Vec<NetworkContents> = Vec::new();
            while let Some(row) = rows.next()? {
                let (spec, kernels): (String, String) = (row.get(0)?, row.get(1)?);
                let (step_time, measured) = (StepTime { what: row.get(2)?, time: row.get(3)? }, moment(row.get(4)?));
                match networks.last_mut().filter(|last| (&last.spec, &last.kernels) == (&spec, &kernels)) {
                    Some(last) => {
                        last.step_times.push(step_time);
                        last.measured = last.measured.max(measured);
                    }
                    None => networks.push(NetworkContents { spec, kernels, step_times: vec![step_time], measured }),
                }
            }
            Ok(networks)
        })
    }

    /// Removes something from the user's file; how many results went.
    pub fn prune(&self, what: Prune) -> Result<usize, String> {
        let removed = self.command(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let count = |connection: &Connection| {
                let query = "SELECT (SELECT count(*) FROM outcomes) + (SELECT count(*) FROM trials)
                             + (SELECT count(*) FROM searches) + (SELECT count(*) FROM step_times)";
                connection.query_row(query, [], |row| row.get::<_, usize>(0))
            };
            let before = count(&transaction)?;
            match what {
                Prune::Environment(id) => {
                    transaction.execute("DELETE FROM environments WHERE id = ?1", [id])?;
                }
                Prune::OtherSchemas => {
                    transaction.execute("DELETE FROM environments WHERE schema <> ?1", [SCHEMA])?;
                }
                Prune::Before(moment) => {
                    let moment = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
                    // A search that rests on what is removed would be taken for ended, with nothing known.
                    transaction.execute(
                        "DELETE FROM searches WHERE ended_at < ?1
                         OR kernel IN (SELECT kernel FROM outcomes WHERE measured_at < ?1)",
                        [moment],
                    )?;
                    transaction.execute("DELETE FROM trials WHERE measured_at < ?1", [moment])?;
                    transaction.execute("DELETE FROM outcomes WHERE measured_at < ?1", [moment])?;
                    transaction.execute("DELETE FROM step_times WHERE measured_at < ?1", [moment])?;
                    transaction.execute("DELETE FROM models WHERE fitted_at < ?1", [moment])?;
                }
            }
            transaction.execute_batch(
                "DELETE FROM kernels WHERE NOT EXISTS (SELECT 1 FROM outcomes WHERE kernel = id)
                     AND NOT EXISTS (SELECT 1 FROM trials WHERE kernel = id)
                     AND NOT EXISTS (SELECT 1 FROM searches WHERE kernel = id);
                 DELETE FROM environments WHERE NOT EXISTS (SELECT 1 FROM kernels WHERE environment = environments.id)
                     AND NOT EXISTS (SELECT 1 FROM step_times WHERE environment = environments.id);",
            )?;
            let after = count(&transaction)?;
            transaction.commit()?;
            Ok(before - after)
        })?;
        // Gives the space back. Not while others read or write: then the file keeps it for what comes.
        let _ = self.command(|connection| connection.execute_batch("VACUUM"));
        Ok(removed)
    }

    /// Asks something for a command, which wants to know what fails.
    pub(super) fn command<T>(&self, act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, String> {
        act(&mut self.connections.lock().user).map_err(|error| file::explain(&self.path, &error))
    }
}

fn kernel_contents(connection: &Connection, id: i64, spec: String) -> rusqlite::Result<KernelContents> {
    let numbers = |query: &str| {
        let mut statement = connection.prepare_cached(query)?;
        let rows = statement.query_map([id], |row| row.get(0))?;
        rows.collect::<rusqlite::Result<Vec<usize>>>()
    };
    let (outcomes, measured): (usize, Option<i64>) = connection
        .prepare_cached("SELECT count(*), max(measured_at) FROM outcomes WHERE kernel = ?1")?
        .query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(KernelContents {
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
