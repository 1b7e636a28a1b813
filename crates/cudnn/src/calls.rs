//! The real cuDNN's functions with their types. Each call loads the resolved address and jumps.
//!
//! Safety, for every function here: the caller keeps the rules of the cuDNN function of the same name. A call returns
//! `CUDNN_STATUS_NOT_SUPPORTED` if the loaded library lacks the function, and `CUDNN_STATUS_NOT_INITIALIZED` if no
//! library is loaded.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments, missing_docs)]

use std::ffi::{c_double, c_int, c_void};

use cudnn_abi::*;

use crate::library;
use cudnn_abi::symbols::Symbol;

pub use gpu::Stream;

/// The status of a call to a missing function.
fn missing() -> cudnnStatus_t {
    if library::path().is_some() { CUDNN_STATUS_NOT_SUPPORTED } else { CUDNN_STATUS_NOT_INITIALIZED }
}

macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {$(
        #[inline]
        pub unsafe fn $name($($argument: $type),*) -> cudnnStatus_t {
            type Function = unsafe extern "C" fn($($type),*) -> cudnnStatus_t;
            // SAFETY: this table repeats cuDNN's C prototype of the named function, and the caller keeps that
            // function's rules.
            unsafe { library::function::<Function>(Symbol::$name).map_or_else(missing, |f| f($($argument),*)) }
        }
    )*};
}

/// Several functions with the same arguments.
macro_rules! alike {
    ($($($name:ident)+: $arguments:tt;)*) => { calls! { $($(fn $name $arguments;)+)* } };
}

calls! {
    fn cudnnGetStream(handle: cudnnHandle_t, stream: *mut Stream);
    fn cudnnSetStream(handle: cudnnHandle_t, stream: Stream);
    fn cudnnCreate(handle: *mut cudnnHandle_t);
    fn cudnnDestroy(handle: cudnnHandle_t);

    fn cudnnCreateTensorDescriptor(descriptor: *mut cudnnTensorDescriptor_t);
    fn cudnnDestroyTensorDescriptor(descriptor: cudnnTensorDescriptor_t);
    fn cudnnSetTensorNdDescriptor(
        descriptor: cudnnTensorDescriptor_t, data_type: cudnnDataType_t, rank: c_int,
        dims: *const c_int, strides: *const c_int,
    );
    fn cudnnGetTensorNdDescriptor(
        descriptor: cudnnTensorDescriptor_t, requested: c_int, data_type: *mut cudnnDataType_t,
        rank: *mut c_int, dims: *mut c_int, strides: *mut c_int,
    );

    fn cudnnCreateFilterDescriptor(descriptor: *mut cudnnFilterDescriptor_t);
    fn cudnnDestroyFilterDescriptor(descriptor: cudnnFilterDescriptor_t);
    fn cudnnSetFilterNdDescriptor(
        descriptor: cudnnFilterDescriptor_t, data_type: cudnnDataType_t,
        format: cudnnTensorFormat_t, rank: c_int, dims: *const c_int,
    );
    fn cudnnGetFilterNdDescriptor(
        descriptor: cudnnFilterDescriptor_t, requested: c_int, data_type: *mut cudnnDataType_t,
        format: *mut cudnnTensorFormat_t, rank: *mut c_int, dims: *mut c_int,
    );

    fn cudnnCreateConvolutionDescriptor(descriptor: *mut cudnnConvolutionDescriptor_t);
    fn cudnnDestroyConvolutionDescriptor(descriptor: cudnnConvolutionDescriptor_t);
    fn cudnnSetConvolutionNdDescriptor(
        descriptor: cudnnConvolutionDescriptor_t, rank: c_int, pad: *const c_int,
        stride: *const c_int, dilation: *const c_int, mode: cudnnConvolutionMode_t,
        compute_type: cudnnDataType_t,
    );
    fn cudnnGetConvolutionNdDescriptor(
        descriptor: cudnnConvolutionDescriptor_t, requested: c_int, rank: *mut c_int,
        pad: *mut c_int, stride: *mut c_int, dilation: *mut c_int,
        mode: *mut cudnnConvolutionMode_t, compute_type: *mut cudnnDataType_t,
    );
    fn cudnnSetConvolutionGroupCount(descriptor: cudnnConvolutionDescriptor_t, groups: c_int);
    fn cudnnGetConvolutionGroupCount(descriptor: cudnnConvolutionDescriptor_t, groups: *mut c_int);
    fn cudnnSetConvolutionMathType(
        descriptor: cudnnConvolutionDescriptor_t, math_type: cudnnMathType_t,
    );
    fn cudnnGetConvolutionMathType(
        descriptor: cudnnConvolutionDescriptor_t, math_type: *mut cudnnMathType_t,
    );

    fn cudnnCreateOpTensorDescriptor(descriptor: *mut cudnnOpTensorDescriptor_t);
    fn cudnnDestroyOpTensorDescriptor(descriptor: cudnnOpTensorDescriptor_t);
    fn cudnnSetOpTensorDescriptor(
        descriptor: cudnnOpTensorDescriptor_t, operation: cudnnOpTensorOp_t,
        compute_type: cudnnDataType_t, propagate_nan: cudnnNanPropagation_t,
    );
    fn cudnnOpTensor(
        handle: cudnnHandle_t, descriptor: cudnnOpTensorDescriptor_t,
        alpha1: *const c_void, a: cudnnTensorDescriptor_t, a_data: *const c_void,
        alpha2: *const c_void, b: cudnnTensorDescriptor_t, b_data: *const c_void,
        beta: *const c_void, c: cudnnTensorDescriptor_t, c_data: *mut c_void,
    );
    fn cudnnGetActivationDescriptor(
        descriptor: cudnnActivationDescriptor_t, mode: *mut cudnnActivationMode_t,
        propagate_nan: *mut cudnnNanPropagation_t, coefficient: *mut f64,
    );

    fn cudnnConvolutionBiasActivationForward(
        handle: cudnnHandle_t, alpha1: *const c_void,
        x: cudnnTensorDescriptor_t, x_data: *const c_void,
        w: cudnnFilterDescriptor_t, w_data: *const c_void,
        convolution: cudnnConvolutionDescriptor_t, algorithm: cudnnConvolutionFwdAlgo_t,
        workspace: *mut c_void, workspace_size: usize, alpha2: *const c_void,
        z: cudnnTensorDescriptor_t, z_data: *const c_void,
        bias: cudnnTensorDescriptor_t, bias_data: *const c_void,
        activation: cudnnActivationDescriptor_t, y: cudnnTensorDescriptor_t, y_data: *mut c_void,
    );
}

