//! The tuning database: times from earlier processes, and storage for new ones.

use super::subject::Normalization;
use tuning::database::{Database, Environment, Timing};

/// The name of batch normalization among the database's families of subjects.
pub const FAMILY: &str = "norm";
/// The version of our kernels. Times of other versions do not count.
const KERNELS: &str = kernels::norm::VERSION;

/// The database's entries of one device.
pub struct Record {
    database: &'static Database,
    environment: Environment,
}

impl Record {
    /// The entries of the calling thread's device. `None` without a working database.
    pub fn of_device() -> Option<Self> {
        let (database, device) = (Database::of_process()?, cudnn::device());
        Some(Self { database, environment: Environment::of_device(device, device.ordinal())? })
    }

    /// The known times.
    pub fn times(&self, subject: &Normalization) -> Vec<Time> {
        let known = self.database.timings(&self.environment, FAMILY, KERNELS, &subject.spec());
        known.into_iter().map(|Timing { what, time, .. }| Time { what, time }).collect()
    }

    /// Stores times.
    pub fn keep(&self, subject: &Normalization, times: &[Time]) {
        let timing =
            |Time { what, time }: &Time| Timing { what: what.clone(), part: String::new(), time: *time, runs: 0 };
        let timings: Vec<_> = times.iter().map(timing).collect();
        self.database.store_timings(&self.environment, FAMILY, KERNELS, &subject.spec(), &timings);
    }
}

/// The time of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// cuDNN, or the name of our kernels.
    pub what: String,
    /// Milliseconds; `None` if it does not run.
    pub time: Option<f64>,
}
