//! The functions that set and read descriptors.

use crate::libraries::api;
pub use crate::libraries::{Desc, Ints, Out};
use std::ffi::{c_char, c_int};

api! { Api:
    cudnnGetVersion() -> usize;
    cudnnGetErrorString(c_int) -> *const c_char;
    cudnnGetProperty(c_int, Out) -> c_int;
    cudnnCreateTensorDescriptor(*mut Desc) -> c_int;
    cudnnCreateFilterDescriptor(*mut Desc) -> c_int;
    cudnnCreateConvolutionDescriptor(*mut Desc) -> c_int;
    cudnnCreateActivationDescriptor(*mut Desc) -> c_int;
    cudnnCreateOpTensorDescriptor(*mut Desc) -> c_int;
    cudnnDestroy(Desc) -> c_int;
    cudnnDestroyTensorDescriptor(Desc) -> c_int;
    cudnnDestroyFilterDescriptor(Desc) -> c_int;
    cudnnDestroyConvolutionDescriptor(Desc) -> c_int;
    cudnnDestroyActivationDescriptor(Desc) -> c_int;
    cudnnDestroyOpTensorDescriptor(Desc) -> c_int;
    cudnnSetStream(Desc, Desc) -> c_int;
    cudnnSetTensor4dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetTensor4dDescriptorEx(Desc, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetTensorNdDescriptor(Desc, c_int, c_int, Ints, Ints) -> c_int;
    cudnnSetTensorNdDescriptorEx(Desc, c_int, c_int, c_int, Ints) -> c_int;
    cudnnGetTensor4dDescriptor(Desc, Out, Out, Out, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetTensorNdDescriptor(Desc, c_int, Out, Out, Out, Out) -> c_int;
    cudnnGetTensorSizeInBytes(Desc, *mut usize) -> c_int;
    cudnnSetFilter4dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetFilterNdDescriptor(Desc, c_int, c_int, c_int, Ints) -> c_int;
    cudnnGetFilter4dDescriptor(Desc, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetFilterNdDescriptor(Desc, c_int, Out, Out, Out, Out) -> c_int;
    cudnnGetFilterSizeInBytes(Desc, *mut usize) -> c_int;
    cudnnSetConvolution2dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetConvolutionNdDescriptor(Desc, c_int, Ints, Ints, Ints, c_int, c_int) -> c_int;
    cudnnGetConvolution2dDescriptor(Desc, Out, Out, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetConvolutionNdDescriptor(Desc, c_int, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnSetConvolutionMathType(Desc, c_int) -> c_int;
    cudnnGetConvolutionMathType(Desc, Out) -> c_int;
    cudnnSetConvolutionGroupCount(Desc, c_int) -> c_int;
    cudnnGetConvolutionGroupCount(Desc, Out) -> c_int;
    cudnnSetConvolutionReorderType(Desc, c_int) -> c_int;
    cudnnGetConvolutionReorderType(Desc, Out) -> c_int;
    cudnnGetConvolution2dForwardOutputDim(Desc, Desc, Desc, Out, Out, Out, Out) -> c_int;
    cudnnGetConvolutionNdForwardOutputDim(Desc, Desc, Desc, c_int, Out) -> c_int;
    cudnnSetActivationDescriptor(Desc, c_int, c_int, f64) -> c_int;
    cudnnGetActivationDescriptor(Desc, Out, Out, *mut f64) -> c_int;
    cudnnSetActivationDescriptorSwishBeta(Desc, f64) -> c_int;
    cudnnGetActivationDescriptorSwishBeta(Desc, *mut f64) -> c_int;
    cudnnSetOpTensorDescriptor(Desc, c_int, c_int, c_int) -> c_int;
    cudnnGetOpTensorDescriptor(Desc, Out, Out, Out) -> c_int;
    cudnnGetConvolutionForwardAlgorithmMaxCount(Desc, Out) -> c_int;
    cudnnGetConvolutionForwardWorkspaceSize(Desc, Desc, Desc, Desc, Desc, c_int, *mut usize) -> c_int;
    cudnnDeriveBNTensorDescriptor(Desc, Desc, c_int) -> c_int;
    cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
        Desc, c_int, c_int, Desc, Desc, Desc, Desc, Desc, *mut usize
    ) -> c_int;
    cudnnGetBatchNormalizationBackwardExWorkspaceSize(
        Desc, c_int, c_int, Desc, Desc, Desc, Desc, Desc, Desc, Desc, *mut usize
    ) -> c_int;
    cudnnGetBatchNormalizationTrainingExReserveSpaceSize(Desc, c_int, c_int, Desc, Desc, *mut usize) -> c_int;
    cudnnBatchNormalizationForwardTraining(
        Desc, c_int, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, f64, Desc, Desc, f64, Desc, Desc
    ) -> c_int;
    cudnnBatchNormalizationForwardTrainingEx(
        Desc, c_int, c_int, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, f64, Desc, Desc, f64,
        Desc, Desc, Desc, Desc, usize, Desc, usize
    ) -> c_int;
    cudnnBatchNormalizationForwardInference(
        Desc, c_int, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, f64
    ) -> c_int;
    cudnnBatchNormalizationBackward(
        Desc, c_int, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, f64, Desc,
        Desc
    ) -> c_int;
    cudnnBatchNormalizationBackwardEx(
        Desc, c_int, c_int, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc, Desc,
        Desc, Desc, Desc, Desc, f64, Desc, Desc, Desc, Desc, usize, Desc, usize
    ) -> c_int;
}
