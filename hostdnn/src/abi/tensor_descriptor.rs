//! Tensor descriptors.

use super::boundary::{create, destroy, read_array, refer, refer_mut, write, write_all, write_array};
use crate::descriptor::{DIM_MAX, TensorDescriptor, rank};
use cudnn_abi::*;
use std::ffi::c_int;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateTensorDescriptor(tensorDesc: *mut cudnnTensorDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateTensorDescriptor, { unsafe { create::<TensorDescriptor>(tensorDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyTensorDescriptor(tensorDesc: cudnnTensorDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyTensorDescriptor, { unsafe { destroy::<TensorDescriptor>(tensorDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor4dDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    format: cudnnTensorFormat_t,
    dataType: cudnnDataType_t,
    n: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
) -> cudnnStatus_t {
    export!(cudnnSetTensor4dDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let tensor = unsafe { refer_mut::<TensorDescriptor>(tensorDesc) }?;
        tensor.set_4d(format, dataType, [n, c, h, w])
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor4dDescriptorEx(
    tensorDesc: cudnnTensorDescriptor_t,
    dataType: cudnnDataType_t,
    n: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
    nStride: c_int,
    cStride: c_int,
    hStride: c_int,
    wStride: c_int,
) -> cudnnStatus_t {
    export!(cudnnSetTensor4dDescriptorEx, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let tensor = unsafe { refer_mut::<TensorDescriptor>(tensorDesc) }?;
        tensor.set_strided(dataType, &[n, c, h, w], &[nStride, cStride, hStride, wStride])
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensor4dDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    dataType: *mut cudnnDataType_t,
    n: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
    nStride: *mut c_int,
    cStride: *mut c_int,
    hStride: *mut c_int,
    wStride: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetTensor4dDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let tensor = refer::<TensorDescriptor>(tensorDesc)?;
            let (dims, strides) = tensor.first_4d();
            write_all(
                [dataType, n, c, h, w, nStride, cStride, hStride, wStride],
                [
                    tensor.data_type(),
                    dims[0],
                    dims[1],
                    dims[2],
                    dims[3],
                    strides[0],
                    strides[1],
                    strides[2],
                    strides[3],
                ],
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    dataType: cudnnDataType_t,
    nbDims: c_int,
    dimA: *const c_int,
    strideA: *const c_int,
) -> cudnnStatus_t {
    export!(cudnnSetTensorNdDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays hold `nbDims` values.
        unsafe {
            let tensor = refer_mut::<TensorDescriptor>(tensorDesc)?;
            TensorDescriptor::check_type(dataType)?;
            let rank = rank(nbDims, 2, DIM_MAX)?;
            tensor.set_strided(dataType, read_array(dimA, rank)?, read_array(strideA, rank)?)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptorEx(
    tensorDesc: cudnnTensorDescriptor_t,
    format: cudnnTensorFormat_t,
    dataType: cudnnDataType_t,
    nbDims: c_int,
    dimA: *const c_int,
) -> cudnnStatus_t {
    export!(cudnnSetTensorNdDescriptorEx, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array holds `nbDims` values.
        unsafe {
            let tensor = refer_mut::<TensorDescriptor>(tensorDesc)?;
            TensorDescriptor::check_format(format, dataType)?;
            let rank = rank(nbDims, 2, DIM_MAX)?;
            tensor.set_packed(format, dataType, read_array(dimA, rank)?)
        }
    })
}

/// Writes the first `nbDimsRequested` dimensions and strides, or as many as there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorNdDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    nbDimsRequested: c_int,
    dataType: *mut cudnnDataType_t,
    nbDims: *mut c_int,
    dimA: *mut c_int,
    strideA: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetTensorNdDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays take as many values as are asked for.
        unsafe {
            let tensor = refer::<TensorDescriptor>(tensorDesc)?;
            let rank = tensor.dims().len();
            let count = rank.min(usize::try_from(nbDimsRequested).unwrap_or(0));
            write_all([dataType, nbDims], [tensor.data_type(), rank as c_int])?;
            write_array(dimA, &tensor.dims()[..count])?;
            write_array(strideA, &tensor.strides()[..count])
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorSizeInBytes(
    tensorDesc: cudnnTensorDescriptor_t,
    size: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetTensorSizeInBytes, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(size, refer::<TensorDescriptor>(tensorDesc)?.size_in_bytes()) }
    })
}
