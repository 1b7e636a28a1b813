//! Workspace Division, steered.

use std::ffi::c_int;

use cudnn_abi::*;

use super::policies::UCUDNN_NO_LIMIT;
use crate::boundary::guarded;
use convolution::division::network::Network;
use cudnn::policies;
use guest::settings::Policy;

/// No layer is named.
pub const UCUDNN_NO_LAYER_ID: u64 = u64::MAX;

/// Runs a function's body for a handle that is not null.
fn steered(handle: cudnnHandle_t, body: impl FnOnce() -> cudnnStatus_t) -> cudnnStatus_t {
    if handle.is_null() {
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    }
    guarded(body, || CUDNN_STATUS_INTERNAL_ERROR)
}

/// Sets the most workspace, in bytes, of all convolutions on the calling thread's device together, and
/// gives the handle the policy UCUDNN_POLICY_WD. Where a total is in force already it is divided anew
/// when the next iteration has begun.
///
/// CUDNN_STATUS_BAD_PARAM: UCUDNN_NO_LIMIT is no total. CUDNN_STATUS_NOT_SUPPORTED: Workspace Division's
/// solver cannot be loaded; the log says why. Nothing is changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetTotalWorkspace(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    steered(handle, || {
        if bytes == UCUDNN_NO_LIMIT {
            return CUDNN_STATUS_BAD_PARAM;
        }
        if !policies::has_solver() {
            return CUDNN_STATUS_NOT_SUPPORTED;
        }
        Network::of(cudnn::device()).set_total(bytes);
        policies::change(handle, |policies| policies.policy = Policy::Division);
        CUDNN_STATUS_SUCCESS
    })
}

/// The total in force on the calling thread's device, in bytes: what was set, or
/// UCUDNN_TOTAL_WORKSPACE_SIZE; UCUDNN_NO_LIMIT if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetTotalWorkspace(handle: cudnnHandle_t, bytes: *mut usize) -> cudnnStatus_t {
    steered(handle, || {
        if bytes.is_null() {
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        }
        // SAFETY: not null, and the caller's.
        unsafe { bytes.write(Network::of(cudnn::device()).total().unwrap_or(UCUDNN_NO_LIMIT)) };
        CUDNN_STATUS_SUCCESS
    })
}

/// Ends collecting: the program has asked for the algorithms of all its layers. What they may take is
/// measured, where it is not known yet, and the total is divided now, and not while the first
/// convolution waits.
///
/// CUDNN_STATUS_NOT_SUPPORTED: the handle's policy is not UCUDNN_POLICY_WD. Where nothing was collected,
/// or convolutions have run already, nothing happens.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnFinishCollection(handle: cudnnHandle_t) -> cudnnStatus_t {
    steered(handle, || {
        let policies = policies::of(handle);
        if policies.policy != Policy::Division {
            return CUDNN_STATUS_NOT_SUPPORTED;
        }
        Network::of(cudnn::device()).finish_collection(&policies);
        CUDNN_STATUS_SUCCESS
    })
}

/// Names the layer that the handle's next queries and convolutions belong to, until another is named;
/// UCUDNN_NO_LAYER_ID names none. Layers that are not named are told apart by their filters' and
/// descriptors' addresses: a program that moves filters, or has several layers use one filter at once,
/// names them. A layer's forward and backward convolutions may share a name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetLayerId(handle: cudnnHandle_t, layerId: u64) -> cudnnStatus_t {
    steered(handle, || {
        policies::change(handle, |policies| policies.layer = (layerId != UCUDNN_NO_LAYER_ID).then_some(layerId));
        CUDNN_STATUS_SUCCESS
    })
}

/// Declares whether one stream runs all convolutions of the calling thread's device, one after another
/// (not 0), or several may (0, the default). On one stream all layers share one segment, and the total
/// is the most that any of them takes, not the sum of all. Convolutions that run on another stream
/// nevertheless get no workspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetOneStream(handle: cudnnHandle_t, oneStream: c_int) -> cudnnStatus_t {
    steered(handle, || {
        Network::of(cudnn::device()).set_one_stream(oneStream != 0);
        CUDNN_STATUS_SUCCESS
    })
}