// The three directions differ only in the order and types of their tensors. Here each takes untyped descriptors (first,
// second, third) in its own order.
alike! {
    cudnnConvolutionForward cudnnConvolutionBackwardData cudnnConvolutionBackwardFilter: (
        handle: cudnnHandle_t, alpha: *const c_void, a: *mut c_void, a_data: *const c_void, b: *mut c_void,
        b_data: *const c_void, convolution: cudnnConvolutionDescriptor_t, algorithm: c_int,
        workspace: *mut c_void, workspace_size: usize, beta: *const c_void, c: *mut c_void, c_data: *mut c_void,
    );
}

/// The stream that a handle's work goes to; `None` if cuDNN reports none. The handle must be live.
pub unsafe fn stream_of(handle: cudnnHandle_t) -> Option<Stream> {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the caller promises a live handle, and cuDNN writes one stream to `stream`.
    (unsafe { cudnnGetStream(handle, &mut stream) } == CUDNN_STATUS_SUCCESS).then_some(stream)
}

/// The graph API.
pub mod backend {
    use super::*;

    calls! {
        fn cudnnBackendCreateDescriptor(
            kind: cudnnBackendDescriptorType_t, descriptor: *mut cudnnBackendDescriptor_t,
        );
        fn cudnnBackendDestroyDescriptor(descriptor: cudnnBackendDescriptor_t);
        fn cudnnBackendInitialize(descriptor: cudnnBackendDescriptor_t);
        fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t);
        fn cudnnBackendSetAttribute(
            descriptor: cudnnBackendDescriptor_t, name: cudnnBackendAttributeName_t,
            element: cudnnBackendAttributeType_t, count: i64, elements: *const c_void,
        );
        fn cudnnBackendGetAttribute(
            descriptor: cudnnBackendDescriptor_t, name: cudnnBackendAttributeName_t,
            element: cudnnBackendAttributeType_t, requested: i64, count: *mut i64, elements: *mut c_void,
        );
        fn cudnnBackendExecute(
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t,
        );
        fn cudnnGetExecutionPlanWorkspaceSize(
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t, size: *mut usize,
        );
        fn cudnnBackendPopulateCudaGraph(
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t, graph: cudaGraph_t,
        );
        fn cudnnBackendUpdateCudaGraph(
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t, graph: cudaGraph_t,
        );
    }
}

