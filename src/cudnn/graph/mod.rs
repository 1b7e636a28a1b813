//! cuDNN's graph (backend) API from inside: operation graphs as plain values, and descriptors of our own made from
//! them. Uses `calls` alone.

mod kernel;

pub use kernel::{Convolution, Factor, Kernel, Operation, Pointwise, Tensor};
