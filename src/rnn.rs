//! The functions of the RNN API that we override to run inference on our own kernels.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::c_void;

use cudnn_abi::*;

use super::boundary::guarded;
use cudnn::calls;
use recurrent::call::Call;
use recurrent::forward::workspace_size;
use recurrent::memory::Memory;

/// Overrides cuDNN's function: a workspace for inference is also large enough for our kernels.
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
    if status != CUDNN_STATUS_SUCCESS || workSpaceSize.is_null() {
        return status;
    }
    let ours = || {
        // SAFETY: cuDNN has accepted the arguments and written the size, which is not null.
        unsafe { *workSpaceSize = workspace_size(handle, rnnDesc, fwdMode, xDesc).max(*workSpaceSize) };
        status
    };
    guarded(ours, || status)
}

/// Overrides cuDNN's function: inference runs on our own kernels where they are faster.
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
    // SAFETY: the program keeps cuDNN's rules; after a panic the second run computes every result again.
    guarded(|| unsafe { call.run() }, || unsafe { call.run_as_asked() })
}