/// The RNN API.
pub mod rnn {
    use super::*;

    calls! {
        fn cudnnCreateRNNDescriptor(descriptor: *mut cudnnRNNDescriptor_t);
        fn cudnnDestroyRNNDescriptor(descriptor: cudnnRNNDescriptor_t);
        fn cudnnCreateRNNDataDescriptor(descriptor: *mut cudnnRNNDataDescriptor_t);
        fn cudnnDestroyRNNDataDescriptor(descriptor: cudnnRNNDataDescriptor_t);
        fn cudnnCreateDropoutDescriptor(descriptor: *mut cudnnDropoutDescriptor_t);
        fn cudnnDestroyDropoutDescriptor(descriptor: cudnnDropoutDescriptor_t);
        fn cudnnSetDropoutDescriptor(
            descriptor: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, probability: f32, states: *mut c_void,
            states_size: usize, seed: u64,
        );
        fn cudnnSetRNNDescriptor_v8(
            descriptor: cudnnRNNDescriptor_t, algo: cudnnRNNAlgo_t, cell: cudnnRNNMode_t, bias: cudnnRNNBiasMode_t,
            direction: cudnnDirectionMode_t, input_mode: cudnnRNNInputMode_t, data_type: cudnnDataType_t,
            math_precision: cudnnDataType_t, math_type: cudnnMathType_t, input: i32, hidden: i32, projection: i32,
            layers: i32, dropout: cudnnDropoutDescriptor_t, flags: u32,
        );
        fn cudnnSetRNNDataDescriptor(
            descriptor: cudnnRNNDataDescriptor_t, data_type: cudnnDataType_t, layout: cudnnRNNDataLayout_t,
            steps: c_int, batch: c_int, vector: c_int, lengths: *const c_int, padding_fill: *mut c_void,
        );
        fn cudnnGetRNNDescriptor_v8(
            descriptor: cudnnRNNDescriptor_t, algo: *mut cudnnRNNAlgo_t, cell: *mut cudnnRNNMode_t,
            bias: *mut cudnnRNNBiasMode_t, direction: *mut cudnnDirectionMode_t,
            input_mode: *mut cudnnRNNInputMode_t, data_type: *mut cudnnDataType_t,
            math_precision: *mut cudnnDataType_t, math_type: *mut cudnnMathType_t, input: *mut i32,
            hidden: *mut i32, projection: *mut i32, layers: *mut i32,
            dropout: *mut cudnnDropoutDescriptor_t, flags: *mut u32,
        );
        fn cudnnRNNGetClip_v9(
            descriptor: cudnnRNNDescriptor_t, mode: *mut cudnnRNNClipMode_t, least: *mut f64, greatest: *mut f64,
        );
        fn cudnnGetRNNDataDescriptor(
            descriptor: cudnnRNNDataDescriptor_t, data_type: *mut cudnnDataType_t,
            layout: *mut cudnnRNNDataLayout_t, steps: *mut c_int, batch: *mut c_int, vector: *mut c_int,
            requested: c_int, lengths: *mut c_int, padding_fill: *mut c_void,
        );
        fn cudnnGetRNNWeightSpaceSize(
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, size: *mut usize,
        );
        fn cudnnGetRNNWeightParams(
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, pseudo_layer: i32, size: usize,
            space: *const c_void, id: i32, matrix: cudnnTensorDescriptor_t, matrix_data: *mut *mut c_void,
            bias: cudnnTensorDescriptor_t, bias_data: *mut *mut c_void,
        );
        fn cudnnGetRNNTempSpaceSizes(
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, mode: cudnnForwardMode_t,
            x: cudnnRNNDataDescriptor_t, workspace_size: *mut usize, reserve_size: *mut usize,
        );
        fn cudnnGetDropoutDescriptor(
            descriptor: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, probability: *mut f32,
            states: *mut *mut c_void, seed: *mut u64,
        );
        fn cudnnDropoutGetReserveSpaceSize(tensor: cudnnTensorDescriptor_t, size: *mut usize);
        fn cudnnDropoutForward(
            handle: cudnnHandle_t, dropout: cudnnDropoutDescriptor_t, x: cudnnTensorDescriptor_t,
            x_data: *const c_void, y: cudnnTensorDescriptor_t, y_data: *mut c_void, reserve: *mut c_void,
            reserve_size: usize,
        );
        fn cudnnDropoutBackward(
            handle: cudnnHandle_t, dropout: cudnnDropoutDescriptor_t, dy: cudnnTensorDescriptor_t,
            dy_data: *const c_void, dx: cudnnTensorDescriptor_t, dx_data: *mut c_void, reserve: *mut c_void,
            reserve_size: usize,
        );
    }
}

