//! Batch normalization in the tuning database.

use tuning::family::Family;

/// Batch normalization among the database's families of subjects. Its unit of work is a pass.
pub const FAMILY: Family = Family { name: "norm", version: kernels::norm::VERSION };
