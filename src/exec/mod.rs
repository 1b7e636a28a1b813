//! Runs plans: the micro-batch loop, float sums of half filter gradients, tensor transposes, our own convolution
//! kernels, the check against the undivided convolution, and the arena that Workspace Division cuts into segments.
//! Depends on `cudnn`, `device` and the configurations of `plan`.

mod arena;
mod backward_filter;
mod check;
mod element_kernels;
mod elements;
#[cfg(test)]
pub mod emulated;
mod for_each_device;
mod implicit_gemm;
mod operands;
mod plan;
mod run;
mod samples;
mod sums;
mod tiles;
mod transposes;

pub use arena::{Arena, segment_bytes};
pub use backward_filter::{BackwardFilter, FilterGradient, GradientMemory, Parts};
pub use check::{Check, tolerance};
pub use implicit_gemm::{Correlation, CorrelationMemory, ImplicitGemm};
pub use operands::{Constant, scaling_type};
pub use plan::{Plan, divided_workspace};
pub use run::{Failure, adds_to_result, divides, run};
pub use samples::Samples;
pub use sums::{SummedFilter, Sums};
pub use transposes::{Destination, Transposes, Transposition};
