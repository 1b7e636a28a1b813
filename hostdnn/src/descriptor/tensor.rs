//! Tensor descriptors.

use super::{DIM_MAX, check_format, element_size, packed_strides};
use crate::error::{Result, require, support};
use cudnn_abi::*;

/// A tensor's type, dimensions and strides. Unset, it has no dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorDescriptor {
    data_type: cudnnDataType_t,
    rank: usize,
    dims: [i32; DIM_MAX],
    strides: [i32; DIM_MAX],
    /// Elements from the first to the last one inclusive, after the last setting whose dimensions were all good.
    extent: u64,
}

impl TensorDescriptor {
    /// Checks a type before any array is read.
    pub fn check_type(data_type: cudnnDataType_t) -> Result {
        require(element_size(data_type).is_some(), "dataType is one that descriptors take")
    }

    /// Checks a format and a type before any array is read.
    pub fn check_format(format: cudnnTensorFormat_t, data_type: cudnnDataType_t) -> Result {
        check_format(format, data_type)
    }

    /// Sets dimensions and strides; those before the first bad one stay set.
    pub fn set_strided(&mut self, data_type: cudnnDataType_t, dims: &[i32], strides: &[i32]) -> Result {
        Self::check_type(data_type)?;
        self.data_type = data_type;
        self.rank = dims.len();
        for (i, (&dim, &stride)) in dims.iter().zip(strides).enumerate() {
            require(dim > 0, "dimensions are positive")?;
            require(stride != 0 || dim == 1, "a stride of 0 goes with a dimension of 1")?;
            (self.dims[i], self.strides[i]) = (dim, stride);
        }
        self.extent = extent(dims, strides);
        support(self.extent <= i32::MAX as u64, "a tensor spans fewer than 2^31 elements")
    }

    /// Sets a packed tensor of four dimensions; a bad dimension changes nothing.
    pub fn set_4d(&mut self, format: cudnnTensorFormat_t, data_type: cudnnDataType_t, dims: [i32; 4]) -> Result {
        check_format(format, data_type)?;
        require(dims.iter().all(|&dim| dim > 0), "dimensions are positive")?;
        self.set_packed(format, data_type, &dims)
    }

    /// Sets a packed tensor; dimensions before the first bad one stay set, with the strides that all dimensions gave.
    pub fn set_packed(&mut self, format: cudnnTensorFormat_t, data_type: cudnnDataType_t, dims: &[i32]) -> Result {
        check_format(format, data_type)?;
        self.set_strided(data_type, dims, &packed_strides(format, dims)[..dims.len()])
    }

    /// The element type.
    pub fn data_type(&self) -> cudnnDataType_t {
        self.data_type
    }

    /// The dimensions that were set.
    pub fn dims(&self) -> &[i32] {
        &self.dims[..self.rank]
    }

    /// The strides that were set.
    pub fn strides(&self) -> &[i32] {
        &self.strides[..self.rank]
    }

    /// The first four dimensions and strides; 0 where there are fewer.
    pub fn first_4d(&self) -> ([i32; 4], [i32; 4]) {
        let four = |a: &[i32; DIM_MAX]| [a[0], a[1], a[2], a[3]];
        (four(&self.dims), four(&self.strides))
    }

    /// Bytes from the first element to the end of the last; 0 if unset.
    pub fn size_in_bytes(&self) -> usize {
        (self.extent as usize).wrapping_mul(element_size(self.data_type).unwrap_or(0))
    }

    /// Returns whether every index has its own element, and no stride is negative. Computation needs this of its
    /// output: in order of stride, each stride exceeds the extent of the dimensions inside it.
    pub fn is_injective(&self) -> bool {
        let mut axes: Vec<(u64, u64)> = self
            .dims()
            .iter()
            .zip(self.strides())
            .filter(|&(&dim, _)| dim > 1)
            .map(|(&dim, &stride)| (u64::try_from(stride).unwrap_or(0), dim as u64))
            .collect();
        axes.sort_unstable();
        let mut inside = 0;
        axes.into_iter().all(|(stride, dim)| {
            let apart = stride > inside;
            inside += stride * (dim - 1);
            apart
        })
    }

    /// Returns whether some stride is negative.
    pub fn is_reversed(&self) -> bool {
        self.strides().iter().any(|&stride| stride < 0)
    }
}

/// Elements from the first to the last one inclusive. Wraps where cuDNN's does (a stride of -2^31).
fn extent(dims: &[i32], strides: &[i32]) -> u64 {
    let span = |(&dim, &stride): (&i32, &i32)| (i64::from(dim) - 1).wrapping_mul(stride.wrapping_abs().into());
    let steps = dims.iter().zip(strides).map(span).fold(0i64, i64::wrapping_add);
    steps.wrapping_add(1) as u64
}
