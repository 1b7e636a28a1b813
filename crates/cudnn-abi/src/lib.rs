//! cuDNN 9's C types, statuses and enumerators that the shim and hostdnn use.
//!
//! Enumerations are integers, never Rust enums: a newer cuDNN or a careless program may pass values missing here.
//! Descriptors and handles are opaque. Names are cuDNN's own, so that the headers made from this crate read as a cuDNN
//! header does.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(missing_docs)] // the names are cuDNN's; its reference documents them

use std::ffi::{c_double, c_float, c_int};

mod graph;
mod host;
mod prototypes;
mod rnn;
pub mod symbols;
pub use graph::*;
pub use host::*;
pub use rnn::*;

/// An execution context: a device, a stream and the library's state for them.
pub struct cudnnContext(());
/// A tensor's type, dimensions and strides.
pub struct cudnnTensorStruct(());
/// A filter's type, layout and dimensions.
pub struct cudnnFilterStruct(());
/// A convolution's padding, strides, dilation, groups, mode and math type.
pub struct cudnnConvolutionStruct(());
/// An activation function and its parameter.
pub struct cudnnActivationStruct(());
/// An element-wise operation on two tensors.
pub struct cudnnOpTensorStruct(());

/// A CUDA stream, opaque to all but CUDA.
pub struct CUstream_st(());

pub type cudaStream_t = *mut CUstream_st;
pub type cudnnHandle_t = *mut cudnnContext;
pub type cudnnTensorDescriptor_t = *mut cudnnTensorStruct;
pub type cudnnFilterDescriptor_t = *mut cudnnFilterStruct;
pub type cudnnConvolutionDescriptor_t = *mut cudnnConvolutionStruct;
pub type cudnnActivationDescriptor_t = *mut cudnnActivationStruct;
pub type cudnnOpTensorDescriptor_t = *mut cudnnOpTensorStruct;

