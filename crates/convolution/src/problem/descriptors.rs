//! cuDNN's descriptors of a problem.

use std::ffi::c_int;

use cudnn::calls;
use cudnn::convolution::{Descriptors, Direction};
use cudnn::owned::{OwnedConvolution, OwnedFilter, OwnedTensor, checked};
use cudnn_abi::*;

use super::Problem;

/// All descriptors of one convolution problem.
pub struct OwnedDescriptors {
    direction: Direction,
    x: OwnedTensor,
    w: OwnedFilter,
    convolution: OwnedConvolution,
    y: OwnedTensor,
}

impl OwnedDescriptors {
    /// The descriptors of problem `problem`, with `math_type` in place of the problem's own.
    pub fn new(problem: &Problem, math_type: cudnnMathType_t) -> Result<Self, cudnnStatus_t> {
        let rank = usize::from(problem.rank);
        let w = OwnedFilter::create()?;
        let convolution = OwnedConvolution::create()?;
        // SAFETY: each array has at least as many values as its rank.
        unsafe {
            checked(calls::cudnnSetFilterNdDescriptor(
                w.raw(),
                problem.w_type,
                problem.w_format,
                rank as c_int,
                problem.w_dims.as_ptr(),
            ))?;
            checked(calls::cudnnSetConvolutionNdDescriptor(
                convolution.raw(),
                rank as c_int - 2,
                problem.pad.as_ptr(),
                problem.stride.as_ptr(),
                problem.dilation.as_ptr(),
                problem.mode,
                problem.compute_type,
            ))?;
            checked(calls::cudnnSetConvolutionGroupCount(convolution.raw(), problem.groups))?;
            checked(calls::cudnnSetConvolutionMathType(convolution.raw(), math_type))?;
        }
        let (x, y) = (OwnedTensor::new(rank, &problem.x)?, OwnedTensor::new(rank, &problem.y)?);
        Ok(Self { direction: problem.direction, x, w, convolution, y })
    }

    /// The descriptors in the form that calls take.
    pub fn raw(&self) -> Descriptors<'_> {
        let Self { direction, x, w, convolution, y } = self;
        // SAFETY: they live as long as `self`.
        unsafe { Descriptors::new(*direction, x.raw(), w.raw(), convolution.raw(), y.raw()) }
    }
}
