//! The tuning database: results for networks from earlier processes, and storage for new ones.

use crate::inference::Inference;
use tuning::database::{Database, Environment, StepTime};

/// The version of our kernels. Times of other versions do not count.
const KERNELS: &str = kernels::recurrent::VERSION;

/// The database's entries of one device.
pub struct Record {
    database: &'static Database,
    environment: Environment,
}

impl Record {
    /// The entries of the calling thread's device. `None` without a working database.
    pub fn of_device() -> Option<Self> {
        let (database, device) = (Database::of_process()?, cudnn::device());
        let identity = device.identity(device.ordinal())?;
        let environment = Environment::of(identity.name, identity.multiprocessors, identity.driver)?;
        Some(Self { database, environment })
    }

    /// The times of a network.
    pub fn step_times(&self, network: &Inference) -> Vec<StepTime> {
        self.database.step_times(&self.environment, KERNELS, &network.spec())
    }

    /// The times of all networks.
    pub fn all_step_times(&self) -> Vec<(Inference, Vec<StepTime>)> {
        let all = self.database.all_step_times(&self.environment, KERNELS);
        // A text that says nothing to this version is passed over.
        all.into_iter().filter_map(|(text, times)| Some((Inference::from_spec(&text).ok()?, times))).collect()
    }

    /// Stores the times of a network.
    pub fn keep(&self, network: &Inference, step_times: &[StepTime]) {
        self.database.store_step_times(&self.environment, KERNELS, &network.spec(), step_times);
    }

    /// The performance model's constants.
    pub fn model(&self) -> Option<String> {
        self.database.model(&self.environment, KERNELS)
    }

    /// Stores the performance model's constants.
    pub fn keep_model(&self, constants: &str) {
        self.database.store_model(&self.environment, KERNELS, constants);
    }
}
