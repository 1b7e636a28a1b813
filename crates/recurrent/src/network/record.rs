//! Recurrent networks in the tuning database.

use crate::configuration::{Configuration, Problem};
use tuning::family::Family;

/// Recurrent networks among the database's families of subjects. Their unit of work is a time step, over all layers.
pub const FAMILY: Family = Family { name: "recurrent", version: kernels::recurrent::VERSION };

/// Reads names of configurations of a problem; `None` for a name that is none's.
pub fn named(problem: &Problem, names: &[&str]) -> Vec<Option<Configuration>> {
    let space = Configuration::space(problem);
    names.iter().map(|name| name.parse().ok().filter(|read| space.contains(read))).collect()
}
