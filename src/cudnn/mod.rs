//! The real cuDNN seen from inside. May use the list of symbols and nothing else of the shim.

pub mod library;