pub type cudnnStatus_t = c_int;
pub const CUDNN_STATUS_SUCCESS: cudnnStatus_t = 0;
pub const CUDNN_STATUS_NOT_INITIALIZED: cudnnStatus_t = 1001;
pub const CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH: cudnnStatus_t = 1002;
pub const CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH: cudnnStatus_t = 1003;
pub const CUDNN_STATUS_DEPRECATED: cudnnStatus_t = 1004;
pub const CUDNN_STATUS_LICENSE_ERROR: cudnnStatus_t = 1005;
pub const CUDNN_STATUS_RUNTIME_IN_PROGRESS: cudnnStatus_t = 1006;
pub const CUDNN_STATUS_RUNTIME_FP_OVERFLOW: cudnnStatus_t = 1007;
pub const CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED: cudnnStatus_t = 1008;
pub const CUDNN_STATUS_BAD_PARAM: cudnnStatus_t = 2000;
pub const CUDNN_STATUS_INVALID_VALUE: cudnnStatus_t = 2001;
pub const CUDNN_STATUS_BAD_PARAM_NULL_POINTER: cudnnStatus_t = 2002;
pub const CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: cudnnStatus_t = 2003;
pub const CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: cudnnStatus_t = 2004;
pub const CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND: cudnnStatus_t = 2005;
pub const CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: cudnnStatus_t = 2006;
pub const CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH: cudnnStatus_t = 2007;
pub const CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH: cudnnStatus_t = 2008;
pub const CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES: cudnnStatus_t = 2009;
pub const CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE: cudnnStatus_t = 2010;
pub const CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH: cudnnStatus_t = 2011;
pub const CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE: cudnnStatus_t = 2012;
pub const CUDNN_STATUS_NOT_SUPPORTED: cudnnStatus_t = 3000;
pub const CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN: cudnnStatus_t = 3001;
pub const CUDNN_STATUS_NOT_SUPPORTED_SHAPE: cudnnStatus_t = 3002;
pub const CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE: cudnnStatus_t = 3003;
pub const CUDNN_STATUS_NOT_SUPPORTED_LAYOUT: cudnnStatus_t = 3004;
pub const CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER: cudnnStatus_t = 3005;
pub const CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART: cudnnStatus_t = 3006;
pub const CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH: cudnnStatus_t = 3007;
pub const CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: cudnnStatus_t = 3008;
pub const CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE: cudnnStatus_t = 3009;
pub const CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT: cudnnStatus_t = 3010;
pub const CUDNN_STATUS_NOT_SUPPORTED_PADDING: cudnnStatus_t = 3011;
pub const CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM: cudnnStatus_t = 3012;
pub const CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API: cudnnStatus_t = 3013;
pub const CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE: cudnnStatus_t = 3014;
pub const CUDNN_STATUS_INTERNAL_ERROR: cudnnStatus_t = 4000;
pub const CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED: cudnnStatus_t = 4001;
pub const CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE: cudnnStatus_t = 4002;
pub const CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: cudnnStatus_t = 4003;
pub const CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: cudnnStatus_t = 4004;
pub const CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM: cudnnStatus_t = 4005;
pub const CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED: cudnnStatus_t = 4006;
pub const CUDNN_STATUS_EXECUTION_FAILED: cudnnStatus_t = 5000;
pub const CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER: cudnnStatus_t = 5001;
pub const CUDNN_STATUS_EXECUTION_FAILED_CUBLAS: cudnnStatus_t = 5002;
pub const CUDNN_STATUS_EXECUTION_FAILED_CUDART: cudnnStatus_t = 5003;
pub const CUDNN_STATUS_EXECUTION_FAILED_CURAND: cudnnStatus_t = 5004;
// cuDNN 8's names, which cuDNN 9 keeps.
pub const CUDNN_STATUS_ALLOC_FAILED: cudnnStatus_t = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
pub const CUDNN_STATUS_ARCH_MISMATCH: cudnnStatus_t = CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH;
pub const CUDNN_STATUS_MAPPING_ERROR: cudnnStatus_t = CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED;
pub const CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING: cudnnStatus_t =
    CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING;
pub const CUDNN_STATUS_VERSION_MISMATCH: cudnnStatus_t = CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH;

/// CUDA's enumeration: 0 major version, 1 minor version, 2 patch level.
pub type libraryPropertyType = c_int;

pub type cudnnDataType_t = c_int;
pub const CUDNN_DATA_FLOAT: cudnnDataType_t = 0;
pub const CUDNN_DATA_DOUBLE: cudnnDataType_t = 1;
pub const CUDNN_DATA_HALF: cudnnDataType_t = 2;
pub const CUDNN_DATA_INT8: cudnnDataType_t = 3;
pub const CUDNN_DATA_INT32: cudnnDataType_t = 4;
pub const CUDNN_DATA_INT8x4: cudnnDataType_t = 5;
pub const CUDNN_DATA_UINT8: cudnnDataType_t = 6;
pub const CUDNN_DATA_UINT8x4: cudnnDataType_t = 7;
pub const CUDNN_DATA_INT8x32: cudnnDataType_t = 8;
pub const CUDNN_DATA_BFLOAT16: cudnnDataType_t = 9;
pub const CUDNN_DATA_INT64: cudnnDataType_t = 10;
pub const CUDNN_DATA_BOOLEAN: cudnnDataType_t = 11;
pub const CUDNN_DATA_FP8_E4M3: cudnnDataType_t = 12;
pub const CUDNN_DATA_FP8_E5M2: cudnnDataType_t = 13;

pub type cudnnMathType_t = c_int;
pub const CUDNN_DEFAULT_MATH: cudnnMathType_t = 0;
pub const CUDNN_TENSOR_OP_MATH: cudnnMathType_t = 1;
pub const CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION: cudnnMathType_t = 2;
pub const CUDNN_FMA_MATH: cudnnMathType_t = 3;

