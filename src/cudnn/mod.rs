//! The real cuDNN seen from inside: finding and loading it, typed calls, its descriptors read back as
//! plain values and made anew for micro-batches. Uses the list of symbols and nothing else of ours.

pub mod algorithm;
pub mod calls;
pub mod convolution;
pub mod kernel;
pub mod library;
pub mod owned;
