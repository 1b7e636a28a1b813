//! The types that our kernels store matrices in.

use std::ffi::c_int;

use cudnn_abi::*;

/// The storage type of inputs, weights and outputs. Sums and products are float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Float,
    Half,
    Bfloat16,
}

impl Element {
    /// The element of a type of cuDNN's. `None` if our kernels have none for it.
    pub fn of(data_type: cudnnDataType_t) -> Option<Self> {
        match data_type {
            CUDNN_DATA_FLOAT => Some(Self::Float),
            CUDNN_DATA_HALF => Some(Self::Half),
            CUDNN_DATA_BFLOAT16 => Some(Self::Bfloat16),
            _ => None,
        }
    }

    /// The type of cuDNN's.
    pub fn cudnn_type(self) -> cudnnDataType_t {
        match self {
            Self::Float => CUDNN_DATA_FLOAT,
            Self::Half => CUDNN_DATA_HALF,
            Self::Bfloat16 => CUDNN_DATA_BFLOAT16,
        }
    }

    /// All types.
    pub const ALL: [Self; 3] = [Self::Float, Self::Half, Self::Bfloat16];

    /// The name of the type in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Half => "half",
            Self::Bfloat16 => "bfloat16",
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_of_three_types() {
        let types = [CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];
        assert_eq!(types.map(Element::of), [Element::Float, Element::Half, Element::Bfloat16].map(Some));
        assert_eq!(Element::of(CUDNN_DATA_DOUBLE), None);
    }
}
