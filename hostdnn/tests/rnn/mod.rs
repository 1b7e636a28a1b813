//! The RNN API as programs call it: results and gradients, against the oracle and against PyTorch, and refusals.

mod call;
mod computes;
mod gradients;
mod pytorch;
mod refuses;

pub use call::{made, sound};
