//! ucudnn's own C functions: the source of `include/ucudnn.h`. Comments here are the header's.
//!
//! Safety, for every function here: handles and descriptors are cuDNN's, and places for results are
//! the caller's.
#![allow(non_snake_case, non_camel_case_types, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_char, c_int};

use cudnn_abi::*;

use super::boundary::guarded;
use crate::cudnn::convolution::{Descriptors, Direction};
use crate::cudnn::library;
use crate::legacy::policies::{self, Policies};
use crate::legacy::{answer, report};
use crate::plan::BatchSizePolicy;
use crate::settings::Policy;

/// How workspace limits apply to a handle's convolutions.
pub type ucudnnPolicy_t = c_int;
/// Workspace Reuse: each convolution is planned on its own. The default.
pub const UCUDNN_POLICY_WR: ucudnnPolicy_t = 0;
/// Workspace Division: the convolutions of a network share one budget.
pub const UCUDNN_POLICY_WD: ucudnnPolicy_t = 1;
/// Every call goes through to cuDNN unchanged.
pub const UCUDNN_POLICY_OFF: ucudnnPolicy_t = 2;

/// Which micro-batch sizes are tried.
pub type ucudnnBatchSizePolicy_t = c_int;
/// 1, 2, 4, ... and the mini-batch itself. The default.
pub const UCUDNN_BATCH_SIZE_POWER_OF_TWO: ucudnnBatchSizePolicy_t = 0;
/// Every size up to the mini-batch.
pub const UCUDNN_BATCH_SIZE_ALL: ucudnnBatchSizePolicy_t = 1;
/// The mini-batch alone: algorithms are chosen, nothing is divided.
pub const UCUDNN_BATCH_SIZE_UNDIVIDED: ucudnnBatchSizePolicy_t = 2;

/// No limit was set.
pub const UCUDNN_NO_LIMIT: usize = usize::MAX;

/// What the pre-v8 query of a Forward algorithm prefers.
pub type cudnnConvolutionFwdPreference_t = c_int;
/// An algorithm that needs no workspace.
pub const CUDNN_CONVOLUTION_FWD_NO_WORKSPACE: cudnnConvolutionFwdPreference_t = 0;
/// The fastest algorithm, whatever workspace it needs.
pub const CUDNN_CONVOLUTION_FWD_PREFER_FASTEST: cudnnConvolutionFwdPreference_t = 1;
/// The fastest algorithm within the limit given.
pub const CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT: cudnnConvolutionFwdPreference_t = 2;

/// What the pre-v8 query of a BackwardData algorithm prefers.
pub type cudnnConvolutionBwdDataPreference_t = c_int;
/// An algorithm that needs no workspace.
pub const CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE: cudnnConvolutionBwdDataPreference_t = 0;
/// The fastest algorithm, whatever workspace it needs.
pub const CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST: cudnnConvolutionBwdDataPreference_t = 1;
/// The fastest algorithm within the limit given.
pub const CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT: cudnnConvolutionBwdDataPreference_t = 2;

/// What the pre-v8 query of a BackwardFilter algorithm prefers.
pub type cudnnConvolutionBwdFilterPreference_t = c_int;
/// An algorithm that needs no workspace.
pub const CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE: cudnnConvolutionBwdFilterPreference_t = 0;
/// The fastest algorithm, whatever workspace it needs.
pub const CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST: cudnnConvolutionBwdFilterPreference_t = 1;
/// The fastest algorithm within the limit given.
pub const CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT: cudnnConvolutionBwdFilterPreference_t = 2;

/// The version of this library: major * 10000 + minor * 100 + patch.
#[unsafe(no_mangle)]
pub extern "C" fn ucudnnGetVersion() -> usize {
    const fn number(text: &str) -> usize {
        let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
        while at < bytes.len() {
            value = value * 10 + (bytes[at] - b'0') as usize;
            at += 1;
        }
        value
    }
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}

