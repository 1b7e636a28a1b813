//! hostdnn's arithmetic on the CPU: convolutions by every algorithm that cuDNN names, recurrent networks, and batch
//! normalization. Knows cuDNN's numbers for algorithms, and none of its functions.
//!
//! Tests compile this crate optimised, too. It instantiates its generic code for all types of numbers.
#![warn(missing_docs)]

pub mod convolution;
mod element;
pub mod norm;
pub mod rnn;
pub mod tasks;

pub use element::Element;
