//! Faults on demand in the RNN API, in a process of their own: a process has one list of armed faults.

use crate::child::is_child;
use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

#[test]
fn rnn_calls_fail_as_they_are_told() {
    if !is_child("rnn_faults::rnn_calls_fail_as_they_are_told", &[]) {
        return;
    }
    let arm = |faults: &str| {
        let faults = CString::new(faults).unwrap();
        // SAFETY: the argument is a C string.
        assert_eq!(unsafe { hostdnnFail(faults.as_ptr()) }, CUDNN_STATUS_SUCCESS);
    };
    let (mut handle, mut rnn, mut data, mut size) = (null_mut(), null_mut(), null_mut(), 77);
    // SAFETY: descriptors are live, or null where the call does not read them.
    unsafe {
        arm("cudnnCreateRNNDescriptor=4003");
        assert_eq!(cudnnCreateRNNDescriptor(&mut rnn), CUDNN_STATUS_ALLOC_FAILED);
        assert!(rnn.is_null());
        assert_eq!(cudnnCreateRNNDescriptor(&mut rnn), CUDNN_STATUS_SUCCESS);
        assert_eq!(cudnnCreateRNNDataDescriptor(&mut data), CUDNN_STATUS_SUCCESS);
        assert_eq!(cudnnCreate(&mut handle), CUDNN_STATUS_SUCCESS);

        let weights = |size: &mut usize| cudnnGetRNNWeightSpaceSize(handle, rnn, size);
        arm("cudnnGetRNNWeightSpaceSize:2,cudnnRNNForward:1+,cudnnGetRNNTempSpaceSizes=panic");
        assert_eq!([weights(&mut size), size as i32], [CUDNN_STATUS_SUCCESS, 0]);
        assert_eq!(weights(&mut size), CUDNN_STATUS_EXECUTION_FAILED);
        let temporary = cudnnGetRNNTempSpaceSizes(handle, rnn, 0, data, &mut size, null_mut());
        assert_eq!(temporary, CUDNN_STATUS_INTERNAL_ERROR);
        let (none, nothing) = (null_mut(), null());
        for _ in 0..2 {
            let status = cudnnRNNForward(
                handle,
                rnn,
                0,
                null(),
                data,
                nothing,
                data,
                none,
                null_mut(),
                nothing,
                none,
                null_mut(),
                nothing,
                none,
                0,
                nothing,
                0,
                none,
                0,
                none,
            );
            assert_eq!(status, CUDNN_STATUS_EXECUTION_FAILED);
        }
        let size = &raw mut size;
        arm("cudnnRNNBackwardData_v8=4003,cudnnRNNBackwardWeights_v8=panic,cudnnDropoutForward:2,\
             cudnnDropoutBackward:1+=3000,cudnnDropoutGetReserveSpaceSize");
        let backward_data = || {
            cudnnRNNBackwardData_v8(
                handle,
                rnn,
                null(),
                data,
                nothing,
                nothing,
                data,
                none,
                null_mut(),
                nothing,
                nothing,
                none,
                null_mut(),
                nothing,
                nothing,
                none,
                0,
                nothing,
                0,
                none,
                0,
                none,
            )
        };
        assert_eq!([backward_data(), backward_data()], [CUDNN_STATUS_ALLOC_FAILED, CUDNN_STATUS_BAD_PARAM]);
        let backward_weights = cudnnRNNBackwardWeights_v8(
            handle,
            rnn,
            0,
            null(),
            data,
            nothing,
            null_mut(),
            nothing,
            data,
            nothing,
            0,
            none,
            0,
            none,
            0,
            none,
        );
        assert_eq!(backward_weights, CUDNN_STATUS_INTERNAL_ERROR);
        let no_tensor = null_mut();
        for status in [CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_EXECUTION_FAILED] {
            let forward = cudnnDropoutForward(handle, null_mut(), no_tensor, nothing, no_tensor, none, none, 0);
            assert_eq!(forward, status);
            let backward = cudnnDropoutBackward(handle, null_mut(), no_tensor, nothing, no_tensor, none, none, 0);
            assert_eq!(backward, CUDNN_STATUS_NOT_SUPPORTED);
        }
        assert_eq!(cudnnDropoutGetReserveSpaceSize(no_tensor, size), CUDNN_STATUS_EXECUTION_FAILED);
        arm("");
        assert_eq!(cudnnDestroyRNNDescriptor(rnn), CUDNN_STATUS_SUCCESS);
        assert_eq!(cudnnDestroyRNNDataDescriptor(data), CUDNN_STATUS_SUCCESS);
        assert_eq!(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    }
}
