//! Dynamic nets on a GPU: batches of graphs run level by level, on kernels that are made from the vertex functions, after
//! Xu et al., "Cavs: An Efficient Runtime System for Dynamic Neural Networks" (USENIX ATC 2018).
//!
//! [`emit`] makes CUDA C++ from a net's passes, which `vertex` plans. [`DeviceBatch`] holds a batch's arrays on the
//! device. [`Net`] launches: for each level and kind the passes on the path, and for all vertices at once the eager
//! products before the first level and the lazy ones behind the last.
#![warn(missing_docs)]

mod batched;
pub mod emit;
mod memory;
mod report;

pub use batched::{DeviceBatch, Gradients, Inputs, Net, Options, Unsupported, Without, sources};
pub use memory::Bytes;
