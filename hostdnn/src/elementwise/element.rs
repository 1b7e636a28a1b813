//! The types that tensors hold here.

use half::f16;

/// A stored number.
pub trait Element: Copy + Send + Sync + 'static {
    /// Exact.
    fn to_f64(self) -> f64;
    /// Rounds once, to nearest even.
    fn from_f64(value: f64) -> Self;
}

impl Element for f32 {
    fn to_f64(self) -> f64 {
        self.into()
    }
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Element for f64 {
    fn to_f64(self) -> f64 {
        self
    }
    fn from_f64(value: f64) -> Self {
        value
    }
}

impl Element for f16 {
    fn to_f64(self) -> f64 {
        self.to_f32().into()
    }
    fn from_f64(value: f64) -> Self {
        f16::from_f64(value)
    }
}
