//! Descriptor functions against the real cuDNN, which needs no GPU for them: the same calls on both libraries give the
//! same statuses and read back the same values.
//!
//! Runs if `UCUDNN_TEST_REAL_CUDNN` names the folder of the real `libcudnn.so.9`. Omitted, because cuDNN crashes or is
//! undefined there: null for results and arrays; NHWC in two dimensions; fewer than two output dimensions. Omitted
//! because hostdnn refuses it: CUDNN_TENSOR_NCHW_VECT_C with its vector types.

mod api;
mod batch_norm;
mod calls;
mod session;

use crate::libraries::both;
use api::Api;
use calls::{Dice, call};
use rand::SeedableRng;
use rand::rngs::StdRng;
use session::{Session, UNWRITTEN};
use std::ffi::CStr;
use std::ptr::null_mut;

#[test]
fn descriptors_are_set_and_read_back_alike() {
    let Some(libraries) = both(Api::open) else { return };
    let mut compared = 0;
    for seed in 0..2000 {
        let transcripts = libraries.each_ref().map(|api| {
            let session = Session::new(api);
            let mut dice = Dice(StdRng::seed_from_u64(seed));
            let unset = [session.read_tensor(8), session.read_filter(8), session.read_convolution(6)].concat();
            let mut lines = vec![("unset".to_owned(), unset)];
            lines.extend((0..20).map(|_| call(&session, &mut dice)));
            lines
        });
        let [ours, real] = transcripts;
        for (i, (ours, real)) in ours.iter().zip(&real).enumerate() {
            assert_eq!(ours, real, "seed {seed}, call {i}: hostdnn on the left");
            compared += 1;
        }
    }
    eprintln!("{compared} calls compared");
}

#[test]
fn versions_and_error_strings_are_alike() {
    let Some([ours, real]) = both(Api::open) else { return };
    // SAFETY: the strings live as long as their libraries.
    unsafe {
        assert_eq!((ours.cudnnGetVersion)(), (real.cudnnGetVersion)());
        let name = |api: &Api, status| CStr::from_ptr((api.cudnnGetErrorString)(status)).to_owned();
        for status in -10..8000 {
            assert_eq!(name(&ours, status), name(&real, status), "{status}");
        }
        for property in -1..5 {
            let values = [&ours, &real].map(|api| {
                let mut value = UNWRITTEN;
                ((api.cudnnGetProperty)(property, &mut value), value)
            });
            assert_eq!(values[0], values[1], "property {property}");
        }
    }
}

#[test]
fn null_is_refused_alike() {
    let Some([ours, real]) = both(Api::open) else { return };
    let statuses = |api: &Api| {
        let (mut value, mut size) = ([UNWRITTEN; 10], 77);
        let v = value.as_mut_ptr();
        let ones = [1; 8].as_ptr();
        let null = null_mut();
        // SAFETY: cuDNN checks for the null that each of these calls passes.
        unsafe {
            vec![
                (api.cudnnDestroy)(null),
                (api.cudnnSetStream)(null, null),
                (api.cudnnGetProperty)(0, null.cast()),
                (api.cudnnCreateTensorDescriptor)(null.cast()),
                (api.cudnnCreateFilterDescriptor)(null.cast()),
                (api.cudnnCreateConvolutionDescriptor)(null.cast()),
                (api.cudnnCreateActivationDescriptor)(null.cast()),
                (api.cudnnCreateOpTensorDescriptor)(null.cast()),
                (api.cudnnDestroyTensorDescriptor)(null),
                (api.cudnnDestroyFilterDescriptor)(null),
                (api.cudnnDestroyConvolutionDescriptor)(null),
                (api.cudnnDestroyActivationDescriptor)(null),
                (api.cudnnDestroyOpTensorDescriptor)(null),
                (api.cudnnSetTensor4dDescriptor)(null, 0, 0, 1, 1, 1, 1),
                (api.cudnnSetTensor4dDescriptorEx)(null, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                (api.cudnnSetTensorNdDescriptor)(null, 0, 4, ones, ones),
                (api.cudnnSetTensorNdDescriptorEx)(null, 0, 0, 4, ones),
                (api.cudnnGetTensor4dDescriptor)(null, v, v, v, v, v, v, v, v, v),
                (api.cudnnGetTensorNdDescriptor)(null, 4, v, v, v, v),
                (api.cudnnGetTensorSizeInBytes)(null, &mut size),
                (api.cudnnSetFilter4dDescriptor)(null, 0, 0, 1, 1, 1, 1),
                (api.cudnnSetFilterNdDescriptor)(null, 0, 0, 4, ones),
                (api.cudnnGetFilter4dDescriptor)(null, v, v, v, v, v, v),
                (api.cudnnGetFilterNdDescriptor)(null, 4, v, v, v, v),
                (api.cudnnGetFilterSizeInBytes)(null, &mut size),
                (api.cudnnSetConvolution2dDescriptor)(null, 1, 1, 1, 1, 1, 1, 1, 0),
                (api.cudnnSetConvolutionNdDescriptor)(null, 2, ones, ones, ones, 1, 0),
                (api.cudnnGetConvolution2dDescriptor)(null, v, v, v, v, v, v, v, v),
                (api.cudnnGetConvolutionNdDescriptor)(null, 2, v, v, v, v, v, v),
                (api.cudnnSetConvolutionMathType)(null, 0),
                (api.cudnnGetConvolutionMathType)(null, v),
                (api.cudnnSetConvolutionGroupCount)(null, 1),
                (api.cudnnGetConvolutionGroupCount)(null, v),
                (api.cudnnSetConvolutionReorderType)(null, 0),
                (api.cudnnGetConvolutionReorderType)(null, v),
                (api.cudnnGetConvolution2dForwardOutputDim)(null, null, null, v, v, v, v),
                (api.cudnnGetConvolutionNdForwardOutputDim)(null, null, null, 4, v),
                (api.cudnnSetActivationDescriptor)(null, 1, 0, 0.0),
                (api.cudnnSetActivationDescriptorSwishBeta)(null, 1.0),
                (api.cudnnSetOpTensorDescriptor)(null, 0, 0, 0),
                (api.cudnnGetOpTensorDescriptor)(null, v, v, v),
                (api.cudnnGetConvolutionForwardAlgorithmMaxCount)(null, v),
                (api.cudnnGetConvolutionForwardWorkspaceSize)(null, null, null, null, null, 0, &mut size),
            ]
        }
    };
    assert_eq!(statuses(&ours), statuses(&real));
}
