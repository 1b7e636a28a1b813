//! The RNN API as programs call it: its results, against the oracle and against PyTorch, and its refusals.

#[path = "../built/mod.rs"]
mod built;
mod call;
mod computes;
mod pytorch;
mod refuses;
