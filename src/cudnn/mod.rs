//! The real cuDNN from inside: finding and loading it, typed calls, descriptors read back as plain values and new
//! descriptors for micro-batches. Of our own modules it uses only the list of symbols and the settings.

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
