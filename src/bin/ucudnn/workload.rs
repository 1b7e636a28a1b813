//! The kernels that a command works on: a network's, from its CSV file, or a run's, from its report.

use std::path::PathBuf;

use clap::Args;

use crate::Failure;
use crate::network::{self, Shapes};
use crate::report::lines;
use crate::sets::{self, Group};

/// Which kernels, and where their costs are known.
#[derive(Args)]
pub struct Workload {
    /// A network's CSV file, as in examples/networks, or a run's report
    file: PathBuf,
    #[command(flatten)]
    shapes: Shapes,
}

impl Workload {
    /// What each kernel may run.
    pub fn groups(&self) -> Result<Vec<Group>, Failure> {
        let text = network::read(&self.file)?;
        let report = lines::parse(&self.file, &text)?;
        let groups = sets::of_report(&report).map_err(|why| format!("{}: {why}", self.file.display()))?;
        Ok(groups
            .into_iter()
            .filter(|group| self.shapes.layers.is_empty() || self.shapes.layers.contains(&group.layer))
            .collect())
    }
}