fn set(handle: cudnnHandle_t, change: Option<impl FnOnce(&mut Policies)>) -> cudnnStatus_t {
    guarded(
        || match change {
            _ if handle.is_null() => CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            Some(change) => {
                policies::change(handle, change);
                CUDNN_STATUS_SUCCESS
            }
            None => CUDNN_STATUS_BAD_PARAM,
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

unsafe fn get<T>(handle: cudnnHandle_t, value: *mut T, read: impl FnOnce(Policies) -> T) -> cudnnStatus_t {
    guarded(
        || {
            if handle.is_null() || value.is_null() {
                return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
            }
            // SAFETY: not null, and the caller's.
            unsafe { value.write(read(policies::of(handle))) };
            CUDNN_STATUS_SUCCESS
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

/// Sets how workspace limits apply to a handle's convolutions. What was reported to the program
/// before stays true.
///
/// CUDNN_STATUS_BAD_PARAM: the policy is none of ucudnnPolicy_t, or the handle is null; nothing is
/// changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetPolicy(handle: cudnnHandle_t, policy: ucudnnPolicy_t) -> cudnnStatus_t {
    let policy = match policy {
        UCUDNN_POLICY_WR => Some(Policy::Reuse),
        UCUDNN_POLICY_WD => Some(Policy::Division),
        UCUDNN_POLICY_OFF => Some(Policy::Off),
        _ => None,
    };
    set(handle, policy.map(|policy| move |policies: &mut Policies| policies.policy = policy))
}

/// The policy in force for a handle: its own, or that of UCUDNN_POLICY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetPolicy(handle: cudnnHandle_t, policy: *mut ucudnnPolicy_t) -> cudnnStatus_t {
    let read = |policies: Policies| match policies.policy {
        Policy::Reuse => UCUDNN_POLICY_WR,
        Policy::Division => UCUDNN_POLICY_WD,
        Policy::Off => UCUDNN_POLICY_OFF,
    };
    // SAFETY: as ours.
    unsafe { get(handle, policy, read) }
}

/// Sets which micro-batch sizes are tried for a handle's convolutions.
///
/// CUDNN_STATUS_BAD_PARAM: the policy is none of ucudnnBatchSizePolicy_t, or the handle is null;
/// nothing is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetBatchSizePolicy(
    handle: cudnnHandle_t,
    policy: ucudnnBatchSizePolicy_t,
) -> cudnnStatus_t {
    let policy = match policy {
        UCUDNN_BATCH_SIZE_POWER_OF_TWO => Some(BatchSizePolicy::PowerOfTwo),
        UCUDNN_BATCH_SIZE_ALL => Some(BatchSizePolicy::All),
        UCUDNN_BATCH_SIZE_UNDIVIDED => Some(BatchSizePolicy::Undivided),
        _ => None,
    };
    set(handle, policy.map(|policy| move |policies: &mut Policies| policies.batch_size_policy = policy))
}

/// The batch-size policy in force for a handle: its own, or that of UCUDNN_BATCH_SIZE_POLICY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetBatchSizePolicy(
    handle: cudnnHandle_t,
    policy: *mut ucudnnBatchSizePolicy_t,
) -> cudnnStatus_t {
    let read = |policies: Policies| match policies.batch_size_policy {
        BatchSizePolicy::PowerOfTwo => UCUDNN_BATCH_SIZE_POWER_OF_TWO,
        BatchSizePolicy::All => UCUDNN_BATCH_SIZE_ALL,
        BatchSizePolicy::Undivided => UCUDNN_BATCH_SIZE_UNDIVIDED,
    };
    // SAFETY: as ours.
    unsafe { get(handle, policy, read) }
}

fn limit(bytes: usize) -> Option<usize> {
    (bytes != UCUDNN_NO_LIMIT).then_some(bytes)
}

/// Sets the most workspace, in bytes, that any convolution of the handle may use: the least of this
/// and the program's own limit holds. UCUDNN_NO_LIMIT takes it away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetWorkspaceLimit(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    set(handle, Some(move |policies: &mut Policies| policies.workspace_limit = limit(bytes)))
}

/// The limit in force for a handle, in bytes: its own, or that of UCUDNN_WORKSPACE_LIMIT;
/// UCUDNN_NO_LIMIT if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetWorkspaceLimit(handle: cudnnHandle_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: as ours.
    unsafe { get(handle, bytes, |policies| policies.workspace_limit.unwrap_or(UCUDNN_NO_LIMIT)) }
}

/// Sets the most workspace, in bytes, of a convolution for which the program gives no limit.
/// UCUDNN_NO_LIMIT takes it away: then it is what cuDNN's own choice would take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetDefaultWorkspaceLimit(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    set(handle, Some(move |policies: &mut Policies| policies.default_workspace_limit = limit(bytes)))
}

/// The default limit in force for a handle, in bytes: its own, or that of
/// UCUDNN_DEFAULT_WORKSPACE_LIMIT; UCUDNN_NO_LIMIT if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetDefaultWorkspaceLimit(handle: cudnnHandle_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: as ours.
    unsafe { get(handle, bytes, |policies| policies.default_workspace_limit.unwrap_or(UCUDNN_NO_LIMIT)) }
}

