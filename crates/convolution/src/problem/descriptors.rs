//! cuDNN's descriptors of a problem.

use std::ffi::c_int;

use cudnn::calls;
use cudnn::convolution::{Descriptors, Direction};
use cudnn::owned::{OwnedConvolution, OwnedFilter, OwnedTensor, checked};
use cudnn_abi::*;

use super::Kernel;

/// All descriptors of one convolution problem.
pub struct OwnedDescriptors {
    direction: Direction,
    x: OwnedTensor,
    w: OwnedFilter,
    convolution: OwnedConvolution,
    y: OwnedTensor,
}

impl OwnedDescriptors {
    /// The descriptors of problem `kernel`, with `math_type` in place of the problem's own.
    pub fn new(kernel: &Kernel, math_type: cudnnMathType_t) -> Result<Self, cudnnStatus_t> {
        let rank = usize::from(kernel.rank);
        let w = OwnedFilter::create()?;
        let convolution = OwnedConvolution::create()?;
        // SAFETY: each array has at least as many values as its rank.
        unsafe {
            checked(calls::cudnnSetFilterNdDescriptor(
                w.raw(),
                kernel.w_type,
                kernel.w_format,
                rank as c_int,
                kernel.w_dims.as_ptr(),
            ))?;
            checked(calls::cudnnSetConvolutionNdDescriptor(
                convolution.raw(),
                rank as c_int - 2,
                kernel.pad.as_ptr(),
                kernel.stride.as_ptr(),
                kernel.dilation.as_ptr(),
                kernel.mode,
                kernel.compute_type,
            ))?;
            checked(calls::cudnnSetConvolutionGroupCount(convolution.raw(), kernel.groups))?;
            checked(calls::cudnnSetConvolutionMathType(convolution.raw(), math_type))?;
        }
        let (x, y) = (OwnedTensor::new(rank, &kernel.x)?, OwnedTensor::new(rank, &kernel.y)?);
        Ok(Self { direction: kernel.direction, x, w, convolution, y })
    }

    /// The descriptors in the form that calls take; valid as long as `self`.
    pub fn raw(&self) -> Descriptors {
        Descriptors {
            direction: self.direction,
            x: self.x.raw(),
            w: self.w.raw(),
            convolution: self.convolution.raw(),
            y: self.y.raw(),
        }
    }
}
