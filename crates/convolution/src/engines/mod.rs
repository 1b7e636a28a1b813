//! Convolutions by GPU kernels of our own, and kernels that copy tensors to other layouts.

pub mod backward_filter;
mod element_kernels;
pub mod elements;
mod for_each_device;
pub mod implicit_gemm;
mod samples;
mod tiles;
mod transposes;

pub use backward_filter::{BackwardFilter, FilterGradient, GradientMemory, Parts};
pub use implicit_gemm::{Correlation, CorrelationMemory, ImplicitGemm};
pub use samples::Samples;
pub use transposes::{Destination, Transposes, Transposition};
