//! The RNN API as programs call it: what it computes, against the oracle and against PyTorch, and what it refuses.

#[path = "../built/mod.rs"]
mod built;
mod call;
mod computes;
mod pytorch;
mod refuses;
