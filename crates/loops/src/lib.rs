//! Arithmetic on the host, in plain loops and double precision: what our engines for convolutions compute, for
//! hostdnn's device and for tests of the kernels, and the distance between two results.
//!
//! The loops are a crate of their own because they are compiled optimised also where the rest is not. So no public
//! function is generic: a generic one would be compiled with its caller. The tests of `convolution` test them.
#![warn(missing_docs)]

mod compare;
mod convolution;
mod element;

pub use compare::relative_error;
pub use convolution::{Convolution, Tensor, convolve};
