//! The types that our kernels store matrices in.

use std::ffi::c_int;

/// The storage type of inputs, weights and outputs. Sums and products are float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Float,
    Half,
    Bfloat16,
}

impl Element {
    /// The size in bytes.
    pub fn bytes(self) -> usize {
        if self == Self::Float { 4 } else { 2 }
    }

    /// The option that kernels are compiled with for this type.
    pub fn option(self) -> &'static str {
        match self {
            Self::Float => "-DELEMENT_FLOAT",
            Self::Half => "-DELEMENT_HALF",
            Self::Bfloat16 => "-DELEMENT_BFLOAT16",
        }
    }

    /// The type's number among CUDA's, a `cudaDataType`.
    pub(crate) fn cuda_type(self) -> c_int {
        match self {
            Self::Float => 0,
            Self::Half => 2,
            Self::Bfloat16 => 14,
        }
    }
}
