//! The tuning database: results for networks from earlier processes, and storage for new ones.

use crate::cudnn::Inference;
use crate::device::Device;
use crate::tune::database::{Database, Environment, StepTime};

/// The version of our kernels. Times of other versions do not count.
const KERNELS: &str = env!("UCUDNN_KERNELS");

/// The database's entries of one device.
pub struct Record {
    database: &'static Database,
    environment: Environment,
}

impl Record {
    /// The entries of the calling thread's device. `None` without a working database.
    pub fn of_device() -> Option<Self> {
        let (database, device) = (Database::of_process()?, Device::current());
        let identity = device.identity(device.ordinal())?;
        let environment = Environment::of(identity.name, identity.multiprocessors, identity.driver)?;
        Some(Self { database, environment })
    }

    /// The times of a network.
    pub fn step_times(&self, network: &Inference) -> Vec<StepTime> {
        self.database.step_times(&self.environment, KERNELS, network)
    }

    /// The times of all networks.
    pub fn all_step_times(&self) -> Vec<(Inference, Vec<StepTime>)> {
        self.database.all_step_times(&self.environment, KERNELS)
    }

    /// Stores the times of a network.
    pub fn keep(&self, network: &Inference, step_times: &[StepTime]) {
        self.database.store_step_times(&self.environment, KERNELS, network, step_times);
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
