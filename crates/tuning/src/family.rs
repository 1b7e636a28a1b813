//! Families of subjects that are timed whole, such as recurrent networks, and their times in the database.

use serde_json::{Value, json};

use crate::database::{Database, Environment, Timing, TuningLock};

/// A family of subjects.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    /// The version of its GPU kernels. Times of other versions do not count.
    pub version: &'static str,
}

/// The time of an implementation of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// cuDNN, or the name of our kernels.
    pub what: String,
    /// The milliseconds of one of the family's units of work, such as a time step; `None` if it does not run.
    pub time: Option<f64>,
}

/// Times as JSON, with milliseconds under the name of the unit, such as `step_ms`.
pub fn times_json(times: &[Time], unit: &str) -> Vec<Value> {
    times.iter().map(|Time { what, time }| json!({ "what": what, unit: time })).collect()
}

/// The database's entries of a family on one device.
pub struct Entries {
    database: &'static Database,
    environment: Environment,
    family: Family,
}

impl Family {
    /// The entries of the calling thread's device. `None` without a working database.
    pub fn entries(self) -> Option<Entries> {
        let (database, device) = (Database::of_process()?, cudnn::device());
        Some(Entries { database, environment: Environment::of_device(device, device.ordinal())?, family: self })
    }
}

impl Entries {
    /// The times of a subject, by its text.
    pub fn times(&self, subject: &str) -> Vec<Time> {
        let Family { name, version } = self.family;
        times(self.database.timings(&self.environment, name, version, subject))
    }

    /// The times of all subjects, by their texts.
    pub fn all_times(&self) -> Vec<(String, Vec<Time>)> {
        let Family { name, version } = self.family;
        let all = self.database.all_timings(&self.environment, name, version);
        all.into_iter().map(|(subject, timings)| (subject, times(timings))).collect()
    }

    /// Stores the times of a subject, by its text.
    pub fn keep(&self, subject: &str, times: &[Time]) {
        let Family { name, version } = self.family;
        let timing =
            |Time { what, time }: &Time| Timing { what: what.clone(), part: String::new(), time: *time, runs: 0 };
        let timings: Vec<_> = times.iter().map(timing).collect();
        self.database.store_timings(&self.environment, name, version, subject, &timings);
    }

    /// Takes the right to explore a subject, by its text. `None` if another process explores it now.
    pub fn begin_exploring(&self, subject: &str) -> Option<TuningLock> {
        self.database.begin_exploring(&self.environment, subject)
    }

    /// The performance model's constants.
    pub fn model(&self) -> Option<String> {
        self.database.model(&self.environment, self.family.name, self.family.version)
    }

    /// Stores the performance model's constants.
    pub fn keep_model(&self, constants: &str) {
        self.database.store_model(&self.environment, self.family.name, self.family.version, constants);
    }
}

/// The whole of each timing.
fn times(timings: Vec<Timing>) -> Vec<Time> {
    timings.into_iter().map(|Timing { what, time, .. }| Time { what, time }).collect()
}
