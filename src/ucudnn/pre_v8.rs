//! The queries that cuDNN 8 removed.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::boundary::guarded;
use convolution::legacy::answer;
use cudnn::convolution::{Descriptors, Direction};
use cudnn::handle::Handle;
use cudnn::library;

/// The preference of the pre-v8 query for a Forward algorithm.
pub type cudnnConvolutionFwdPreference_t = c_int;
/// An algorithm that needs no workspace.
pub const CUDNN_CONVOLUTION_FWD_NO_WORKSPACE: cudnnConvolutionFwdPreference_t = 0;
/// The fastest algorithm, with any workspace.
pub const CUDNN_CONVOLUTION_FWD_PREFER_FASTEST: cudnnConvolutionFwdPreference_t = 1;
/// The fastest algorithm within the given limit.
pub const CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT: cudnnConvolutionFwdPreference_t = 2;

/// The preference of the pre-v8 query for a BackwardData algorithm.
pub type cudnnConvolutionBwdDataPreference_t = c_int;
/// An algorithm that needs no workspace.
pub const CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE: cudnnConvolutionBwdDataPreference_t = 0;
/// The fastest algorithm, with any workspace.
pub const CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST: cudnnConvolutionBwdDataPreference_t = 1;
/// The fastest algorithm within the given limit.
pub const CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT: cudnnConvolutionBwdDataPreference_t = 2;

/// The preference of the pre-v8 query for a BackwardFilter algorithm.
pub type cudnnConvolutionBwdFilterPreference_t = c_int;
/// An algorithm that needs no workspace.
pub const CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE: cudnnConvolutionBwdFilterPreference_t = 0;
/// The fastest algorithm, with any workspace.
pub const CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST: cudnnConvolutionBwdFilterPreference_t = 1;
/// The fastest algorithm within the given limit.
pub const CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT: cudnnConvolutionBwdFilterPreference_t = 2;

/// Answers a pre-v8 query with today's functions, or with the real function where an older cuDNN still has it.
unsafe fn algorithm_within(
    name: &std::ffi::CStr,
    handle: cudnnHandle_t,
    descriptors: Descriptors,
    [a, b, c]: [*mut std::ffi::c_void; 3],
    (preference, limit): (c_int, usize),
    algorithm: *mut c_int,
) -> cudnnStatus_t {
    type Real = unsafe extern "C" fn(
        cudnnHandle_t,
        *mut std::ffi::c_void,
        *mut std::ffi::c_void,
        cudnnConvolutionDescriptor_t,
        *mut std::ffi::c_void,
        c_int,
        usize,
        *mut c_int,
    ) -> cudnnStatus_t;
    guarded(
        || {
            if library::older_major().is_some()
                && let Some(real) = library::address_of(name)
            {
                // SAFETY: cuDNN's function of this name has this prototype in all versions.
                let real: Real = unsafe { std::mem::transmute(real.as_ptr()) };
                // SAFETY: the caller keeps the rules of the cuDNN function that it calls.
                return unsafe { real(handle, a, b, descriptors.convolution(), c, preference, limit, algorithm) };
            }
            let limit = match preference {
                CUDNN_CONVOLUTION_FWD_NO_WORKSPACE => Some(0),
                CUDNN_CONVOLUTION_FWD_PREFER_FASTEST => None,
                CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT => Some(limit),
                _ => return CUDNN_STATUS_BAD_PARAM,
            };
            if handle.is_null() || algorithm.is_null() {
                return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
            }
            // SAFETY: the handle is null or live, as a program's is that keeps cuDNN's rules.
            let handle = unsafe { Handle::new(handle) };
            match answer::algorithm_within(handle, &descriptors, limit) {
                Ok(found) => {
                    // SAFETY: not null, and the caller promises a place for the algorithm.
                    unsafe { algorithm.write(found) };
                    CUDNN_STATUS_SUCCESS
                }
                Err(status) => status,
            }
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

/// Gets the algorithm to use for cudnnConvolutionForward, as cuDNN did before version 8; within memoryLimitInBytes if
/// the preference says so. cudnnGetConvolutionForwardWorkspaceSize then gives its workspace.
///
/// CUDNN_STATUS_BAD_PARAM: the preference is unknown, or a descriptor is null. CUDNN_STATUS_NOT_SUPPORTED: no algorithm
/// runs within the limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    preference: cudnnConvolutionFwdPreference_t,
    memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionFwdAlgo_t,
) -> cudnnStatus_t {
    let direction = Direction::Forward;
    // SAFETY: the program's descriptors keep the rules of cuDNN's function of this name.
    let descriptors = unsafe { Descriptors::new(direction, xDesc, wDesc, convDesc, yDesc) };
    let order = [xDesc.cast(), wDesc.cast(), yDesc.cast()];
    let wanted = (preference, memoryLimitInBytes);
    // SAFETY: the program keeps the rules of cuDNN's function of this name.
    unsafe { algorithm_within(c"cudnnGetConvolutionForwardAlgorithm", handle, descriptors, order, wanted, algo) }
}

/// Like cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardData.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    preference: cudnnConvolutionBwdDataPreference_t,
    memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionBwdDataAlgo_t,
) -> cudnnStatus_t {
    let direction = Direction::BackwardData;
    // SAFETY: the program's descriptors keep the rules of cuDNN's function of this name.
    let descriptors = unsafe { Descriptors::new(direction, dxDesc, wDesc, convDesc, dyDesc) };
    let order = [wDesc.cast(), dyDesc.cast(), dxDesc.cast()];
    let wanted = (preference, memoryLimitInBytes);
    // SAFETY: the program keeps the rules of cuDNN's function of this name.
    unsafe { algorithm_within(c"cudnnGetConvolutionBackwardDataAlgorithm", handle, descriptors, order, wanted, algo) }
}

/// Like cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardFilter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    preference: cudnnConvolutionBwdFilterPreference_t,
    memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionBwdFilterAlgo_t,
) -> cudnnStatus_t {
    let direction = Direction::BackwardFilter;
    // SAFETY: the program's descriptors keep the rules of cuDNN's function of this name.
    let descriptors = unsafe { Descriptors::new(direction, xDesc, dwDesc, convDesc, dyDesc) };
    let order = [xDesc.cast(), dyDesc.cast(), dwDesc.cast()];
    let wanted = (preference, memoryLimitInBytes);
    // SAFETY: the program keeps the rules of cuDNN's function of this name.
    unsafe { algorithm_within(c"cudnnGetConvolutionBackwardFilterAlgorithm", handle, descriptors, order, wanted, algo) }
}
