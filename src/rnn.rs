//! The functions of the RNN API that we override to run inference and training on our own kernels.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::c_void;

use cudnn_abi::*;

use super::boundary::guarded;
use cudnn::calls;
use recurrent::call::Call;
use recurrent::forward::workspace_size;
use recurrent::memory::Memory;
use recurrent::training::calls::{after_a_panic, concerns_us, raise_sizes, run_backward_data, run_backward_weights};
use recurrent::training::data::DataCall;
use recurrent::training::weights::WeightsCall;

/// Overrides cuDNN's function: a workspace and a reserve are also large enough for our kernels. The answer depends on the
/// arguments alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: cudnnForwardMode_t,
    xDesc: cudnnRNNDataDescriptor_t,
    workSpaceSize: *mut usize,
    reserveSpaceSize: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    let status = unsafe {
        calls::rnn::cudnnGetRNNTempSpaceSizes(handle, rnnDesc, fwdMode, xDesc, workSpaceSize, reserveSpaceSize)
    };
    if status != CUDNN_STATUS_SUCCESS {
        return status;
    }
    let ours = || {
        // SAFETY: cuDNN has accepted the arguments and written each size that is not null.
        unsafe {
            let (workspace, reserve) = (workSpaceSize.as_mut(), reserveSpaceSize.as_mut());
            match fwdMode {
                CUDNN_FWD_MODE_TRAINING => raise_sizes(handle, rnnDesc, xDesc, workspace, reserve),
                CUDNN_FWD_MODE_INFERENCE => {
                    let needed = workspace_size(rnnDesc, xDesc);
                    workspace.into_iter().for_each(|workspace| *workspace = needed.max(*workspace));
                }
                _ => {}
            }
        }
        status
    };
    guarded(ours, || status)
}

/// Overrides cuDNN's function: inference runs on our own kernels where they are faster, and training where we own the
/// reserve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNForward(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: cudnnForwardMode_t,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    hy: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    cy: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let memory = Memory {
        x,
        y,
        hx,
        hy,
        cx,
        cy,
        weight_space: weightSpace,
        weight_space_size: weightSpaceSize,
        workspace: workSpace,
        workspace_size: workSpaceSize,
    };
    let call = Call {
        handle,
        descriptor: rnnDesc,
        mode: fwdMode,
        device_lengths: devSeqLengths,
        x_descriptor: xDesc,
        y_descriptor: yDesc,
        h_descriptor: hDesc,
        c_descriptor: cDesc,
        memory,
        reserve_size: reserveSpaceSize,
        reserve: reserveSpace,
    };
    let trains = fwdMode == CUDNN_FWD_MODE_TRAINING;
    // SAFETY: the program keeps cuDNN's rules; after a panic the second run computes every result again.
    let theirs = || unsafe { call.run_as_asked() };
    // SAFETY: the program keeps cuDNN's rules.
    guarded(|| unsafe { call.run() }, || if trains { after_a_panic(theirs) } else { theirs() })
}

/// Overrides cuDNN's function: it runs on our own kernels where we own the reserve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardData_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    devSeqLengths: *const i32,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    dy: *const c_void,
    xDesc: cudnnRNNDataDescriptor_t,
    dx: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    dhy: *const c_void,
    dhx: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    dcy: *const c_void,
    dcx: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let call = DataCall {
        handle,
        descriptor: rnnDesc,
        device_lengths: devSeqLengths,
        y_descriptor: yDesc,
        y,
        dy,
        x_descriptor: xDesc,
        dx,
        h_descriptor: hDesc,
        hx,
        dhy,
        dhx,
        c_descriptor: cDesc,
        cx,
        dcy,
        dcx,
        weight_space_size: weightSpaceSize,
        weight_space: weightSpace,
        workspace_size: workSpaceSize,
        workspace: workSpace,
        reserve_size: reserveSpaceSize,
        reserve: reserveSpace,
    };
    // SAFETY: the program keeps cuDNN's rules.
    let theirs = || unsafe { call.run_as_asked() };
    if !concerns_us() {
        return theirs();
    }
    // SAFETY: the program keeps cuDNN's rules.
    guarded(|| unsafe { run_backward_data(&call) }, || after_a_panic(theirs))
}

/// Overrides cuDNN's function: it runs on our own kernels where we own the reserve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardWeights_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    addGrad: cudnnWgradMode_t,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    weightSpaceSize: usize,
    dweightSpace: *mut c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let call = WeightsCall {
        handle,
        descriptor: rnnDesc,
        mode: addGrad,
        device_lengths: devSeqLengths,
        x_descriptor: xDesc,
        x,
        h_descriptor: hDesc,
        hx,
        y_descriptor: yDesc,
        y,
        weight_space_size: weightSpaceSize,
        dweights: dweightSpace,
        workspace_size: workSpaceSize,
        workspace: workSpace,
        reserve_size: reserveSpaceSize,
        reserve: reserveSpace,
    };
    // SAFETY: the program keeps cuDNN's rules.
    let theirs = || unsafe { call.run_as_asked() };
    if !concerns_us() {
        return theirs();
    }
    // SAFETY: the program keeps cuDNN's rules.
    guarded(|| unsafe { run_backward_weights(&call) }, || after_a_panic(theirs))
}
