//! The RNN API as programs call it: its results, against the oracle and against PyTorch, and its refusals.

mod call;
mod computes;
mod pytorch;
mod refuses;
