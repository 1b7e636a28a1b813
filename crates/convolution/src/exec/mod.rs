//! Running a plan of the legacy API: the micro-batch loop, the float sums of half filter gradients, and the check against
//! the undivided convolution.

mod check;
mod executable;
mod operands;
mod plan;
mod run;
mod sums;

pub use check::{Check, tolerance};
pub use operands::{Constant, scaling_type};
pub use plan::{Plan, divided_workspace};
pub use run::{Failure, adds_to_result, divides, run};
pub use sums::{SummedFilter, Sums};
