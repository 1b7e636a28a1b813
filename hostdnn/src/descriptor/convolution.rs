//! Convolution descriptors, and the output dimensions that follow from them.

use super::{FilterDescriptor, TensorDescriptor};
use crate::error::{Result, require};
use cudnn_abi::*;

/// The most spatial dimensions of a convolution descriptor.
pub const SPATIAL_MAX: usize = 6;

/// A convolution's padding, strides and dilation in each spatial dimension, mode, types and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionDescriptor {
    rank: usize,
    /// Zeros before and behind.
    pub pad: [i32; SPATIAL_MAX],
    /// Step between outputs.
    pub stride: [i32; SPATIAL_MAX],
    /// Step between filter positions.
    pub dilation: [i32; SPATIAL_MAX],
    /// Convolution or cross-correlation.
    pub mode: cudnnConvolutionMode_t,
    /// The type that sums are kept in.
    pub compute_type: cudnnDataType_t,
    math_type: cudnnMathType_t,
    reorder_type: cudnnReorderType_t,
    groups: i32,
}

impl Default for ConvolutionDescriptor {
    fn default() -> Self {
        Self {
            rank: 0,
            pad: [0; SPATIAL_MAX],
            stride: [0; SPATIAL_MAX],
            dilation: [0; SPATIAL_MAX],
            mode: CUDNN_CONVOLUTION,
            compute_type: CUDNN_DATA_FLOAT,
            math_type: CUDNN_DEFAULT_MATH,
            reorder_type: CUDNN_DEFAULT_REORDER,
            groups: 1,
        }
    }
}

impl ConvolutionDescriptor {
    /// Checks mode and type before any array is read.
    pub fn check_mode(mode: cudnnConvolutionMode_t, compute_type: cudnnDataType_t) -> Result {
        require(matches!(mode, CUDNN_CONVOLUTION | CUDNN_CROSS_CORRELATION), "mode is a cudnnConvolutionMode_t")?;
        require(
            matches!(compute_type, CUDNN_DATA_FLOAT | CUDNN_DATA_DOUBLE | CUDNN_DATA_HALF | CUDNN_DATA_INT32),
            "computeType is one that convolutions take",
        )
    }

    /// Sets the geometry and keeps all other settings. Values up to and including the first bad one stay set.
    pub fn set(
        &mut self,
        pad: &[i32],
        stride: &[i32],
        dilation: &[i32],
        mode: cudnnConvolutionMode_t,
        compute_type: cudnnDataType_t,
    ) -> Result {
        Self::check_mode(mode, compute_type)?;
        (self.rank, self.mode, self.compute_type) = (pad.len(), mode, compute_type);
        for i in 0..self.rank {
            self.pad[i] = pad[i];
            require(pad[i] >= 0, "padding is not negative")?;
            self.stride[i] = stride[i];
            require(stride[i] > 0, "strides are positive")?;
            self.dilation[i] = dilation[i];
            require(dilation[i] > 0, "dilations are positive")?;
        }
        Ok(())
    }

    /// Spatial dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The requested math type.
    pub fn math_type(&self) -> cudnnMathType_t {
        self.math_type
    }

    /// Sets the math type.
    pub fn set_math_type(&mut self, math_type: cudnnMathType_t) -> Result {
        require((CUDNN_DEFAULT_MATH..=CUDNN_FMA_MATH).contains(&math_type), "mathType is a cudnnMathType_t")?;
        self.math_type = math_type;
        Ok(())
    }

    /// Groups.
    pub fn groups(&self) -> i32 {
        self.groups
    }

    /// Sets the groups.
    pub fn set_groups(&mut self, groups: i32) -> Result {
        require(groups > 0, "groupCount is positive")?;
        self.groups = groups;
        Ok(())
    }

    /// The reorder type.
    pub fn reorder_type(&self) -> cudnnReorderType_t {
        self.reorder_type
    }

    /// Sets the reorder type.
    pub fn set_reorder_type(&mut self, reorder_type: cudnnReorderType_t) -> Result {
        require(
            matches!(reorder_type, CUDNN_DEFAULT_REORDER | CUDNN_NO_REORDER),
            "reorderType is a cudnnReorderType_t",
        )?;
        self.reorder_type = reorder_type;
        Ok(())
    }

    /// Checks that `x`, `w` and this convolution match: equal ranks, and channels that the groups divide.
    pub fn check_shapes(&self, x: &TensorDescriptor, w: &FilterDescriptor) -> Result {
        require(x.dims().len() >= 3 && !x.dims().contains(&0), "the input is set, with 3 dimensions or more")?;
        require(x.dims().len() == w.dims().len(), "input and filter have as many dimensions")?;
        require(x.dims().len() == self.rank + 2, "the convolution has as many spatial dimensions")?;
        require(
            i64::from(x.dims()[1]) == i64::from(w.dims()[1]) * i64::from(self.groups),
            "input channels are filter channels times groups",
        )
    }

    /// The output's extent in spatial dimension `i`: `1 + (x + 2·pad - (dilation·(w - 1) + 1)) / stride`, in 32 bits as
    /// cuDNN computes it. Needs shapes that pass [`Self::check_shapes`].
    pub fn output_extent(&self, x: &TensorDescriptor, w: &FilterDescriptor, i: usize) -> Result<i32> {
        let window = (w.dims()[i + 2] - 1).wrapping_mul(self.dilation[i]).wrapping_add(1);
        let padded = x.dims()[i + 2].wrapping_add(self.pad[i].wrapping_mul(2));
        require(padded >= window, "the filter fits into the padded input")?;
        // An unset stride of 0 cannot occur: only dimensions that were set are used.
        require(self.stride[i] > 0, "strides are positive")?;
        Ok((padded.wrapping_sub(window) / self.stride[i]).wrapping_add(1))
    }
}
