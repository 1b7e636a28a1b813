//! The real cuDNN seen from inside: finding and loading it, typed calls, its descriptors read back as plain values and
//! made anew, and by which policies a handle's calls are planned.

pub mod arguments;
pub mod calls;
pub mod convolution;
pub mod finalizing;
pub mod graph;
pub mod handle;
pub mod library;
pub mod names;
pub mod owned;
pub mod policies;
pub mod rnn;
pub mod tensor;

pub use convolution::Direction;
pub use library::device;
