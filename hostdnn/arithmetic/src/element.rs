//! The stored types as double-precision numbers.

use half::{bf16, f16};

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

macro_rules! in_two_bytes {
    ($stored:ty) => {
        impl Element for $stored {
            fn to_f64(self) -> f64 {
                self.to_f32().into()
            }
            fn from_f64(value: f64) -> Self {
                Self::from_f64(value)
            }
        }
    };
}

in_two_bytes!(f16);
in_two_bytes!(bf16);
