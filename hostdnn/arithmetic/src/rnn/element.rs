//! Numbers: the stored types, and the computing types.

use super::Clip;
use crate::convolution::element::{Matrix, Real, multiply};
use half::{bf16, f16};

/// A number that RNNs are computed in: `f32` or `f64`.
pub trait Number: Real {
    /// max(0, x); NaN stays.
    fn relu(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// σ: 1 / (1 + exp(-x)).
    fn logistic(self) -> Self;
    /// Limits a number to the range.
    fn clip(self, clip: &Clip) -> Self;
}

macro_rules! number {
    ($type:ident) => {
        impl Number for $type {
            fn relu(self) -> Self {
                if self < 0.0 { 0.0 } else { self }
            }

            fn tanh(self) -> Self {
                <$type>::tanh(self)
            }

            fn logistic(self) -> Self {
                1.0 / (1.0 + (-self).exp())
            }

            fn clip(self, clip: &Clip) -> Self {
                if self.is_nan() && clip.keep_nan {
                    self
                } else {
                    self.max(clip.least as $type).min(clip.most as $type)
                }
            }
        }
    };
}
number!(f32);
number!(f64);

/// A number in the program's memory. Any bytes are a valid number.
pub trait Stored: Copy {
    /// The computing type.
    type Number: Number;
    /// Converts to the computing type.
    fn load(self) -> Self::Number;
    /// Rounds to the nearest stored number.
    fn store(value: Self::Number) -> Self;
}

macro_rules! stored {
    ($type:ty, $number:ty, $load:expr, $store:expr) => {
        impl Stored for $type {
            type Number = $number;

            fn load(self) -> $number {
                $load(self)
            }

            fn store(value: $number) -> Self {
                $store(value)
            }
        }
    };
}
stored!(f64, f64, |value| value, |value| value);
stored!(f32, f32, |value| value, |value| value);
stored!(f16, f32, f16::to_f32, f16::from_f32);
stored!(bf16, f32, bf16::to_f32, bf16::from_f32);

/// `out = a·bᵀ`, row-major: `out` is m×n, `a` m×k and `b` n×k.
pub fn product<N: Number>(out: &mut [N], a: &[N], b: &[N], [m, n, k]: [usize; 3]) {
    assert!(out.len() == m * n && a.len() == m * k && b.len() == n * k);
    if m == 0 {
        return;
    }
    let (rows, columns) = (Matrix::new(a.as_ptr(), k, 1), Matrix::new(b.as_ptr(), k, 1).transposed());
    // SAFETY: the matrices are as long as asserted, and `out` is borrowed by nobody else.
    unsafe { multiply([m, n, k], (Matrix::new(out.as_mut_ptr(), n, 1), N::zero()), N::one(), rows, columns) };
}
