//! Convolution, forward.

use super::bias::{add_bias_and_activate, check_bias, copy};
use super::boundary::{refer, scale};
use super::convolution::{Call, Results, tensors};
use crate::convolution::Direction;
use crate::descriptor::{ActivationDescriptor, TensorDescriptor};
use crate::error::{require, support};
use cudnn_abi::*;
use std::ffi::{c_int, c_void};

fn forward(
    function: &'static str,
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
) -> Call {
    let direction = Direction::Forward;
    Call { function, direction, handle, x: xDesc, w: wDesc, conv: convDesc, y: yDesc }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithmMaxCount(
    handle: cudnnHandle_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionForwardAlgorithmMaxCount, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { Call::max_count(handle, Direction::Forward, count) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithm_v7(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionForwardAlgorithm_v7, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call = forward("cudnnGetConvolutionForwardAlgorithm_v7", handle, xDesc, wDesc, convDesc, yDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.rank(results) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFindConvolutionForwardAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
) -> cudnnStatus_t {
    export!(cudnnFindConvolutionForwardAlgorithm, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call = forward("cudnnFindConvolutionForwardAlgorithm", handle, xDesc, wDesc, convDesc, yDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.find(results) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFindConvolutionForwardAlgorithmEx(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    export!(cudnnFindConvolutionForwardAlgorithmEx, {
        let results = Results { requested: requestedAlgoCount, returned: returnedAlgoCount, entries: perfResults };
        let call = forward("cudnnFindConvolutionForwardAlgorithmEx", handle, xDesc, wDesc, convDesc, yDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.find_on(tensors(x, w, y), results, workSpace, workSpaceSizeInBytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionForwardWorkspaceSize(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    algo: cudnnConvolutionFwdAlgo_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetConvolutionForwardWorkspaceSize, {
        let call = forward("cudnnGetConvolutionForwardWorkspaceSize", handle, xDesc, wDesc, convDesc, yDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.workspace_size(algo, sizeInBytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnConvolutionForward(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: cudnnConvolutionFwdAlgo_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnConvolutionForward, {
        let call = forward("cudnnConvolutionForward", handle, xDesc, wDesc, convDesc, yDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { call.run(algo, alpha, beta, tensors(x, w, y), workSpace, workSpaceSizeInBytes) }
    })
}

/// `y = f(alpha1·conv(x) + alpha2·z + bias)`, where `f` is ReLU or, with IMPLICIT_PRECOMP_GEMM only, the identity. `z`
/// may be `y` itself. In two-byte types the sum before the bias is rounded once more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnConvolutionBiasActivationForward(
    handle: cudnnHandle_t,
    alpha1: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: cudnnConvolutionFwdAlgo_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    alpha2: *const c_void,
    zDesc: cudnnTensorDescriptor_t,
    z: *const c_void,
    biasDesc: cudnnTensorDescriptor_t,
    bias: *const c_void,
    activationDesc: cudnnActivationDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnConvolutionBiasActivationForward, {
        let call = forward("cudnnConvolutionBiasActivationForward", handle, xDesc, wDesc, convDesc, yDesc);
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let to = refer::<TensorDescriptor>(yDesc)?;
            let (residual, offset) = (refer::<TensorDescriptor>(zDesc)?, refer::<TensorDescriptor>(biasDesc)?);
            let activation = *refer::<ActivationDescriptor>(activationDesc)?;
            require(!z.is_null() && !bias.is_null(), "tensors are not null")?;
            let data_type = to.data_type();
            require(residual.data_type() == data_type && offset.data_type() == data_type, "one data type")?;
            require(residual.dims() == to.dims(), "z has y's dimensions")?;
            require(z != y.cast_const() || residual.strides() == to.strides(), "strides are equal in place")?;
            check_bias(offset, to)?;
            match activation.mode {
                CUDNN_ACTIVATION_RELU => {}
                CUDNN_ACTIVATION_IDENTITY => support(
                    algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                    "the identity goes with IMPLICIT_PRECOMP_GEMM alone",
                )?,
                _ => support(false, "the activation is ReLU or the identity")?,
            }
            let alpha = (scale(alpha1, data_type)?, scale(alpha2, data_type)?);
            // All checks come before the first write.
            let ready = call.prepare(algo, tensors(x, w, y), workSpace, workSpaceSizeInBytes)?;
            if alpha.1 != 0.0 && z != y.cast_const() {
                copy((residual, z), (to, y))?;
            }
            ready.run(alpha.0, alpha.1)?;
            add_bias_and_activate(&activation, (offset, bias), (to, y))
        }
    })
}
