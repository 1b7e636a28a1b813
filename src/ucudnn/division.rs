//! Control of Workspace Division.

use std::ffi::c_int;

use cudnn_abi::*;

use super::policies::UCUDNN_NO_LIMIT;
use crate::boundary::guarded;
use convolution::division::network::Network;
use cudnn::policies;
use guest::settings::Policy;

/// No layer.
pub const UCUDNN_NO_LAYER_ID: u64 = u64::MAX;

/// Runs a function's body, unless the handle is null.
fn steered(handle: cudnnHandle_t, body: impl FnOnce() -> cudnnStatus_t) -> cudnnStatus_t {
    if handle.is_null() {
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    }
    guarded(body, || CUDNN_STATUS_INTERNAL_ERROR)
}

/// Sets the total workspace, in bytes, of all convolutions on the calling thread's device, and sets the handle's policy
/// to UCUDNN_POLICY_WD. If a total was already in force, the new total is divided once the next iteration has begun.
///
/// CUDNN_STATUS_BAD_PARAM: UCUDNN_NO_LIMIT is not a total. An error changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetTotalWorkspace(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    steered(handle, || {
        if bytes == UCUDNN_NO_LIMIT {
            return CUDNN_STATUS_BAD_PARAM;
        }
        Network::of(cudnn::device()).set_total(bytes);
        policies::change(handle, |policies| policies.policy = Policy::Division);
        CUDNN_STATUS_SUCCESS
    })
}

/// Gets the total in force on the calling thread's device, in bytes: the total that was set, or the one in
/// UCUDNN_TOTAL_WORKSPACE_SIZE, or UCUDNN_NO_LIMIT if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetTotalWorkspace(handle: cudnnHandle_t, bytes: *mut usize) -> cudnnStatus_t {
    steered(handle, || {
        if bytes.is_null() {
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        }
        // SAFETY: not null, and the caller promises a place for the size.
        unsafe { bytes.write(Network::of(cudnn::device()).total().unwrap_or(UCUDNN_NO_LIMIT)) };
        CUDNN_STATUS_SUCCESS
    })
}

/// Ends collecting: the program has queried the algorithms of all its layers. The call makes the measurements that
/// these layers lack and divides the total, so that the first convolution does not have to wait.
///
/// CUDNN_STATUS_NOT_SUPPORTED: the handle's policy is not UCUDNN_POLICY_WD. The call does nothing if no layer was
/// collected or if convolutions have already run.
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

/// Names the layer that the handle's next queries and convolutions belong to, until the next call; UCUDNN_NO_LAYER_ID
/// ends the naming. Unnamed layers are distinguished by the addresses of their filters and descriptors: a program that
/// moves filters, or uses one filter in several layers at once, should name them. A layer's forward and backward
/// convolutions may share a name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetLayerId(handle: cudnnHandle_t, layerId: u64) -> cudnnStatus_t {
    steered(handle, || {
        policies::change(handle, |policies| policies.layer = (layerId != UCUDNN_NO_LAYER_ID).then_some(layerId));
        CUDNN_STATUS_SUCCESS
    })
}

/// Declares that one stream runs all convolutions of the calling thread's device in sequence (not 0), or that several
/// streams may run them (0, the default). On one stream all layers share one segment, so the total limits the largest
/// layer, not the sum of all layers. A convolution on any other stream then gets no workspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetOneStream(handle: cudnnHandle_t, oneStream: c_int) -> cudnnStatus_t {
    steered(handle, || {
        Network::of(cudnn::device()).set_one_stream(oneStream != 0);
        CUDNN_STATUS_SUCCESS
    })
}