/// The queries of the three directions differ only in the order and types of their descriptors. Here each query takes
/// untyped descriptors (first, second, third) in its own order.
pub mod query {
    use super::*;

    /// A query's result for one algorithm. cuDNN has one such structure per direction, all three with the same layout.
    pub type AlgoPerf = cudnnConvolutionFwdAlgoPerfStruct;

    const _: () = {
        assert!(size_of::<AlgoPerf>() == size_of::<cudnnConvolutionBwdDataAlgoPerfStruct>());
        assert!(size_of::<AlgoPerf>() == size_of::<cudnnConvolutionBwdFilterAlgoPerfStruct>());
    };

    alike! {
        cudnnGetConvolutionForwardAlgorithmMaxCount
        cudnnGetConvolutionBackwardDataAlgorithmMaxCount
        cudnnGetConvolutionBackwardFilterAlgorithmMaxCount: (handle: cudnnHandle_t, count: *mut c_int);

        cudnnGetConvolutionForwardAlgorithm_v7
        cudnnGetConvolutionBackwardDataAlgorithm_v7
        cudnnGetConvolutionBackwardFilterAlgorithm_v7
        cudnnFindConvolutionForwardAlgorithm
        cudnnFindConvolutionBackwardDataAlgorithm
        cudnnFindConvolutionBackwardFilterAlgorithm: (
            handle: cudnnHandle_t, a: *mut c_void, b: *mut c_void,
            convolution: cudnnConvolutionDescriptor_t, c: *mut c_void,
            requested: c_int, returned: *mut c_int, results: *mut AlgoPerf,
        );

        cudnnFindConvolutionForwardAlgorithmEx
        cudnnFindConvolutionBackwardDataAlgorithmEx
        cudnnFindConvolutionBackwardFilterAlgorithmEx: (
            handle: cudnnHandle_t, a: *mut c_void, a_data: *const c_void, b: *mut c_void,
            b_data: *const c_void, convolution: cudnnConvolutionDescriptor_t, c: *mut c_void,
            c_data: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut AlgoPerf,
            workspace: *mut c_void, workspace_size: usize,
        );

        cudnnGetConvolutionForwardWorkspaceSize
        cudnnGetConvolutionBackwardDataWorkspaceSize
        cudnnGetConvolutionBackwardFilterWorkspaceSize: (
            handle: cudnnHandle_t, a: *mut c_void, b: *mut c_void,
            convolution: cudnnConvolutionDescriptor_t, c: *mut c_void, algorithm: c_int,
            size: *mut usize,
        );
    }
}

macro_rules! calls_by_prototype {
    ($($function:ident as $arguments:ident { $($argument:ident: $type:ty),* $(,)? })*) => {
        calls! { $(fn $function($($argument: $type),*);)* }
    };
}

cudnn_abi::for_each_prototype!(calls_by_prototype);
