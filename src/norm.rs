//! The functions of batch normalization that we override to run training on our own kernels.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::Cell;
use std::ffi::{c_double, c_void};

use cudnn_abi::*;

use super::boundary::guarded;
use norm::call::{BackwardCall, BackwardExtra, Extra, ForwardCall};
use norm::run::answer;

unsafe fn forward(call: ForwardCall) -> cudnnStatus_t {
    let status = Cell::new(None);
    // SAFETY: the program keeps cuDNN's rules; cuDNN runs the call only if nothing was launched for it before the panic.
    guarded(|| unsafe { answer(&call, &status) }, || status.get().unwrap_or_else(|| unsafe { call.by_cudnn() }))
}

unsafe fn backward(call: BackwardCall) -> cudnnStatus_t {
    let status = Cell::new(None);
    // SAFETY: the program keeps cuDNN's rules; cuDNN runs the call only if nothing was launched for it before the panic.
    guarded(|| unsafe { answer(&call, &status) }, || status.get().unwrap_or_else(|| unsafe { call.by_cudnn() }))
}

/// Overrides cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTraining(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    exponentialAverageFactor: c_double,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: c_double,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
) -> cudnnStatus_t {
    let call = ForwardCall {
        handle,
        mode,
        alpha,
        beta,
        x_descriptor: xDesc,
        x,
        y_descriptor: yDesc,
        y,
        parameters: bnScaleBiasMeanVarDesc,
        scale: bnScale,
        bias: bnBias,
        factor: exponentialAverageFactor,
        running_mean: resultRunningMean,
        running_variance: resultRunningVariance,
        epsilon,
        saved_mean: resultSaveMean,
        saved_inverse: resultSaveInvVariance,
        extra: None,
    };
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    unsafe { forward(call) }
}

/// Overrides cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTrainingEx(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    bnOps: cudnnBatchNormOps_t,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void,
    zDesc: cudnnTensorDescriptor_t,
    zData: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    yData: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    exponentialAverageFactor: c_double,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: c_double,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
    activationDesc: cudnnActivationDescriptor_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let extra = Extra {
        ops: bnOps,
        z_descriptor: zDesc,
        activation: activationDesc,
        workspace,
        workspace_size: workSpaceSizeInBytes,
        reserve: reserveSpace,
        reserve_size: reserveSpaceSizeInBytes,
    };
    let call = ForwardCall {
        handle,
        mode,
        alpha,
        beta,
        x_descriptor: xDesc,
        x: xData,
        y_descriptor: yDesc,
        y: yData,
        parameters: bnScaleBiasMeanVarDesc,
        scale: bnScale,
        bias: bnBias,
        factor: exponentialAverageFactor,
        running_mean: resultRunningMean,
        running_variance: resultRunningVariance,
        epsilon,
        saved_mean: resultSaveMean,
        saved_inverse: resultSaveInvVariance,
        extra: Some((extra, zData)),
    };
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    unsafe { forward(call) }
}

/// Overrides cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationBackward(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    alphaDataDiff: *const c_void,
    betaDataDiff: *const c_void,
    alphaParamDiff: *const c_void,
    betaParamDiff: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    dBnScaleResult: *mut c_void,
    dBnBiasResult: *mut c_void,
    epsilon: c_double,
    savedMean: *const c_void,
    savedInvVariance: *const c_void,
) -> cudnnStatus_t {
    let call = BackwardCall {
        handle,
        mode,
        alpha_data: alphaDataDiff,
        beta_data: betaDataDiff,
        alpha_parameters: alphaParamDiff,
        beta_parameters: betaParamDiff,
        x_descriptor: xDesc,
        x,
        dy_descriptor: dyDesc,
        dy,
        dx_descriptor: dxDesc,
        dx,
        parameters: dBnScaleBiasDesc,
        scale: bnScale,
        dscale: dBnScaleResult,
        dbias: dBnBiasResult,
        epsilon,
        saved_mean: savedMean,
        saved_inverse: savedInvVariance,
        extra: None,
    };
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    unsafe { backward(call) }
}

/// Overrides cuDNN's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationBackwardEx(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    bnOps: cudnnBatchNormOps_t,
    alphaDataDiff: *const c_void,
    betaDataDiff: *const c_void,
    alphaParamDiff: *const c_void,
    betaParamDiff: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    yData: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dyData: *const c_void,
    dzDesc: cudnnTensorDescriptor_t,
    dzData: *mut c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dxData: *mut c_void,
    dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    bnScaleData: *const c_void,
    bnBiasData: *const c_void,
    dBnScaleData: *mut c_void,
    dBnBiasData: *mut c_void,
    epsilon: c_double,
    savedMean: *const c_void,
    savedInvVariance: *const c_void,
    activationDesc: cudnnActivationDescriptor_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let extra = Extra {
        ops: bnOps,
        z_descriptor: dzDesc,
        activation: activationDesc,
        workspace: workSpace,
        workspace_size: workSpaceSizeInBytes,
        reserve: reserveSpace,
        reserve_size: reserveSpaceSizeInBytes,
    };
    let call = BackwardCall {
        handle,
        mode,
        alpha_data: alphaDataDiff,
        beta_data: betaDataDiff,
        alpha_parameters: alphaParamDiff,
        beta_parameters: betaParamDiff,
        x_descriptor: xDesc,
        x: xData,
        dy_descriptor: dyDesc,
        dy: dyData,
        dx_descriptor: dxDesc,
        dx: dxData,
        parameters: dBnScaleBiasDesc,
        scale: bnScaleData,
        dscale: dBnScaleData,
        dbias: dBnBiasData,
        epsilon,
        saved_mean: savedMean,
        saved_inverse: savedInvVariance,
        extra: Some(BackwardExtra { extra, y_descriptor: yDesc, y: yData, dz: dzData, bias: bnBiasData }),
    };
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    unsafe { backward(call) }
}
