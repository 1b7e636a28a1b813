//! Filter descriptors.

use super::boundary::{create, destroy, read_array, refer, refer_mut, write, write_all, write_array};
use crate::descriptor::{DIM_MAX, FilterDescriptor, rank};
use cudnn_abi::*;
use std::ffi::c_int;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateFilterDescriptor(filterDesc: *mut cudnnFilterDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateFilterDescriptor, { unsafe { create::<FilterDescriptor>(filterDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyFilterDescriptor(filterDesc: cudnnFilterDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyFilterDescriptor, { unsafe { destroy::<FilterDescriptor>(filterDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetFilter4dDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    dataType: cudnnDataType_t,
    format: cudnnTensorFormat_t,
    k: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
) -> cudnnStatus_t {
    export!(cudnnSetFilter4dDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<FilterDescriptor>(filterDesc) }?.set(dataType, format, &[k, c, h, w])
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetFilter4dDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    dataType: *mut cudnnDataType_t,
    format: *mut cudnnTensorFormat_t,
    k: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetFilter4dDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let filter = refer::<FilterDescriptor>(filterDesc)?;
            let dims = filter.all_dims();
            write_all(
                [dataType, format, k, c, h, w],
                [filter.data_type(), filter.format(), dims[0], dims[1], dims[2], dims[3]],
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetFilterNdDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    dataType: cudnnDataType_t,
    format: cudnnTensorFormat_t,
    nbDims: c_int,
    filterDimA: *const c_int,
) -> cudnnStatus_t {
    export!(cudnnSetFilterNdDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array holds `nbDims` values.
        unsafe {
            let filter = refer_mut::<FilterDescriptor>(filterDesc)?;
            FilterDescriptor::check_enumerators(format, dataType)?;
            let rank = rank(nbDims, 3, DIM_MAX)?;
            filter.set(dataType, format, read_array(filterDimA, rank)?)
        }
    })
}

/// Writes `nbDimsRequested` dimensions, 1 to 8; 0 where there are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetFilterNdDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    nbDimsRequested: c_int,
    dataType: *mut cudnnDataType_t,
    format: *mut cudnnTensorFormat_t,
    nbDims: *mut c_int,
    filterDimA: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetFilterNdDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array takes as many values as are asked for.
        unsafe {
            let filter = refer::<FilterDescriptor>(filterDesc)?;
            let count = rank(nbDimsRequested, 1, DIM_MAX)?;
            write_all([dataType, format, nbDims], [filter.data_type(), filter.format(), filter.dims().len() as c_int])?;
            write_array(filterDimA, &filter.all_dims()[..count])
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetFilterSizeInBytes(
    filterDesc: cudnnFilterDescriptor_t,
    size: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetFilterSizeInBytes, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(size, refer::<FilterDescriptor>(filterDesc)?.size_in_bytes()) }
    })
}