pub type cudnnNanPropagation_t = c_int;
pub const CUDNN_NOT_PROPAGATE_NAN: cudnnNanPropagation_t = 0;
pub const CUDNN_PROPAGATE_NAN: cudnnNanPropagation_t = 1;

pub type cudnnDeterminism_t = c_int;
pub const CUDNN_NON_DETERMINISTIC: cudnnDeterminism_t = 0;
pub const CUDNN_DETERMINISTIC: cudnnDeterminism_t = 1;

pub type cudnnReorderType_t = c_int;
pub const CUDNN_DEFAULT_REORDER: cudnnReorderType_t = 0;
pub const CUDNN_NO_REORDER: cudnnReorderType_t = 1;

pub type cudnnTensorFormat_t = c_int;
pub const CUDNN_TENSOR_NCHW: cudnnTensorFormat_t = 0;
pub const CUDNN_TENSOR_NHWC: cudnnTensorFormat_t = 1;
pub const CUDNN_TENSOR_NCHW_VECT_C: cudnnTensorFormat_t = 2;

pub type cudnnActivationMode_t = c_int;
pub const CUDNN_ACTIVATION_SIGMOID: cudnnActivationMode_t = 0;
pub const CUDNN_ACTIVATION_RELU: cudnnActivationMode_t = 1;
pub const CUDNN_ACTIVATION_TANH: cudnnActivationMode_t = 2;
pub const CUDNN_ACTIVATION_CLIPPED_RELU: cudnnActivationMode_t = 3;
pub const CUDNN_ACTIVATION_ELU: cudnnActivationMode_t = 4;
pub const CUDNN_ACTIVATION_IDENTITY: cudnnActivationMode_t = 5;
pub const CUDNN_ACTIVATION_SWISH: cudnnActivationMode_t = 6;

pub type cudnnBatchNormMode_t = c_int;
pub const CUDNN_BATCHNORM_PER_ACTIVATION: cudnnBatchNormMode_t = 0;
pub const CUDNN_BATCHNORM_SPATIAL: cudnnBatchNormMode_t = 1;
pub const CUDNN_BATCHNORM_SPATIAL_PERSISTENT: cudnnBatchNormMode_t = 2;

pub type cudnnBatchNormOps_t = c_int;
pub const CUDNN_BATCHNORM_OPS_BN: cudnnBatchNormOps_t = 0;
pub const CUDNN_BATCHNORM_OPS_BN_ACTIVATION: cudnnBatchNormOps_t = 1;
pub const CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION: cudnnBatchNormOps_t = 2;

/// The least epsilon of batch normalization.
pub const CUDNN_BN_MIN_EPSILON: c_double = 0.0;

pub type cudnnOpTensorOp_t = c_int;
pub const CUDNN_OP_TENSOR_ADD: cudnnOpTensorOp_t = 0;
pub const CUDNN_OP_TENSOR_MUL: cudnnOpTensorOp_t = 1;
pub const CUDNN_OP_TENSOR_MIN: cudnnOpTensorOp_t = 2;
pub const CUDNN_OP_TENSOR_MAX: cudnnOpTensorOp_t = 3;
pub const CUDNN_OP_TENSOR_SQRT: cudnnOpTensorOp_t = 4;
pub const CUDNN_OP_TENSOR_NOT: cudnnOpTensorOp_t = 5;

pub type cudnnConvolutionMode_t = c_int;
pub const CUDNN_CONVOLUTION: cudnnConvolutionMode_t = 0;
pub const CUDNN_CROSS_CORRELATION: cudnnConvolutionMode_t = 1;

