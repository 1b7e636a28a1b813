//! The real cuDNN seen from inside: finding and loading it, typed calls, its descriptors read back as
//! plain values and made anew for micro-batches. Uses the list of symbols and nothing else of ours.

pub(crate) mod algorithm;
pub(crate) mod calls;
pub(crate) mod convolution;
pub mod graph;
pub(crate) mod inference;
pub(crate) mod kernel;
pub mod library;
pub(crate) mod owned;
pub(crate) mod rnn;

pub use algorithm::Algorithm;
pub use convolution::Direction;
pub use inference::Inference;
pub use kernel::{Kernel, Tensor};
