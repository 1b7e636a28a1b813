//! Convolution, backward: the gradients of the input (BackwardData) and of the filter (BackwardFilter).

use super::convolution::{Call, Results, tensors};
use crate::convolution::Direction;
use cudnn_abi::*;
use std::ffi::{c_int, c_void};

fn backward_data(
    function: &'static str,
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
) -> Call {
    let direction = Direction::BackwardData;
    Call { function, direction, handle, x: dxDesc, w: wDesc, conv: convDesc, y: dyDesc }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithmMaxCount(
    handle: cudnnHandle_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionBackwardDataAlgorithmMaxCount, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { Call::max_count(handle, Direction::BackwardData, count) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm_v7(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionBackwardDataAlgorithm_v7, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call =
            backward_data("cudnnGetConvolutionBackwardDataAlgorithm_v7", handle, wDesc, dyDesc, convDesc, dxDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.rank(results) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardDataAlgorithm(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
) -> cudnnStatus_t {
    export!(cudnnFindConvolutionBackwardDataAlgorithm, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call = backward_data("cudnnFindConvolutionBackwardDataAlgorithm", handle, wDesc, dyDesc, convDesc, dxDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.find(results) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardDataAlgorithmEx(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    export!(cudnnFindConvolutionBackwardDataAlgorithmEx, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call =
            backward_data("cudnnFindConvolutionBackwardDataAlgorithmEx", handle, wDesc, dyDesc, convDesc, dxDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.find_on(tensors(dx, w, dy), results, workSpace, workSpaceSizeInBytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataWorkspaceSize(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    algo: cudnnConvolutionBwdDataAlgo_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionBackwardDataWorkspaceSize, {
        let call =
            backward_data("cudnnGetConvolutionBackwardDataWorkspaceSize", handle, wDesc, dyDesc, convDesc, dxDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.workspace_size(algo, sizeInBytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnConvolutionBackwardData(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: cudnnConvolutionBwdDataAlgo_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    beta: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnConvolutionBackwardData, {
        let call = backward_data("cudnnConvolutionBackwardData", handle, wDesc, dyDesc, convDesc, dxDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.run(algo, alpha, beta, tensors(dx, w, dy), workSpace, workSpaceSizeInBytes) }
    })
}

fn backward_filter(
    function: &'static str,
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
) -> Call {
    let direction = Direction::BackwardFilter;
    Call { function, direction, handle, x: xDesc, w: dwDesc, conv: convDesc, y: dyDesc }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(
    handle: cudnnHandle_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { Call::max_count(handle, Direction::BackwardFilter, count) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionBackwardFilterAlgorithm_v7, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call =
            backward_filter("cudnnGetConvolutionBackwardFilterAlgorithm_v7", handle, xDesc, dyDesc, convDesc, dwDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.rank(results) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
) -> cudnnStatus_t {
    export!(cudnnFindConvolutionBackwardFilterAlgorithm, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call =
            backward_filter("cudnnFindConvolutionBackwardFilterAlgorithm", handle, xDesc, dyDesc, convDesc, dwDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.find(results) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithmEx(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    export!(cudnnFindConvolutionBackwardFilterAlgorithmEx, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call =
            backward_filter("cudnnFindConvolutionBackwardFilterAlgorithmEx", handle, xDesc, dyDesc, convDesc, dwDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.find_on(tensors(x, dw, dy), results, workSpace, workSpaceSizeInBytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterWorkspaceSize(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    algo: cudnnConvolutionBwdFilterAlgo_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionBackwardFilterWorkspaceSize, {
        let call =
            backward_filter("cudnnGetConvolutionBackwardFilterWorkspaceSize", handle, xDesc, dyDesc, convDesc, dwDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.workspace_size(algo, sizeInBytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnConvolutionBackwardFilter(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: cudnnConvolutionBwdFilterAlgo_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    beta: *const c_void,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnConvolutionBackwardFilter, {
        let call = backward_filter("cudnnConvolutionBackwardFilter", handle, xDesc, dyDesc, convDesc, dwDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.run(algo, alpha, beta, tensors(x, dw, dy), workSpace, workSpaceSizeInBytes) }
    })
}
