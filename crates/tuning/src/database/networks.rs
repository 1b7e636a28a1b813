//! Results of recurrent networks: the times of their steps by cuDNN and by our kernels, and the constants that the
//! performance model has fitted to them.
//!
//! Each result belongs to one version of our kernels, a text. Results of other versions are ignored.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::file::knows_networks;
use super::results::{add_environment, is_time, now};
use super::{Database, Environment, SCHEMA};

/// The result of timing a network.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// The implementation that ran it: cuDNN, or a configuration of our kernels.
    pub what: String,
    /// The milliseconds of a time step, over all layers; `None` if it does not run.
    pub time: Option<f64>,
}

impl Database {
    /// Returns the stored times of a network by this version of our kernels.
    pub fn step_times(&self, environment: &Environment, kernels: &str, network: &str) -> Vec<StepTime> {
        let known = self.find_step_times(environment, kernels, Some(network));
        known.into_iter().map(|(_, step_time)| step_time).collect()
    }

    /// What is known of all networks by kernels of this version, by the networks' texts.
    pub fn all_step_times(&self, environment: &Environment, kernels: &str) -> Vec<(String, Vec<StepTime>)> {
        let mut networks: BTreeMap<String, Vec<StepTime>> = BTreeMap::new();
        for (network, step_time) in self.find_step_times(environment, kernels, None) {
            networks.entry(network).or_default().push(step_time);
        }
        networks.into_iter().collect()
    }

    fn find_step_times(
        &self,
        environment: &Environment,
        kernels: &str,
        network: Option<&str>,
    ) -> Vec<(String, StepTime)> {
        let Environment { device, multiprocessors, cudnn, driver } = environment;
        let query = |connection: &Connection| {
            if !knows_networks(connection)? {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare_cached(
                "SELECT network, what, step_ms FROM step_times JOIN environments ON id = environment
                 WHERE schema = ?1 AND device = ?2 AND multiprocessors = ?3 AND cudnn = ?4 AND driver = ?5
                     AND kernels = ?6 AND network = ifnull(?7, network)",
            )?;
            let values = params![SCHEMA, device, multiprocessors, cudnn, driver, kernels, network];
            let rows = statement.query_map(values, |row| {
                let (what, time) = (row.get(1)?, row.get::<_, Option<f64>>(2)?);
                Ok((row.get(0)?, StepTime { what, time: time.filter(|time| is_time(*time)) }))
            })?;
            rows.collect()
        };
        self.find(query, |(a, one), (b, other)| a == b && one.what == other.what)
    }

    /// Stores times of a network by this version of our kernels, and replaces earlier ones. Once it returns, killing
    /// the process loses none of them.
    pub fn store_step_times(&self, environment: &Environment, kernels: &str, network: &str, step_times: &[StepTime]) {
        self.store_of_environment(environment, |transaction, environment| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO step_times (environment, kernels, network, what, step_ms, measured_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for StepTime { what, time } in step_times.iter().filter(|known| known.time.is_none_or(is_time)) {
                statement.execute(params![environment, kernels, network, what, time, now()])?;
            }
            Ok(())
        });
    }

    /// Returns the performance model's constants that [`Self::store_model`] stored for this version of our kernels.
    pub fn model(&self, environment: &Environment, kernels: &str) -> Option<String> {
        let Environment { device, multiprocessors, cudnn, driver } = environment;
        let query = |connection: &Connection| {
            if !knows_networks(connection)? {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare_cached(
                "SELECT constants FROM models JOIN environments ON id = environment
                 WHERE schema = ?1 AND device = ?2 AND multiprocessors = ?3 AND cudnn = ?4 AND driver = ?5
                     AND kernels = ?6",
            )?;
            let values = params![SCHEMA, device, multiprocessors, cudnn, driver, kernels];
            let found = statement.query_row(values, |row| row.get(0)).optional()?;
            Ok(found.into_iter().collect())
        };
        self.find(query, |_: &String, _| true).pop()
    }

    /// Stores the performance model's constants, a text.
    pub fn store_model(&self, environment: &Environment, kernels: &str, constants: &str) {
        self.store_of_environment(environment, |transaction, environment| {
            let mut statement = transaction.prepare_cached(
                "INSERT OR REPLACE INTO models (environment, kernels, constants, fitted_at) VALUES (?1, ?2, ?3, ?4)",
            )?;
            statement.execute(params![environment, kernels, constants, now()]).map(drop)
        });
    }

    /// Writes to an environment's rows in one short transaction.
    fn store_of_environment(
        &self,
        environment: &Environment,
        write: impl FnOnce(&Transaction, i64) -> rusqlite::Result<()>,
    ) {
        self.ask(|connections| {
            let transaction = connections.user.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let id = add_environment(&transaction, SCHEMA, environment)?;
            write(&transaction, id)?;
            transaction.commit()
        });
    }
}