pub type cudnnConvolutionFwdAlgo_t = c_int;
pub const CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM: cudnnConvolutionFwdAlgo_t = 0;
pub const CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM: cudnnConvolutionFwdAlgo_t = 1;
pub const CUDNN_CONVOLUTION_FWD_ALGO_GEMM: cudnnConvolutionFwdAlgo_t = 2;
pub const CUDNN_CONVOLUTION_FWD_ALGO_DIRECT: cudnnConvolutionFwdAlgo_t = 3;
pub const CUDNN_CONVOLUTION_FWD_ALGO_FFT: cudnnConvolutionFwdAlgo_t = 4;
pub const CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING: cudnnConvolutionFwdAlgo_t = 5;
pub const CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD: cudnnConvolutionFwdAlgo_t = 6;
pub const CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED: cudnnConvolutionFwdAlgo_t = 7;
pub const CUDNN_CONVOLUTION_FWD_ALGO_COUNT: cudnnConvolutionFwdAlgo_t = 8;

pub type cudnnConvolutionBwdDataAlgo_t = c_int;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_0: cudnnConvolutionBwdDataAlgo_t = 0;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_1: cudnnConvolutionBwdDataAlgo_t = 1;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT: cudnnConvolutionBwdDataAlgo_t = 2;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING: cudnnConvolutionBwdDataAlgo_t = 3;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD: cudnnConvolutionBwdDataAlgo_t = 4;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED: cudnnConvolutionBwdDataAlgo_t = 5;
pub const CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT: cudnnConvolutionBwdDataAlgo_t = 6;

pub type cudnnConvolutionBwdFilterAlgo_t = c_int;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0: cudnnConvolutionBwdFilterAlgo_t = 0;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1: cudnnConvolutionBwdFilterAlgo_t = 1;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT: cudnnConvolutionBwdFilterAlgo_t = 2;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3: cudnnConvolutionBwdFilterAlgo_t = 3;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD: cudnnConvolutionBwdFilterAlgo_t = 4;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED: cudnnConvolutionBwdFilterAlgo_t = 5;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING: cudnnConvolutionBwdFilterAlgo_t = 6;
pub const CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT: cudnnConvolutionBwdFilterAlgo_t = 7;

/// The most dimensions of a tensor descriptor.
pub const CUDNN_DIM_MAX: c_int = 8;

/// cuDNN's result for one Forward algorithm: `time` in milliseconds (-1 if not measured), `memory` in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cudnnConvolutionFwdAlgoPerfStruct {
    pub algo: cudnnConvolutionFwdAlgo_t,
    pub status: cudnnStatus_t,
    pub time: c_float,
    pub memory: usize,
    pub determinism: cudnnDeterminism_t,
    pub mathType: cudnnMathType_t,
    pub reserved: [c_int; 3],
}
pub type cudnnConvolutionFwdAlgoPerf_t = cudnnConvolutionFwdAlgoPerfStruct;

/// cuDNN's result for one BackwardData algorithm: `time` in milliseconds (-1 if not measured), `memory` in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cudnnConvolutionBwdDataAlgoPerfStruct {
    pub algo: cudnnConvolutionBwdDataAlgo_t,
    pub status: cudnnStatus_t,
    pub time: c_float,
    pub memory: usize,
    pub determinism: cudnnDeterminism_t,
    pub mathType: cudnnMathType_t,
    pub reserved: [c_int; 3],
}
pub type cudnnConvolutionBwdDataAlgoPerf_t = cudnnConvolutionBwdDataAlgoPerfStruct;

/// cuDNN's result for one BackwardFilter algorithm: `time` in milliseconds (-1 if not measured), `memory` in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cudnnConvolutionBwdFilterAlgoPerfStruct {
    pub algo: cudnnConvolutionBwdFilterAlgo_t,
    pub status: cudnnStatus_t,
    pub time: c_float,
    pub memory: usize,
    pub determinism: cudnnDeterminism_t,
    pub mathType: cudnnMathType_t,
    pub reserved: [c_int; 3],
}
pub type cudnnConvolutionBwdFilterAlgoPerf_t = cudnnConvolutionBwdFilterAlgoPerfStruct;
