//! Convolutions by GPU kernels of our own, and kernels that copy tensors to other layouts.

pub mod backward_filter;
mod element_kernels;
pub mod implicit_gemm;
mod samples;
#[cfg(test)]
mod tests;
mod tiles;
mod transposes;
pub mod warpgroups;

pub use backward_filter::{BackwardFilter, FilterGradient, GradientMemory, Parts};
pub use implicit_gemm::{Correlation, CorrelationMemory, ImplicitGemm};
pub use samples::{Move, Samples};
pub use transposes::{Destination, Transposes, Transposition};
pub use warpgroups::{FewChannels, SameConvolution, SameGradient, ShiftedConvolution};

use cudnn_abi::*;
use parking_lot::Mutex;

/// The status for an engine whose GPU kernels are unavailable. Logs the reason, once while it stays the same.
pub fn unavailable(why: String) -> cudnnStatus_t {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock();
    if *last != why {
        log::info!("an engine of the library is not used: {why}");
        *last = why;
    }
    CUDNN_STATUS_NOT_SUPPORTED
}
