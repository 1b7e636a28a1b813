//! Recurrent networks in the tuning database.

use tuning::family::Family;

/// Recurrent networks among the database's families of subjects. Their unit of work is a time step, over all layers.
pub const FAMILY: Family = Family { name: "recurrent", version: kernels::recurrent::VERSION };
