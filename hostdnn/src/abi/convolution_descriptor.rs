//! Convolution descriptors and output dimensions.

use super::boundary::{create, destroy, read_array, refer, refer_mut, write, write_all, write_array};
use crate::descriptor::{ConvolutionDescriptor, FilterDescriptor, SPATIAL_MAX, TensorDescriptor, rank};
use crate::error::require;
use cudnn_abi::*;
use std::ffi::c_int;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateConvolutionDescriptor(
    convDesc: *mut cudnnConvolutionDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateConvolutionDescriptor, { unsafe { create::<ConvolutionDescriptor>(convDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyConvolutionDescriptor(convDesc: cudnnConvolutionDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyConvolutionDescriptor, { unsafe { destroy::<ConvolutionDescriptor>(convDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetConvolutionMathType(
    convDesc: cudnnConvolutionDescriptor_t,
    mathType: cudnnMathType_t,
) -> cudnnStatus_t {
    export!(cudnnSetConvolutionMathType, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ConvolutionDescriptor>(convDesc) }?.set_math_type(mathType)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionMathType(
    convDesc: cudnnConvolutionDescriptor_t,
    mathType: *mut cudnnMathType_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionMathType, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(mathType, refer::<ConvolutionDescriptor>(convDesc)?.math_type()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetConvolutionGroupCount(
    convDesc: cudnnConvolutionDescriptor_t,
    groupCount: c_int,
) -> cudnnStatus_t {
    export!(cudnnSetConvolutionGroupCount, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ConvolutionDescriptor>(convDesc) }?.set_groups(groupCount)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionGroupCount(
    convDesc: cudnnConvolutionDescriptor_t,
    groupCount: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionGroupCount, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(groupCount, refer::<ConvolutionDescriptor>(convDesc)?.groups()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetConvolutionReorderType(
    convDesc: cudnnConvolutionDescriptor_t,
    reorderType: cudnnReorderType_t,
) -> cudnnStatus_t {
    export!(cudnnSetConvolutionReorderType, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ConvolutionDescriptor>(convDesc) }?.set_reorder_type(reorderType)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionReorderType(
    convDesc: cudnnConvolutionDescriptor_t,
    reorderType: *mut cudnnReorderType_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionReorderType, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(reorderType, refer::<ConvolutionDescriptor>(convDesc)?.reorder_type()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetConvolution2dDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    pad_h: c_int,
    pad_w: c_int,
    u: c_int,
    v: c_int,
    dilation_h: c_int,
    dilation_w: c_int,
    mode: cudnnConvolutionMode_t,
    computeType: cudnnDataType_t,
) -> cudnnStatus_t {
    export!(cudnnSetConvolution2dDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let conv = unsafe { refer_mut::<ConvolutionDescriptor>(convDesc) }?;
        conv.set(&[pad_h, pad_w], &[u, v], &[dilation_h, dilation_w], mode, computeType)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolution2dDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    pad_h: *mut c_int,
    pad_w: *mut c_int,
    u: *mut c_int,
    v: *mut c_int,
    dilation_h: *mut c_int,
    dilation_w: *mut c_int,
    mode: *mut cudnnConvolutionMode_t,
    computeType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolution2dDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let &ConvolutionDescriptor { pad, stride, dilation, mode: the_mode, compute_type, .. } = refer(convDesc)?;
            write_all(
                [pad_h, pad_w, u, v, dilation_h, dilation_w, mode, computeType],
                [pad[0], pad[1], stride[0], stride[1], dilation[0], dilation[1], the_mode, compute_type],
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetConvolutionNdDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    arrayLength: c_int,
    padA: *const c_int,
    filterStrideA: *const c_int,
    dilationA: *const c_int,
    mode: cudnnConvolutionMode_t,
    computeType: cudnnDataType_t,
) -> cudnnStatus_t {
    export!(cudnnSetConvolutionNdDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays hold `arrayLength` values.
        unsafe {
            let conv = refer_mut::<ConvolutionDescriptor>(convDesc)?;
            ConvolutionDescriptor::check_mode(mode, computeType)?;
            require(arrayLength >= 0, "arrayLength is not negative")?;
            let rank = rank(arrayLength, 0, SPATIAL_MAX)?;
            let (pad, stride) = (read_array(padA, rank)?, read_array(filterStrideA, rank)?);
            conv.set(pad, stride, read_array(dilationA, rank)?, mode, computeType)
        }
    })
}

/// Writes `arrayLengthRequested` values to each array, 0 to 6, and 0 for missing ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionNdDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    arrayLengthRequested: c_int,
    arrayLength: *mut c_int,
    padA: *mut c_int,
    strideA: *mut c_int,
    dilationA: *mut c_int,
    mode: *mut cudnnConvolutionMode_t,
    computeType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionNdDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays take as many values as are asked for.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(convDesc)?;
            require(arrayLengthRequested >= 0, "arrayLengthRequested is not negative")?;
            let count = rank(arrayLengthRequested, 0, SPATIAL_MAX)?;
            write_all([arrayLength, mode, computeType], [conv.rank() as c_int, conv.mode, conv.compute_type])?;
            write_array(padA, &conv.pad[..count])?;
            write_array(strideA, &conv.stride[..count])?;
            write_array(dilationA, &conv.dilation[..count])
        }
    })
}

/// The results are 0 if the shapes do not match; if the filter does not fit, they are 0 from that dimension on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolution2dForwardOutputDim(
    convDesc: cudnnConvolutionDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t,
    n: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetConvolution2dForwardOutputDim, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(convDesc)?;
            let x = refer::<TensorDescriptor>(inputTensorDesc)?;
            let filter = refer::<FilterDescriptor>(filterDesc)?;
            write_all([n, c, h, w], [0; 4])?;
            conv.check_shapes(x, filter)?;
            require(conv.rank() >= 2, "the convolution has two spatial dimensions or more")?;
            write_all([n, c], [x.dims()[0], filter.dims()[0]])?;
            write(h, conv.output_extent(x, filter, 0)?)?;
            write(w, conv.output_extent(x, filter, 1)?)
        }
    })
}

/// Writes the first `nbDims` dimensions of the output; stops before the first one that the filter does not fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionNdForwardOutputDim(
    convDesc: cudnnConvolutionDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t,
    nbDims: c_int,
    tensorOuputDimA: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionNdForwardOutputDim, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array takes `nbDims` values.
        unsafe {
            let conv = refer::<ConvolutionDescriptor>(convDesc)?;
            let x = refer::<TensorDescriptor>(inputTensorDesc)?;
            let filter = refer::<FilterDescriptor>(filterDesc)?;
            conv.check_shapes(x, filter)?;
            let count = usize::try_from(nbDims).unwrap_or(0);
            require(count <= x.dims().len(), "nbDims is not more than the input has")?;
            require(!tensorOuputDimA.is_null(), "arrays are not null")?;
            let outer = [x.dims()[0], filter.dims()[0]];
            write_array(tensorOuputDimA, &outer[..count.min(2)])?;
            for i in 2..count {
                write(tensorOuputDimA.add(i), conv.output_extent(x, filter, i - 2)?)?;
            }
            Ok(())
        }
    })
}
