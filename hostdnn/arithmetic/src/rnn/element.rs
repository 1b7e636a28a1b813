//! Numbers: the stored types, and the computing types.

use super::Clip;
use crate::convolution::element::{Matrix, Real, multiply};
use half::{bf16, f16};

/// A number that RNNs are computed in: `f32` or `f64`.
pub trait Number: Real + PartialOrd {
    /// max(0, x); NaN stays.
    fn relu(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// σ: 1 / (1 + exp(-x)).
    fn logistic(self) -> Self;
    /// Limits a number to the range.
    fn clip(self, clip: &Clip) -> Self;
    /// Returns whether a result of `clip` does not change with its argument. NaN does.
    fn is_clipped(self, clip: &Clip) -> bool;
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

            fn is_clipped(self, clip: &Clip) -> bool {
                self <= clip.least as $type || self >= clip.most as $type
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
pub fn product<N: Number>(out: &mut [N], a: &[N], b: &[N], size: [usize; 3]) {
    let [_, _, k] = size;
    multiply_into(out, N::zero(), (a, k, 1), (b, 1, k), size);
}

/// `out += a·b`, row-major: `out` is m×n, `a` m×k and `b` k×n.
pub fn add_product<N: Number>(out: &mut [N], a: &[N], b: &[N], size: [usize; 3]) {
    let [_, n, k] = size;
    multiply_into(out, N::one(), (a, k, 1), (b, n, 1), size);
}

/// `out += aᵀ·b`, row-major: `out` is m×n, `a` k×m and `b` k×n.
pub fn add_transposed<N: Number>(out: &mut [N], a: &[N], b: &[N], size: [usize; 3]) {
    let [m, n, _] = size;
    multiply_into(out, N::one(), (a, 1, m), (b, n, 1), size);
}

/// `out = keep·out + a·b`; each factor stands beside its distances from row to row and column to column.
fn multiply_into<N: Number>(
    out: &mut [N],
    keep: N,
    (a, a_row, a_column): (&[N], usize, usize),
    (b, b_row, b_column): (&[N], usize, usize),
    [m, n, k]: [usize; 3],
) {
    assert!(out.len() == m * n && a.len() == m * k && b.len() == n * k);
    if m * n * k == 0 {
        return;
    }
    let (a, b) = (Matrix::new(a.as_ptr(), a_row, a_column), Matrix::new(b.as_ptr(), b_row, b_column));
    // SAFETY: the matrices are as long as asserted, and `out` is borrowed by nobody else.
    unsafe { multiply([m, n, k], (Matrix::new(out.as_mut_ptr(), n, 1), keep), N::one(), a, b) };
}