/// Writes a description into the caller's text, as `snprintf` would.
unsafe fn describe(
    handle: cudnnHandle_t,
    descriptors: Descriptors,
    algorithm: c_int,
    (text, size, needed): (*mut c_char, usize, *mut usize),
) -> cudnnStatus_t {
    guarded(
        || {
            if handle.is_null() || needed.is_null() || (text.is_null() && size > 0) {
                return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
            }
            // SAFETY: the caller's descriptors.
            let promise = unsafe { answer::told_promise(&descriptors, algorithm) };
            let Some((memory, plan)) = promise.and_then(|p| Some((p.entry.memory, p.plan?))) else {
                return CUDNN_STATUS_NOT_SUPPORTED;
            };
            let description = report::describe(&plan, memory);
            // SAFETY: not null; no more than `size` bytes are written.
            unsafe {
                needed.write(description.len() + 1);
                if size > 0 {
                    let length = description.len().min(size - 1);
                    text.copy_from_nonoverlapping(description.as_ptr().cast(), length);
                    text.add(length).write(0);
                }
            }
            CUDNN_STATUS_SUCCESS
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

/// Describes, as lines of text, the plan that stands behind an algorithm which a query returned:
/// the division, its workspace in bytes and its predicted time in milliseconds.
///
/// Writes at most textSizeInBytes bytes into the caller's text, the last of them 0 (text may be null
/// if that is 0), and the bytes that the whole text takes into neededSizeInBytes.
/// CUDNN_STATUS_NOT_SUPPORTED: no plan stands behind the algorithm; cuDNN runs it as asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetConvolutionForwardPlanDescription(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    algo: cudnnConvolutionFwdAlgo_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let direction = Direction::Forward;
    let descriptors = Descriptors { direction, x: xDesc, w: wDesc, convolution: convDesc, y: yDesc };
    // SAFETY: as ours.
    unsafe { describe(handle, descriptors, algo, (text, textSizeInBytes, neededSizeInBytes)) }
}

/// As ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardData.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetConvolutionBackwardDataPlanDescription(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    algo: cudnnConvolutionBwdDataAlgo_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let direction = Direction::BackwardData;
    let descriptors = Descriptors { direction, x: dxDesc, w: wDesc, convolution: convDesc, y: dyDesc };
    // SAFETY: as ours.
    unsafe { describe(handle, descriptors, algo, (text, textSizeInBytes, neededSizeInBytes)) }
}

/// As ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardFilter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetConvolutionBackwardFilterPlanDescription(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    algo: cudnnConvolutionBwdFilterAlgo_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let direction = Direction::BackwardFilter;
    let descriptors = Descriptors { direction, x: xDesc, w: dwDesc, convolution: convDesc, y: dyDesc };
    // SAFETY: as ours.
    unsafe { describe(handle, descriptors, algo, (text, textSizeInBytes, neededSizeInBytes)) }
}

/// A pre-v8 query: by today's functions, or by the real one where an older cuDNN still has it.
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
                // SAFETY: cuDNN's function of this name, whose prototype this is in all versions.
                let real: Real = unsafe { std::mem::transmute(real.as_ptr()) };
                // SAFETY: the caller's arguments.
                return unsafe { real(handle, a, b, descriptors.convolution, c, preference, limit, algorithm) };
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
            // SAFETY: the caller's arguments.
            match unsafe { answer::algorithm_within(handle, &descriptors, limit) } {
                Ok(found) => {
                    // SAFETY: not null, and the caller's.
                    unsafe { algorithm.write(found) };
                    CUDNN_STATUS_SUCCESS
                }
                Err(status) => status,
            }
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

/// As in cuDNN before version 8: the algorithm to use for cudnnConvolutionForward, within
/// memoryLimitInBytes if the preference says so. Then cudnnGetConvolutionForwardWorkspaceSize gives
/// the workspace.
///
/// CUDNN_STATUS_BAD_PARAM: an unknown preference, or null. CUDNN_STATUS_NOT_SUPPORTED: no algorithm
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
    let descriptors = Descriptors { direction, x: xDesc, w: wDesc, convolution: convDesc, y: yDesc };
    let order = [xDesc.cast(), wDesc.cast(), yDesc.cast()];
    let wanted = (preference, memoryLimitInBytes);
    // SAFETY: as ours.
    unsafe { algorithm_within(c"cudnnGetConvolutionForwardAlgorithm", handle, descriptors, order, wanted, algo) }
}

/// As cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardData.
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
    let descriptors = Descriptors { direction, x: dxDesc, w: wDesc, convolution: convDesc, y: dyDesc };
    let order = [wDesc.cast(), dyDesc.cast(), dxDesc.cast()];
    let wanted = (preference, memoryLimitInBytes);
    // SAFETY: as ours.
    unsafe { algorithm_within(c"cudnnGetConvolutionBackwardDataAlgorithm", handle, descriptors, order, wanted, algo) }
}

/// As cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardFilter.
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
    let descriptors = Descriptors { direction, x: xDesc, w: dwDesc, convolution: convDesc, y: dyDesc };
    let order = [xDesc.cast(), dyDesc.cast(), dwDesc.cast()];
    let wanted = (preference, memoryLimitInBytes);
    // SAFETY: as ours.
    unsafe { algorithm_within(c"cudnnGetConvolutionBackwardFilterAlgorithm", handle, descriptors, order, wanted, algo) }
}
