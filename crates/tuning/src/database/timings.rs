//! Times of subjects other than convolution problems, such as recurrent networks, and the constants that a performance
//! model has fitted to them.
//!
//! A subject is a text of its family. Each result belongs to one version of the family's GPU kernels, also a text.
//! Results of other versions are ignored.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::results::{add_environment, now};
use super::rows::{self, is_time};
use super::{Database, Environment};

/// A time of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The implementation that ran the subject: cuDNN, or a configuration of the library's GPU kernels.
    pub what: String,
    /// The part of the implementation's time that this is, such as the time of each level. Empty for the whole.
    pub part: String,
    /// Milliseconds; `None` if it does not run.
    pub time: Option<f64>,
    /// The number of runs that gave the time; 0 if the family does not count them.
    pub runs: u32,
}

impl Database {
    /// Returns the stored times of a subject by this version of its family's GPU kernels.
    pub fn timings(&self, environment: &Environment, family: &str, version: &str, subject: &str) -> Vec<Timing> {
        let known = self.find_timings(environment, family, version, Some(subject));
        known.into_iter().map(|(_, timing)| timing).collect()
    }

    /// Returns the stored times of all subjects of a family by this version of its GPU kernels, by the subjects' texts.
    pub fn all_timings(&self, environment: &Environment, family: &str, version: &str) -> Vec<(String, Vec<Timing>)> {
        let mut subjects: BTreeMap<String, Vec<Timing>> = BTreeMap::new();
        for (subject, timing) in self.find_timings(environment, family, version, None) {
            subjects.entry(subject).or_default().push(timing);
        }
        subjects.into_iter().collect()
    }

    fn find_timings(
        &self,
        environment: &Environment,
        family: &str,
        version: &str,
        subject: Option<&str>,
    ) -> Vec<(String, Timing)> {
        let Environment { device, multiprocessors, cudnn, driver } = environment;
        let query = |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT subject, what, part, time_ms, runs FROM timings JOIN environments ON id = environment
                 WHERE device = ?1 AND multiprocessors = ?2 AND cudnn = ?3 AND driver = ?4
                     AND family = ?5 AND version = ?6 AND subject = ifnull(?7, subject)",
            )?;
            let values = params![device, multiprocessors, cudnn, driver, family, version, subject];
            rows::all(&mut statement, values, |row| {
                let time = rows::time(row, 3)?;
                Ok((row.get::<_, String>(0)?, Timing { what: row.get(1)?, part: row.get(2)?, time, runs: row.get(4)? }))
            })
        };
        self.find(query, |(subject, timing)| (subject.clone(), timing.what.clone(), timing.part.clone()))
    }

    /// Stores times of a subject by this version of its family's GPU kernels, and replaces earlier ones. Once it
    /// returns, killing the process loses none of them.
    pub fn store_timings(
        &self,
        environment: &Environment,
        family: &str,
        version: &str,
        subject: &str,
        timings: &[Timing],
    ) {
        self.store_of_environment(environment, |transaction, environment| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO timings (environment, family, version, subject, what, part, time_ms, runs,
                 measured_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for Timing { what, part, time, runs } in timings.iter().filter(|known| known.time.is_none_or(is_time)) {
                statement.execute(params![environment, family, version, subject, what, part, time, runs, now()])?;
            }
            Ok(())
        });
    }

    /// Returns the performance model's constants that [`Self::store_model`] stored for this version of a family's GPU
    /// kernels.
    pub fn model(&self, environment: &Environment, family: &str, version: &str) -> Option<String> {
        let Environment { device, multiprocessors, cudnn, driver } = environment;
        let query = |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT constants FROM models JOIN environments ON id = environment
                 WHERE device = ?1 AND multiprocessors = ?2 AND cudnn = ?3 AND driver = ?4
                     AND family = ?5 AND version = ?6",
            )?;
            let values = params![device, multiprocessors, cudnn, driver, family, version];
            rows::all(&mut statement, values, |row| row.get(0))
        };
        self.find(query, |_: &String| ()).pop()
    }

    /// Stores the performance model's constants, a text.
    pub fn store_model(&self, environment: &Environment, family: &str, version: &str, constants: &str) {
        self.store_of_environment(environment, |transaction, environment| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO models (environment, family, version, constants, fitted_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            statement.execute(params![environment, family, version, constants, now()]).map(drop)
        });
    }

    /// Writes to an environment's rows in one short transaction.
    fn store_of_environment(
        &self,
        environment: &Environment,
        write: impl FnOnce(&Transaction, i64) -> rusqlite::Result<()>,
    ) {
        self.keep(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let id = add_environment(&transaction, environment)?;
            write(&transaction, id)?;
            transaction.commit()
        });
    }
}
