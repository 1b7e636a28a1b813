//! Filter descriptors.

use super::{DIM_MAX, check_format, element_size, packed_strides};
use crate::error::{Result, require};
use cudnn_abi::*;

/// A filter's type, layout and dimensions: k, c (within a group), then d, h, w. Always packed. Unset, it has no dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterDescriptor {
    data_type: cudnnDataType_t,
    format: cudnnTensorFormat_t,
    rank: usize,
    dims: [i32; DIM_MAX],
}

impl FilterDescriptor {
    /// Checks the enumerators before any array is read. Their combination is checked after the rank, as in cuDNN.
    pub fn check_enumerators(format: cudnnTensorFormat_t, data_type: cudnnDataType_t) -> Result {
        let formats = CUDNN_TENSOR_NCHW..=CUDNN_TENSOR_NCHW_VECT_C;
        require(formats.contains(&format), "format is a cudnnTensorFormat_t")?;
        let taken = data_type != CUDNN_DATA_INT32 && element_size(data_type).is_some();
        require(taken, "dataType is one that filters take")
    }

    /// Sets all; the dimensions before the first bad one stay set.
    pub fn set(&mut self, data_type: cudnnDataType_t, format: cudnnTensorFormat_t, dims: &[i32]) -> Result {
        Self::check_enumerators(format, data_type)?;
        check_format(format, data_type)?;
        (self.data_type, self.format, self.rank) = (data_type, format, dims.len());
        for (i, &dim) in dims.iter().enumerate() {
            require(dim > 0, "dimensions are positive")?;
            self.dims[i] = dim;
        }
        Ok(())
    }

    /// The element type.
    pub fn data_type(&self) -> cudnnDataType_t {
        self.data_type
    }

    /// The layout.
    pub fn format(&self) -> cudnnTensorFormat_t {
        self.format
    }

    /// The dimensions that were set.
    pub fn dims(&self) -> &[i32] {
        &self.dims[..self.rank]
    }

    /// All dimensions, 0 where none is set.
    pub fn all_dims(&self) -> &[i32; DIM_MAX] {
        &self.dims
    }

    /// Strides of the packed filter.
    pub fn strides(&self) -> [i32; DIM_MAX] {
        packed_strides(self.format, self.dims())
    }

    /// Bytes of the packed filter; 0 if unset.
    pub fn size_in_bytes(&self) -> usize {
        if self.rank == 0 {
            return 0;
        }
        self.dims().iter().fold(element_size(self.data_type).unwrap_or(0), |size, &dim| size.wrapping_mul(dim as usize))
    }
}
