//! The tuning database: results for networks from earlier processes, and storage for new ones.

use crate::inference::Inference;
use tuning::database::{Database, Environment, Timing, TuningLock};

/// The name of recurrent networks among the database's families of subjects.
pub const FAMILY: &str = "recurrent";
/// The version of our kernels. Times of other versions do not count.
const KERNELS: &str = kernels::recurrent::VERSION;

/// The result of timing a network.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// The implementation that ran it: cuDNN, or a configuration of our kernels.
    pub what: String,
    /// The milliseconds of a time step, over all layers; `None` if it does not run.
    pub time: Option<f64>,
}

/// A step's time is the whole of a timing.
impl From<Timing> for StepTime {
    fn from(Timing { what, time, .. }: Timing) -> Self {
        Self { what, time }
    }
}

impl From<&StepTime> for Timing {
    fn from(StepTime { what, time }: &StepTime) -> Self {
        Self { what: what.clone(), part: String::new(), time: *time, runs: 0 }
    }
}

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

    /// The times of a network, by its text.
    pub fn step_times(&self, network: &str) -> Vec<StepTime> {
        step_times(self.database.timings(&self.environment, FAMILY, KERNELS, network))
    }

    /// Takes the right to explore a network, by its text. `None` if another process explores it now.
    pub fn begin_exploring(&self, network: &str) -> Option<TuningLock> {
        self.database.begin_exploring(&self.environment, network)
    }

    /// The times of inference of all networks.
    pub fn all_step_times(&self) -> Vec<(Inference, Vec<StepTime>)> {
        let all = self.database.all_timings(&self.environment, FAMILY, KERNELS);
        // A text that says nothing to this version is passed over.
        all.into_iter()
            .filter_map(|(text, times)| Some((Inference::from_spec(&text).ok()?, step_times(times))))
            .collect()
    }

    /// Stores the times of a network, by its text.
    pub fn keep(&self, network: &str, step_times: &[StepTime]) {
        let timings: Vec<_> = step_times.iter().map(Timing::from).collect();
        self.database.store_timings(&self.environment, FAMILY, KERNELS, network, &timings);
    }

    /// The performance model's constants.
    pub fn model(&self) -> Option<String> {
        self.database.model(&self.environment, FAMILY, KERNELS)
    }

    /// Stores the performance model's constants.
    pub fn keep_model(&self, constants: &str) {
        self.database.store_model(&self.environment, FAMILY, KERNELS, constants);
    }
}

fn step_times(timings: Vec<Timing>) -> Vec<StepTime> {
    timings.into_iter().map(StepTime::from).collect()
}
