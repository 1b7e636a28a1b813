//! Dynamic nets on a GPU: batches of graphs run level by level, on kernels that are made from the vertex functions, after
//! Xu et al., "Cavs: An Efficient Runtime System for Dynamic Neural Networks" (USENIX ATC 2018).
//!
//! [`emit`] makes CUDA C++ from a net's passes, which `vertex` plans. [`DeviceBatch`] holds a batch's arrays on the
//! device. [`Net`] launches: for each level and kind the passes on the path, and for all vertices at once the eager
//! products before the first level and the lazy ones after the last. Or the whole path is one launch each way, whose
//! blocks keep the weights on chip, after Khorasani et al., "In-Register Parameter Caching for Dynamic Neural Nets with
//! Virtual Persistent Processor Specialization" (MICRO 2018).
//!
//! [`c`] is the C API, for nets on the host too.
#![warn(missing_docs)]

mod batched;
pub mod c;
pub mod emit;
mod memory;
mod options;
mod report;
mod version;

pub use batched::{DeviceBatch, Gradients, Inputs, Net, Optimizer, Step, Unsupported, sources};
pub use memory::Bytes;
pub use options::{Executor, Fours, Options, Warpgroups, Without};
pub use version::{version, version_of};
