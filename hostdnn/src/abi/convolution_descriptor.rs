//! Convolution descriptors and output dimensions.

use super::boundary::{read_array, refer, refer_mut, write, write_all, write_array};
use super::entries::*;
use crate::descriptor::{ConvolutionDescriptor, FilterDescriptor, SPATIAL_MAX, TensorDescriptor, checked_rank};
use crate::error::{Result, require};
use std::ffi::c_int;

impl Answer for cudnnSetConvolutionMathType {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, math_type } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ConvolutionDescriptor>(descriptor) }?.set_math_type(math_type)
    }
}

impl Answer for cudnnGetConvolutionMathType {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, math_type } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(math_type, refer::<ConvolutionDescriptor>(descriptor)?.math_type()) }
    }
}

impl Answer for cudnnSetConvolutionGroupCount {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, groups } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ConvolutionDescriptor>(descriptor) }?.set_groups(groups)
    }
}

impl Answer for cudnnGetConvolutionGroupCount {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, groups } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(groups, refer::<ConvolutionDescriptor>(descriptor)?.groups()) }
    }
}

impl Answer for cudnnSetConvolutionReorderType {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, reorder } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ConvolutionDescriptor>(descriptor) }?.set_reorder_type(reorder)
    }
}

impl Answer for cudnnGetConvolutionReorderType {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, reorder } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(reorder, refer::<ConvolutionDescriptor>(descriptor)?.reorder_type()) }
    }
}

impl Answer for cudnnSetConvolution2dDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute_type } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let conv = unsafe { refer_mut::<ConvolutionDescriptor>(descriptor) }?;
        conv.set(&[pad_h, pad_w], &[u, v], &[dilation_h, dilation_w], mode, compute_type)
    }
}

impl Answer for cudnnGetConvolution2dDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute_type } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(descriptor)?;
            let ConvolutionDescriptor { pad, stride, dilation, .. } = conv;
            write_all(
                [pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute_type],
                [pad[0], pad[1], stride[0], stride[1], dilation[0], dilation[1], conv.mode, conv.compute_type],
            )
        }
    }
}

impl Answer for cudnnSetConvolutionNdDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, rank, pad, stride, dilation, mode, compute_type } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays hold `rank` values.
        unsafe {
            let conv = refer_mut::<ConvolutionDescriptor>(descriptor)?;
            ConvolutionDescriptor::check_mode(mode, compute_type)?;
            require(rank >= 0, "arrayLength is not negative")?;
            let rank = checked_rank(rank, 0, SPATIAL_MAX)?;
            let (pad, stride) = (read_array(pad, rank)?, read_array(stride, rank)?);
            conv.set(pad, stride, read_array(dilation, rank)?, mode, compute_type)
        }
    }
}

/// Writes `requested` values to each array, 0 to 6, and 0 for missing ones.
impl Answer for cudnnGetConvolutionNdDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, requested, rank, pad, stride, dilation, mode, compute_type } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays take as many values as are asked for.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(descriptor)?;
            require(requested >= 0, "arrayLengthRequested is not negative")?;
            let count = checked_rank(requested, 0, SPATIAL_MAX)?;
            write_all([rank, mode, compute_type], [conv.rank() as c_int, conv.mode, conv.compute_type])?;
            write_array(pad, &conv.pad[..count])?;
            write_array(stride, &conv.stride[..count])?;
            write_array(dilation, &conv.dilation[..count])
        }
    }
}

/// The results are 0 if the shapes do not match; if the filter does not fit, they are 0 from that dimension on.
impl Answer for cudnnGetConvolution2dForwardOutputDim {
    unsafe fn answer(self) -> Result {
        let Self { convolution, input, filter, n, c, h, w } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(convolution)?;
            let x = refer::<TensorDescriptor>(input)?;
            let filter = refer::<FilterDescriptor>(filter)?;
            write_all([n, c, h, w], [0; 4])?;
            conv.check_shapes(x, filter)?;
            require(conv.rank() >= 2, "the convolution has two spatial dimensions or more")?;
            write_all([n, c], [x.dims()[0], filter.dims()[0]])?;
            write(h, conv.output_extent(x, filter, 0)?)?;
            write(w, conv.output_extent(x, filter, 1)?)
        }
    }
}

/// Writes the first `rank` dimensions of the output; stops before the first one that the filter does not fit.
impl Answer for cudnnGetConvolutionNdForwardOutputDim {
    unsafe fn answer(self) -> Result {
        let Self { convolution, input, filter, rank, dims } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array takes `rank` values.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(convolution)?;
            let x = refer::<TensorDescriptor>(input)?;
            let filter = refer::<FilterDescriptor>(filter)?;
            conv.check_shapes(x, filter)?;
            let count = usize::try_from(rank).unwrap_or(0);
            require(count <= x.dims().len(), "nbDims is not more than the input has")?;
            require(!dims.is_null(), "arrays are not null")?;
            let outer = [x.dims()[0], filter.dims()[0]];
            write_array(dims, &outer[..count.min(2)])?;
            for i in 2..count {
                write(dims.add(i), conv.output_extent(x, filter, i - 2)?)?;
            }
            Ok(())
        }
    }
}
