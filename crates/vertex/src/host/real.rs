//! The numbers that the host computes with.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use super::few::Vectors;

/// `f32` or `f64`.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Vectors
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The nearest number.
    fn of(number: f64) -> Self;
    /// The same number in double.
    fn to_f64(self) -> f64;
    /// a b + c, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
    /// exp(x).
    fn exp(self) -> Self;
    /// tanh(x).
    fn tanh(self) -> Self;
    /// 1 / (1 + exp(-x)), by an exponential that does not overflow.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let small = (if self < Self::ZERO { self } else { -self }).exp();
        (if self < Self::ZERO { small } else { Self::ONE }) / (Self::ONE + small)
    }
    /// The logarithm to the base e.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// x to the power of another number.
    fn power(self, exponent: Self) -> Self;
    /// It is no number.
    fn is_no_number(self) -> bool;
    /// The greater of two numbers; not a number if one is none.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other || self.is_no_number() { self } else { other }
    }
    /// The lesser likewise.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self < other || self.is_no_number() { self } else { other }
    }
}

/// What the standard library has for both types.
macro_rules! by_standard_library {
    () => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;

        fn is_no_number(self) -> bool {
            self.is_nan()
        }

        #[inline(always)]
        fn fused(self, b: Self, c: Self) -> Self {
            self.mul_add(b, c)
        }

        fn ln(self) -> Self {
            self.ln()
        }

        #[inline(always)]
        fn sqrt(self) -> Self {
            self.sqrt()
        }

        fn power(self, exponent: Self) -> Self {
            self.powf(exponent)
        }
    };
}

impl Real for f64 {
    by_standard_library!();

    fn of(number: f64) -> Self {
        number
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn tanh(self) -> Self {
        self.tanh()
    }
}

impl Real for f32 {
    by_standard_library!();

    fn of(number: f64) -> Self {
        number as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }

    /// Without branches, so that the compiler makes vectors of it: exp(x) = 2^n exp(r), n the integer nearest to
    /// x / ln 2, and exp(r), |r| <= ln(2) / 2, by its Taylor polynomial of degree 7, whose rest is below 6e-9.
    #[inline(always)]
    fn exp(self) -> Self {
        const LN_2_HIGH: f32 = 0.693_359_4; // few bits, so that its products with n are exact
        const LN_2_LOW: f32 = -2.121_944_4e-4;
        let x = if self > 89.0 { 89.0 } else { self };
        let x = if x < -104.0 { -104.0 } else { x };
        let n = (x * std::f32::consts::LOG2_E).round_ties_even();
        let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
        let p = r.mul_add(1.0 / 5040.0, 1.0 / 720.0);
        let p = r.mul_add(p, 1.0 / 120.0);
        let p = r.mul_add(p, 1.0 / 24.0);
        let p = r.mul_add(p, 1.0 / 6.0);
        let p = r.mul_add(p, 0.5);
        let p = r.mul_add(p, 1.0);
        let p = r.mul_add(p, 1.0);
        // 2^n in two factors, since n may be 128, or so small that the result is subnormal.
        let half = (n as i32) >> 1;
        let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
        p * power(half) * power(n as i32 - half)
    }

    /// tanh(x) = 1 - 2 / (exp(2 |x|) + 1) with x's sign; near 0, where that loses digits, by its Taylor polynomial of
    /// degree 11, whose rest is below 3e-8 of it up to 0.3.
    #[inline(always)]
    fn tanh(self) -> Self {
        let magnitude = self.abs();
        let far = 1.0 - 2.0 / (Real::exp(2.0 * magnitude) + 1.0);
        let square = self * self;
        let p = square.mul_add(-1382.0 / 155_925.0, 62.0 / 2835.0);
        let p = square.mul_add(p, -17.0 / 315.0);
        let p = square.mul_add(p, 2.0 / 15.0);
        let p = square.mul_add(p, -1.0 / 3.0);
        let near = (square * magnitude).mul_add(p, magnitude);
        let result = if magnitude < 0.3 { near } else { far };
        result.copysign(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_within_two_units_in_the_last_place() {
        let mut worst = [0.0_f64; 3];
        for step in -200_000..200_000 {
            let x = step as f32 * 5e-4;
            let exact = f64::from(x);
            let pairs = [
                (f64::from(Real::exp(x)), exact.exp()),
                (f64::from(Real::tanh(x)), exact.tanh()),
                (f64::from(x.sigmoid()), 1.0 / (1.0 + (-exact).exp())),
            ];
            for (worst, (found, exact)) in worst.iter_mut().zip(pairs) {
                let unit = f64::from((exact as f32).abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
                if exact < f64::from(f32::MAX) {
                    *worst = worst.max((found - exact).abs() / unit);
                }
            }
        }
        assert!(worst.iter().all(|worst| *worst <= 2.0), "exp, tanh, sigmoid: {worst:?} units in the last place");
    }

    #[test]
    fn ends_are_right() {
        for x in [f32::INFINITY, 100.0, 89.5] {
            assert_eq!((Real::exp(x), Real::tanh(x), x.sigmoid()), (f32::INFINITY, 1.0, 1.0));
            assert_eq!((Real::tanh(-x), (-x).sigmoid()), (-1.0, Real::exp(-x)));
        }
        assert_eq!(Real::exp(-f32::INFINITY), 0.0);
        assert_eq!((Real::tanh(0.0_f32), Real::tanh(-0.0_f32).to_bits()), (0.0, (-0.0_f32).to_bits()));
        assert!(Real::exp(f32::NAN).is_nan() && Real::tanh(f32::NAN).is_nan() && f32::NAN.sigmoid().is_nan());
        assert!(f32::NAN.greater(1.0).is_nan() && 1.0_f32.greater(f32::NAN).is_nan());
    }
}
