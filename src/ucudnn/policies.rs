//! The policies by which a handle's convolutions are planned.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::boundary::guarded;
use convolution::division::network::Network;
use cudnn::policies::{self, Policies};
use guest::settings::Policy;
use planner::BatchSizePolicy;

/// How workspace limits apply to a handle's convolutions.
pub type ucudnnPolicy_t = c_int;
/// Workspace Reuse: each convolution is planned on its own. The default.
pub const UCUDNN_POLICY_WR: ucudnnPolicy_t = 0;
/// Workspace Division: the convolutions of a network share one budget.
pub const UCUDNN_POLICY_WD: ucudnnPolicy_t = 1;
/// Every call goes through to cuDNN unchanged.
pub const UCUDNN_POLICY_OFF: ucudnnPolicy_t = 2;

/// The micro-batch sizes to try.
pub type ucudnnBatchSizePolicy_t = c_int;
/// 1, 2, 4, ... and the mini-batch itself. The default.
pub const UCUDNN_BATCH_SIZE_POWER_OF_TWO: ucudnnBatchSizePolicy_t = 0;
/// Every size up to the mini-batch.
pub const UCUDNN_BATCH_SIZE_ALL: ucudnnBatchSizePolicy_t = 1;
/// Only the mini-batch itself: algorithms are chosen, but nothing is divided.
pub const UCUDNN_BATCH_SIZE_UNDIVIDED: ucudnnBatchSizePolicy_t = 2;

/// No limit.
pub const UCUDNN_NO_LIMIT: usize = usize::MAX;

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
            // SAFETY: not null, and the caller promises a place for the value.
            unsafe { value.write(read(policies::of(handle))) };
            CUDNN_STATUS_SUCCESS
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

/// Sets how workspace limits apply to a handle's convolutions. Results reported to the program before remain valid.
///
/// CUDNN_STATUS_BAD_PARAM: the policy is not a ucudnnPolicy_t, or it is UCUDNN_POLICY_WD and no total is set. An error
/// changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetPolicy(handle: cudnnHandle_t, policy: ucudnnPolicy_t) -> cudnnStatus_t {
    let policy = match policy {
        UCUDNN_POLICY_WR => Some(Policy::Reuse),
        UCUDNN_POLICY_WD if handle.is_null() => None,
        UCUDNN_POLICY_WD => {
            let status = guarded(can_divide, || CUDNN_STATUS_INTERNAL_ERROR);
            if status != CUDNN_STATUS_SUCCESS {
                return status;
            }
            Some(Policy::Division)
        }
        UCUDNN_POLICY_OFF => Some(Policy::Off),
        _ => None,
    };
    set(handle, policy.map(|policy| move |policies: &mut Policies| policies.policy = policy))
}

fn can_divide() -> cudnnStatus_t {
    match Network::of(cudnn::device()).total() {
        Some(_) => CUDNN_STATUS_SUCCESS,
        None => CUDNN_STATUS_BAD_PARAM,
    }
}

/// Gets the policy in force for a handle: its own, or the one in UCUDNN_POLICY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetPolicy(handle: cudnnHandle_t, policy: *mut ucudnnPolicy_t) -> cudnnStatus_t {
    let read = |policies: Policies| match policies.policy {
        Policy::Reuse => UCUDNN_POLICY_WR,
        Policy::Division => UCUDNN_POLICY_WD,
        Policy::Off => UCUDNN_POLICY_OFF,
    };
    // SAFETY: the program promises a place for the value.
    unsafe { get(handle, policy, read) }
}

/// Sets the micro-batch sizes to try for a handle's convolutions.
///
/// CUDNN_STATUS_BAD_PARAM: the policy is not a ucudnnBatchSizePolicy_t. An error changes nothing.
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

/// Gets the batch-size policy in force for a handle: its own, or the one in UCUDNN_BATCH_SIZE_POLICY.
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
    // SAFETY: the program promises a place for the value.
    unsafe { get(handle, policy, read) }
}

fn limit(bytes: usize) -> Option<usize> {
    (bytes != UCUDNN_NO_LIMIT).then_some(bytes)
}

/// Sets the largest workspace, in bytes, that a convolution of the handle may use. The program's own limit applies too:
/// the smaller one holds. UCUDNN_NO_LIMIT removes this limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetWorkspaceLimit(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    set(handle, Some(move |policies: &mut Policies| policies.workspace_limit = limit(bytes)))
}

/// Gets the workspace limit in force for a handle, in bytes: its own, or the one in UCUDNN_WORKSPACE_LIMIT, or
/// UCUDNN_NO_LIMIT if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetWorkspaceLimit(handle: cudnnHandle_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: the program promises a place for the value.
    unsafe { get(handle, bytes, |policies| policies.workspace_limit.unwrap_or(UCUDNN_NO_LIMIT)) }
}

/// Sets the largest workspace, in bytes, of a convolution for which the program gives no limit. UCUDNN_NO_LIMIT removes
/// this default: the limit is then the workspace of cuDNN's own choice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetDefaultWorkspaceLimit(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    set(handle, Some(move |policies: &mut Policies| policies.default_workspace_limit = limit(bytes)))
}

/// Gets the default limit in force for a handle, in bytes: its own, or the one in UCUDNN_DEFAULT_WORKSPACE_LIMIT, or
/// UCUDNN_NO_LIMIT if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetDefaultWorkspaceLimit(handle: cudnnHandle_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: the program promises a place for the value.
    unsafe { get(handle, bytes, |policies| policies.default_workspace_limit.unwrap_or(UCUDNN_NO_LIMIT)) }
}
