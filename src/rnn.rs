//! The functions of the RNN API that we override to run inference and training on our own kernels.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use cudnn_abi::*;

use super::boundary::guarded;
use super::overrides::Answer;
use cudnn::arguments::{RnnBackwardData, RnnBackwardWeights, RnnForward};
use cudnn::calls;
use recurrent::inference::forward::workspace_size;
use recurrent::network::call::Call;
use recurrent::training::calls::{after_a_panic, concerns_us, raise_sizes, run_backward_data, run_backward_weights};

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
    let status =
        unsafe { calls::cudnnGetRNNTempSpaceSizes(handle, rnnDesc, fwdMode, xDesc, workSpaceSize, reserveSpaceSize) };
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

/// Inference runs on our own kernels where they are faster, and training where we own the reserve.
impl Answer for RnnForward {
    unsafe fn answer(&self) -> cudnnStatus_t {
        let call = Call(*self);
        // SAFETY: the program keeps cuDNN's rules; after a panic the second run computes every result again.
        let by_cudnn = || unsafe { self.by_cudnn() };
        let trains = self.mode == CUDNN_FWD_MODE_TRAINING;
        // SAFETY: the program keeps cuDNN's rules.
        guarded(|| unsafe { call.run() }, || if trains { after_a_panic(by_cudnn) } else { by_cudnn() })
    }
}

/// It runs on our own kernels where we own the reserve.
impl Answer for RnnBackwardData {
    unsafe fn answer(&self) -> cudnnStatus_t {
        // SAFETY: the program keeps cuDNN's rules.
        let by_cudnn = || unsafe { self.by_cudnn() };
        if !concerns_us() {
            return by_cudnn();
        }
        // SAFETY: the program keeps cuDNN's rules.
        guarded(|| unsafe { run_backward_data(self) }, || after_a_panic(by_cudnn))
    }
}

/// It runs on our own kernels where we own the reserve.
impl Answer for RnnBackwardWeights {
    unsafe fn answer(&self) -> cudnnStatus_t {
        // SAFETY: the program keeps cuDNN's rules.
        let by_cudnn = || unsafe { self.by_cudnn() };
        if !concerns_us() {
            return by_cudnn();
        }
        // SAFETY: the program keeps cuDNN's rules.
        guarded(|| unsafe { run_backward_weights(self) }, || after_a_panic(by_cudnn))
    }
}
