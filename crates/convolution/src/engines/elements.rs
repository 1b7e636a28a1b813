//! Elements of the tensors that our kernels multiply on tensor cores: float, half and bfloat16.

use cudnn_abi::*;
use half::{bf16, f16};

use cudnn::tensor::element_size;

/// The element types of our kernels.
pub const TYPES: [cudnnDataType_t; 3] = [CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];

/// The size of an element in bytes; 1 for an unknown type.
pub fn bytes(data_type: cudnnDataType_t) -> usize {
    element_size(data_type).unwrap_or(1)
}

/// The compiler option by which `common/ops.cuh` selects the element type.
pub fn option(data_type: cudnnDataType_t) -> &'static str {
    match data_type {
        CUDNN_DATA_HALF => "-DELEMENT_HALF",
        CUDNN_DATA_BFLOAT16 => "-DELEMENT_BFLOAT16",
        _ => "-DELEMENT_FLOAT",
    }
}

/// An element type on the host.
pub trait Element: Copy {
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;

    /// Sets `self` to `alpha` · `sum` + `beta` · `self`. Does not read `self` if `beta` is 0.
    fn add_scaled(&mut self, sum: f64, alpha: f32, beta: f32) {
        let sum = alpha * sum as f32;
        *self = Self::from_f32(if beta == 0.0 { sum } else { sum + beta * self.to_f32() });
    }
}

impl Element for f32 {
    fn to_f32(self) -> f32 {
        self
    }

    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Element for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Element for bf16 {
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
}
