//! hostdnn's arithmetic on the CPU: convolutions by every algorithm that cuDNN names, and recurrent networks. Knows
//! cuDNN's numbers for algorithms, and none of its functions.
//!
//! This crate is compiled optimised in tests too; what is generic over the numbers' types is instantiated here.
#![warn(missing_docs)]

pub mod convolution;
pub mod rnn;
