//! ucudnn: cuDNN's C ABI, for programs that use cuDNN and stay unchanged.
//!
//! `libucudnn.so` is loaded in front of cuDNN, and forwards all unknown functions. Convolutions run in micro-batches, each
//! with its own algorithm, so that fast algorithms fit in a limited workspace (Oyama, Ben-Nun, Hoefler and Matsuoka,
//! "μ-cuDNN: Accelerating Deep Learning Frameworks with Micro-Batching", arXiv 1804.04806), and on engines of our own.
//! Recurrent networks and batch normalization run on our own kernels. Nets of vertex functions over trees and graphs have
//! a C API.
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
mod torch;
pub mod ucudnn;
