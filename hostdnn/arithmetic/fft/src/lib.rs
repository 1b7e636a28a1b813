//! Plans of Fourier transforms in single and double precision.
//!
//! `rustfft` is generic, and its code for two types takes a minute to compile. So only this crate instantiates it.
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

/// The function for one type. Each thread has its planners, which keep their plans.
macro_rules! plans {
    ($(#[$doc:meta])* $name:ident, $real:ty) => {
        $(#[$doc])*
        pub fn $name(height: usize, width: usize) -> Plans<$real> {
            thread_local! {
                static PLANNERS: RefCell<(RealFftPlanner<$real>, FftPlanner<$real>)> =
                    RefCell::new((RealFftPlanner::new(), FftPlanner::new()));
            }
            PLANNERS.with_borrow_mut(|(real, complex)| Plans {
                forward_line: real.plan_fft_forward(width),
                inverse_line: real.plan_fft_inverse(width),
                forward_column: complex.plan_fft_forward(height),
                inverse_column: complex.plan_fft_inverse(height),
            })
        }
    };
}

plans!(
    /// Plans in single precision.
    single, f32
);
plans!(
    /// Plans in double precision.
    double, f64
);
