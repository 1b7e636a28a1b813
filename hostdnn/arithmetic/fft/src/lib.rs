//! Plans of Fourier transforms in single precision.
//!
//! `rustfft` is generic, and its code takes half a minute to compile. So only this crate instantiates it.
#![warn(missing_docs)]

use std::cell::RefCell;
use std::sync::Arc;

use realfft::RealFftPlanner;
use rustfft::FftPlanner;

pub use realfft::num_complex::Complex;
pub use realfft::{ComplexToReal, FftNum, RealToComplex};
pub use rustfft::Fft;

/// Plans for real planes of one size.
pub struct Plans<T> {
    /// Transforms a line.
    pub forward_line: Arc<dyn RealToComplex<T>>,
    /// Transforms a line's spectrum back.
    pub inverse_line: Arc<dyn ComplexToReal<T>>,
    /// Transforms columns.
    pub forward_column: Arc<dyn Fft<T>>,
    /// Transforms columns back.
    pub inverse_column: Arc<dyn Fft<T>>,
}

impl Plans<f32> {
    /// Makes plans. Each thread has its planners, which keep what they made.
    pub fn new(height: usize, width: usize) -> Self {
        thread_local! {
            static PLANNERS: RefCell<(RealFftPlanner<f32>, FftPlanner<f32>)> =
                RefCell::new((RealFftPlanner::new(), FftPlanner::new()));
        }
        PLANNERS.with_borrow_mut(|(real, complex)| Self {
            forward_line: real.plan_fft_forward(width),
            inverse_line: real.plan_fft_inverse(width),
            forward_column: complex.plan_fft_forward(height),
            inverse_column: complex.plan_fft_inverse(height),
        })
    }
}
