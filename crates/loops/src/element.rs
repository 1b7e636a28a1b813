//! Elements of the tensors that our kernels multiply on tensor cores: float, half and bfloat16.

use half::{bf16, f16};

/// A number of one of these types.
pub trait Number: Copy {
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;

    /// Sets `self` to `alpha` · `sum` + `beta` · `self`. Does not read `self` if `beta` is 0.
    fn add_scaled(&mut self, sum: f64, alpha: f32, beta: f32) {
        let sum = alpha * sum as f32;
        *self = Self::from_f32(if beta == 0.0 { sum } else { sum + beta * self.to_f32() });
    }
}

impl Number for f32 {
    fn to_f32(self) -> f32 {
        self
    }

    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Number for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Number for bf16 {
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
}
