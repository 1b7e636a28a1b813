//! The symbols that the dynamic linker sees: exported functions only, each a few lines. May use every module.

mod boundary;
mod convolution;
mod forward;
mod graph;
mod rnn;
pub mod symbols;
pub mod ucudnn;
