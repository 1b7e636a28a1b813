//! ucudnn: cuDNN's C ABI with convolutions run in micro-batches.
//!
//! `libucudnn.so` is loaded in front of cuDNN, forwards all unknown functions, and runs the
//! convolutions of unchanged programs in micro-batches, each with its own algorithm, so that fast
//! algorithms fit in a limited workspace. The method comes from Oyama, Ben-Nun, Hoefler and Matsuoka,
//! "μ-cuDNN: Accelerating Deep Learning Frameworks with Micro-Batching" (arXiv 1804.04806).
//!
//! This crate holds the exported functions only, each a few lines. The work is in `crates/`; docs/architecture.md draws
//! them.
#![warn(missing_docs)]

mod boundary;
mod convolution;
mod forward;
mod graph;
mod load;
mod norm;
mod overrides;
mod rnn;
pub mod ucudnn;
