//! What plans of both APIs share: scaling factors, float sums of half filter gradients, the check against the undivided
//! convolution, and failures.

mod check;
mod failure;
mod operands;
mod sums;

pub use check::{Check, tolerance};
pub use failure::Failure;
pub use operands::{Constant, Scaling, scaling_type};
pub use sums::{SummedFilter, Sums};
