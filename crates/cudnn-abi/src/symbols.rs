//! The one list of cuDNN 9's public functions. It generates the trampolines, the table of the real library's addresses,
//! the overrides and the tests. Pure data: every module may use it.
//!
//! The names come from the dynamic symbols of `libcudnn.so.9` 9.28.1 (`nm -D`), the return types from its headers. No
//! header declares `cudnn*Backdoor*` and `cudnnGetRNNDropoutLocationsInternal`; their code shows that these four
//! functions return statuses. `since` is the first of the wheels 9.0.0, 9.1.0, 9.5.1, 9.10.2, 9.19.0 and each minor
//! version from 9.20 to 9.28 that exports the function. The `libcudnn.so.9` of none of these wheels exports a `cudnn*`
//! function missing here; what a part such as `libcudnn_graph.so.9` exports besides is for cuDNN's other parts.

use std::ffi::CStr;

/// A function's return type, which decides what a caller gets when the real library lacks the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// `cudnnStatus_t`.
    Status,
    /// `size_t`.
    Size,
    /// `const char *`, never null.
    Text,
    /// `void`; the function writes text to the buffer (first argument) of the given size (second).
    Message,
}

/// The function that takes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The real library's, through a trampoline (`src/forward.rs`).
    Forwarded,
    /// The function of that name in `src/`.
    Overridden,
}

/// Calls `$callback!` with one row `name: return, since, route;` per function.
///
/// To override a function, change the last word of its row to `overridden`, put its prototype among the overridden ones
/// in [`for_each_prototype`](crate::for_each_prototype), and answer its calls in `src/`.
#[macro_export]
macro_rules! for_each_symbol {
    ($callback:ident) => {
        $callback! {
        cudnnActivationBackward: status, 9.0, forwarded;
        cudnnActivationForward: status, 9.0, forwarded;
        cudnnAddTensor: status, 9.0, forwarded;
        cudnnAdvVersionCheck: status, 9.0, forwarded;
        cudnnB2BCausalConv1dBackward: status, 9.24, forwarded;
        cudnnB2BCausalConv1dForward: status, 9.24, forwarded;
        cudnnBackendCreateDescriptor: status, 9.0, overridden;
        cudnnBackendDestroyDescriptor: status, 9.0, overridden;
        cudnnBackendExecute: status, 9.0, overridden;
        cudnnBackendFinalize: status, 9.0, overridden;
        cudnnBackendGetAttribute: status, 9.0, overridden;
        cudnnBackendInitialize: status, 9.0, overridden;
        cudnnBackendPopulateCudaGraph: status, 9.5, overridden;
        cudnnBackendSetAttribute: status, 9.0, overridden;
        cudnnBackendUpdateCudaGraph: status, 9.5, overridden;
        cudnnBatchNormalizationBackward: status, 9.0, overridden;
        cudnnBatchNormalizationBackwardEx: status, 9.0, overridden;
        cudnnBatchNormalizationForwardInference: status, 9.0, overridden;
        cudnnBatchNormalizationForwardTraining: status, 9.0, overridden;
        cudnnBatchNormalizationForwardTrainingEx: status, 9.0, overridden;
        cudnnBuildRNNDynamic: status, 9.0, forwarded;
        cudnnCTCLoss: status, 9.0, forwarded;
        cudnnCTCLoss_v8: status, 9.0, forwarded;
        cudnnCausalConv1dBackward: status, 9.22, forwarded;
        cudnnCausalConv1dForward: status, 9.22, forwarded;
        cudnnCausalConv1dNwhBackward: status, 9.24, forwarded;
        cudnnCausalConv1dNwhForward: status, 9.24, forwarded;
        cudnnCnnVersionCheck: status, 9.0, forwarded;
        cudnnConvolutionBackwardBias: status, 9.0, forwarded;
        cudnnConvolutionBackwardData: status, 9.0, overridden;
        cudnnConvolutionBackwardFilter: status, 9.0, overridden;
        cudnnConvolutionBiasActivationForward: status, 9.0, overridden;
        cudnnConvolutionForward: status, 9.0, overridden;
        cudnnCreate: status, 9.0, overridden;
        cudnnCreateActivationDescriptor: status, 9.0, forwarded;
        cudnnCreateAttnDescriptor: status, 9.0, forwarded;
        cudnnCreateCTCLossDescriptor: status, 9.0, forwarded;
        cudnnCreateConvolutionDescriptor: status, 9.0, forwarded;
        cudnnCreateDropoutDescriptor: status, 9.0, forwarded;
        cudnnCreateFilterDescriptor: status, 9.0, forwarded;
        cudnnCreateFusedOpsConstParamPack: status, 9.0, forwarded;
        cudnnCreateFusedOpsPlan: status, 9.0, forwarded;
        cudnnCreateFusedOpsVariantParamPack: status, 9.0, forwarded;
        cudnnCreateLRNDescriptor: status, 9.0, forwarded;
        cudnnCreateOpTensorDescriptor: status, 9.0, forwarded;
        cudnnCreatePoolingDescriptor: status, 9.0, forwarded;
        cudnnCreateRNNDataDescriptor: status, 9.0, forwarded;
        cudnnCreateRNNDescriptor: status, 9.0, forwarded;
        cudnnCreateReduceTensorDescriptor: status, 9.0, forwarded;
        cudnnCreateSeqDataDescriptor: status, 9.0, forwarded;
        cudnnCreateSpatialTransformerDescriptor: status, 9.0, forwarded;
        cudnnCreateTensorDescriptor: status, 9.0, forwarded;
        cudnnCreateTensorTransformDescriptor: status, 9.0, forwarded;
        cudnnDeriveBNTensorDescriptor: status, 9.0, forwarded;
        cudnnDeriveNormTensorDescriptor: status, 9.0, forwarded;
        cudnnDestroy: status, 9.0, overridden;
        cudnnDestroyActivationDescriptor: status, 9.0, forwarded;
        cudnnDestroyAttnDescriptor: status, 9.0, forwarded;
        cudnnDestroyCTCLossDescriptor: status, 9.0, forwarded;
        cudnnDestroyConvolutionDescriptor: status, 9.0, forwarded;
        cudnnDestroyDropoutDescriptor: status, 9.0, forwarded;
        cudnnDestroyFilterDescriptor: status, 9.0, forwarded;
        cudnnDestroyFusedOpsConstParamPack: status, 9.0, forwarded;
        cudnnDestroyFusedOpsPlan: status, 9.0, forwarded;
        cudnnDestroyFusedOpsVariantParamPack: status, 9.0, forwarded;
        cudnnDestroyLRNDescriptor: status, 9.0, forwarded;
        cudnnDestroyOpTensorDescriptor: status, 9.0, forwarded;
        cudnnDestroyPoolingDescriptor: status, 9.0, forwarded;
        cudnnDestroyRNNDataDescriptor: status, 9.0, forwarded;
        cudnnDestroyRNNDescriptor: status, 9.0, forwarded;
        cudnnDestroyReduceTensorDescriptor: status, 9.0, forwarded;
        cudnnDestroySeqDataDescriptor: status, 9.0, forwarded;
        cudnnDestroySpatialTransformerDescriptor: status, 9.0, forwarded;
        cudnnDestroyTensorDescriptor: status, 9.0, forwarded;
        cudnnDestroyTensorTransformDescriptor: status, 9.0, forwarded;
        cudnnDivisiveNormalizationBackward: status, 9.0, forwarded;
        cudnnDivisiveNormalizationForward: status, 9.0, forwarded;
        cudnnDropoutBackward: status, 9.0, forwarded;
        cudnnDropoutForward: status, 9.0, forwarded;
        cudnnDropoutGetReserveSpaceSize: status, 9.0, forwarded;
        cudnnDropoutGetStatesSize: status, 9.0, forwarded;
        cudnnFFTCausalConv1dBackward: status, 9.26, forwarded;
        cudnnFFTCausalConv1dForward: status, 9.26, forwarded;
        cudnnFindConvolutionBackwardDataAlgorithm: status, 9.0, overridden;
        cudnnFindConvolutionBackwardDataAlgorithmEx: status, 9.0, overridden;
        cudnnFindConvolutionBackwardFilterAlgorithm: status, 9.0, overridden;
        cudnnFindConvolutionBackwardFilterAlgorithmEx: status, 9.0, overridden;
        cudnnFindConvolutionForwardAlgorithm: status, 9.0, overridden;
        cudnnFindConvolutionForwardAlgorithmEx: status, 9.0, overridden;
        cudnnFusedOpsExecute: status, 9.0, forwarded;
        cudnnGetActivationDescriptor: status, 9.0, forwarded;
        cudnnGetActivationDescriptorSwishBeta: status, 9.0, forwarded;
        cudnnGetAttnDescriptor: status, 9.0, forwarded;
        cudnnGetBackdoor: status, 9.0, forwarded;
        cudnnGetBatchNormalizationBackwardExWorkspaceSize: status, 9.0, forwarded;
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize: status, 9.0, forwarded;
        cudnnGetBatchNormalizationTrainingExReserveSpaceSize: status, 9.0, forwarded;
        cudnnGetCTCLossDescriptor: status, 9.0, forwarded;
        cudnnGetCTCLossDescriptorEx: status, 9.0, forwarded;
        cudnnGetCTCLossDescriptor_v8: status, 9.0, forwarded;
        cudnnGetCTCLossDescriptor_v9: status, 9.0, forwarded;
        cudnnGetCTCLossWorkspaceSize: status, 9.0, forwarded;
        cudnnGetCTCLossWorkspaceSize_v8: status, 9.0, forwarded;
        cudnnGetCallback: status, 9.0, forwarded;
        cudnnGetConvolution2dDescriptor: status, 9.0, forwarded;
        cudnnGetConvolution2dForwardOutputDim: status, 9.0, forwarded;
        cudnnGetConvolutionBackwardDataAlgorithmMaxCount: status, 9.0, forwarded;
        cudnnGetConvolutionBackwardDataAlgorithm_v7: status, 9.0, overridden;
        cudnnGetConvolutionBackwardDataWorkspaceSize: status, 9.0, overridden;
        cudnnGetConvolutionBackwardFilterAlgorithmMaxCount: status, 9.0, forwarded;
        cudnnGetConvolutionBackwardFilterAlgorithm_v7: status, 9.0, overridden;
        cudnnGetConvolutionBackwardFilterWorkspaceSize: status, 9.0, overridden;
        cudnnGetConvolutionForwardAlgorithmMaxCount: status, 9.0, forwarded;
        cudnnGetConvolutionForwardAlgorithm_v7: status, 9.0, overridden;
        cudnnGetConvolutionForwardWorkspaceSize: status, 9.0, overridden;
        cudnnGetConvolutionGroupCount: status, 9.0, forwarded;
        cudnnGetConvolutionMathType: status, 9.0, forwarded;
        cudnnGetConvolutionNdDescriptor: status, 9.0, forwarded;
        cudnnGetConvolutionNdForwardOutputDim: status, 9.0, forwarded;
        cudnnGetConvolutionReorderType: status, 9.0, forwarded;
        cudnnGetCudartVersion: size, 9.0, forwarded;
        cudnnGetDropoutDescriptor: status, 9.0, forwarded;
        cudnnGetErrorString: text, 9.0, forwarded;
        cudnnGetExecutionPlanWorkspaceSize: status, 9.23, overridden;
        cudnnGetFilter4dDescriptor: status, 9.0, forwarded;
        cudnnGetFilterNdDescriptor: status, 9.0, forwarded;
        cudnnGetFilterSizeInBytes: status, 9.0, forwarded;
        cudnnGetFoldedConvBackwardDataDescriptors: status, 9.0, forwarded;
        cudnnGetFusedOpsConstParamPackAttribute: status, 9.0, forwarded;
        cudnnGetFusedOpsVariantParamPackAttribute: status, 9.0, forwarded;
        cudnnGetLRNDescriptor: status, 9.0, forwarded;
        cudnnGetLastErrorString: message, 9.0, forwarded;
        cudnnGetMaxDeviceVersion: size, 9.0, forwarded;
        cudnnGetMultiHeadAttnBuffers: status, 9.0, forwarded;
        cudnnGetMultiHeadAttnWeights: status, 9.0, forwarded;
        cudnnGetNormalizationBackwardWorkspaceSize: status, 9.0, forwarded;
        cudnnGetNormalizationForwardTrainingWorkspaceSize: status, 9.0, forwarded;
        cudnnGetNormalizationTrainingReserveSpaceSize: status, 9.0, forwarded;
        cudnnGetOpTensorDescriptor: status, 9.0, forwarded;
        cudnnGetPooling2dDescriptor: status, 9.0, forwarded;
        cudnnGetPooling2dForwardOutputDim: status, 9.0, forwarded;
        cudnnGetPoolingNdDescriptor: status, 9.0, forwarded;
        cudnnGetPoolingNdForwardOutputDim: status, 9.0, forwarded;
        cudnnGetProperty: status, 9.0, forwarded;
        cudnnGetRNNDataDescriptor: status, 9.0, forwarded;
        cudnnGetRNNDescriptor_v8: status, 9.0, forwarded;
        cudnnGetRNNDropoutLocationsInternal: status, 9.0, forwarded;
        cudnnGetRNNTempSpaceSizes: status, 9.0, overridden;
        cudnnGetRNNWeightParams: status, 9.0, forwarded;
        cudnnGetRNNWeightSpaceSize: status, 9.0, forwarded;
        cudnnGetReduceTensorDescriptor: status, 9.0, forwarded;
        cudnnGetReductionIndicesSize: status, 9.0, forwarded;
        cudnnGetReductionWorkspaceSize: status, 9.0, forwarded;
        cudnnGetSeqDataDescriptor: status, 9.0, forwarded;
        cudnnGetStream: status, 9.0, forwarded;
        cudnnGetTensor4dDescriptor: status, 9.0, forwarded;
        cudnnGetTensorNdDescriptor: status, 9.0, forwarded;
        cudnnGetTensorSizeInBytes: status, 9.0, forwarded;
        cudnnGetTensorTransformDescriptor: status, 9.0, forwarded;
        cudnnGetVersion: size, 9.0, forwarded;
        cudnnGnnAggSimpleBackward: status, 9.26, forwarded;
        cudnnGnnAggSimpleForward: status, 9.26, forwarded;
        cudnnGnnMhaGatBackward: status, 9.28, forwarded;
        cudnnGnnMhaGatForward: status, 9.28, forwarded;
        cudnnGnnMhaGatV2Backward: status, 9.28, forwarded;
        cudnnGnnMhaGatV2Forward: status, 9.28, forwarded;
        cudnnGraphVersionCheck: status, 9.0, forwarded;
        cudnnIm2Col: status, 9.0, forwarded;
        cudnnInitTransformDest: status, 9.0, forwarded;
        cudnnLRNCrossChannelBackward: status, 9.0, forwarded;
        cudnnLRNCrossChannelForward: status, 9.0, forwarded;
        cudnnLongFFTCausalConv1dBackward: status, 9.26, forwarded;
        cudnnLongFFTCausalConv1dForward: status, 9.26, forwarded;
        cudnnLongFFTCausalConv1dGetBufferSizes: status, 9.26, forwarded;
        cudnnMakeFusedOpsPlan: status, 9.0, forwarded;
        cudnnMultiHeadAttnBackwardData: status, 9.0, forwarded;
        cudnnMultiHeadAttnBackwardWeights: status, 9.0, forwarded;
        cudnnMultiHeadAttnForward: status, 9.0, forwarded;
        cudnnNormalizationBackward: status, 9.0, forwarded;
        cudnnNormalizationForwardInference: status, 9.0, forwarded;
        cudnnNormalizationForwardTraining: status, 9.0, forwarded;
        cudnnOpTensor: status, 9.0, forwarded;
        cudnnOpsVersionCheck: status, 9.0, forwarded;
        cudnnPoolingBackward: status, 9.0, forwarded;
        cudnnPoolingForward: status, 9.0, forwarded;
        cudnnQueryRuntimeError: status, 9.0, forwarded;
        cudnnRNNBackwardData_v8: status, 9.0, overridden;
        cudnnRNNBackwardWeights_v8: status, 9.0, overridden;
        cudnnRNNForward: status, 9.0, overridden;
        cudnnRNNGetClip_v8: status, 9.0, forwarded;
        cudnnRNNGetClip_v9: status, 9.0, forwarded;
        cudnnRNNSetClip_v8: status, 9.0, forwarded;
        cudnnRNNSetClip_v9: status, 9.0, forwarded;
        cudnnReduceTensor: status, 9.0, forwarded;
        cudnnReorderFilterAndBias: status, 9.0, forwarded;
        cudnnRestoreDropoutDescriptor: status, 9.0, forwarded;
        cudnnScaleTensor: status, 9.0, forwarded;
        cudnnSetActivationDescriptor: status, 9.0, forwarded;
        cudnnSetActivationDescriptorSwishBeta: status, 9.0, forwarded;
        cudnnSetAttnDescriptor: status, 9.0, forwarded;
        cudnnSetBackdoor: status, 9.0, forwarded;
        cudnnSetBackdoorEx: status, 9.0, forwarded;
        cudnnSetCTCLossDescriptor: status, 9.0, forwarded;
        cudnnSetCTCLossDescriptorEx: status, 9.0, forwarded;
        cudnnSetCTCLossDescriptor_v8: status, 9.0, forwarded;
        cudnnSetCTCLossDescriptor_v9: status, 9.0, forwarded;
        cudnnSetCallback: status, 9.0, forwarded;
        cudnnSetConvolution2dDescriptor: status, 9.0, forwarded;
        cudnnSetConvolutionGroupCount: status, 9.0, forwarded;
        cudnnSetConvolutionMathType: status, 9.0, forwarded;
        cudnnSetConvolutionNdDescriptor: status, 9.0, forwarded;
        cudnnSetConvolutionReorderType: status, 9.0, forwarded;
        cudnnSetDropoutDescriptor: status, 9.0, forwarded;
        cudnnSetFilter4dDescriptor: status, 9.0, forwarded;
        cudnnSetFilterNdDescriptor: status, 9.0, forwarded;
        cudnnSetFusedOpsConstParamPackAttribute: status, 9.0, forwarded;
        cudnnSetFusedOpsVariantParamPackAttribute: status, 9.0, forwarded;
        cudnnSetLRNDescriptor: status, 9.0, forwarded;
        cudnnSetOpTensorDescriptor: status, 9.0, forwarded;
        cudnnSetPooling2dDescriptor: status, 9.0, forwarded;
        cudnnSetPoolingNdDescriptor: status, 9.0, forwarded;
        cudnnSetRNNDataDescriptor: status, 9.0, forwarded;
        cudnnSetRNNDescriptor_v8: status, 9.0, forwarded;
        cudnnSetReduceTensorDescriptor: status, 9.0, forwarded;
        cudnnSetSeqDataDescriptor: status, 9.0, forwarded;
        cudnnSetSpatialTransformerNdDescriptor: status, 9.0, forwarded;
        cudnnSetStream: status, 9.0, forwarded;
        cudnnSetTensor: status, 9.0, forwarded;
        cudnnSetTensor4dDescriptor: status, 9.0, forwarded;
        cudnnSetTensor4dDescriptorEx: status, 9.0, forwarded;
        cudnnSetTensorNdDescriptor: status, 9.0, forwarded;
        cudnnSetTensorNdDescriptorEx: status, 9.0, forwarded;
        cudnnSetTensorTransformDescriptor: status, 9.0, forwarded;
        cudnnSoftmaxBackward: status, 9.0, forwarded;
        cudnnSoftmaxForward: status, 9.0, forwarded;
        cudnnSpatialTfGridGeneratorBackward: status, 9.0, forwarded;
        cudnnSpatialTfGridGeneratorForward: status, 9.0, forwarded;
        cudnnSpatialTfSamplerBackward: status, 9.0, forwarded;
        cudnnSpatialTfSamplerForward: status, 9.0, forwarded;
        cudnnSubquadraticOpsVersionCheck: status, 9.22, forwarded;
        cudnnTransformFilter: status, 9.0, forwarded;
        cudnnTransformTensor: status, 9.0, forwarded;
        cudnnTransformTensorEx: status, 9.0, forwarded;
        }
    };
}

macro_rules! define {
    ($($name:ident: $ret:ident, $since:literal, $route:ident;)*) => {
        /// A public function of cuDNN 9. The discriminant is its row in the list.
        #[allow(non_camel_case_types, missing_docs)] // the names are cuDNN's
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Symbol { $($name,)* }

        impl Symbol {
            /// All functions, in the order of the discriminants.
            pub const ALL: &'static [Symbol] = &[$(Symbol::$name,)*];
        }

        static ROWS: [Row; Symbol::ALL.len()] = [$(Row {
            // SAFETY: the literal contains one NUL, at its end.
            name: unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
            returns: returns!($ret),
            since: stringify!($since),
            route: route!($route),
        },)*];
    };
}

macro_rules! returns {
    (status) => {
        Return::Status
    };
    (size) => {
        Return::Size
    };
    (text) => {
        Return::Text
    };
    (message) => {
        Return::Message
    };
}

macro_rules! route {
    (forwarded) => {
        Route::Forwarded
    };
    (overridden) => {
        Route::Overridden
    };
}

struct Row {
    name: &'static CStr,
    returns: Return,
    since: &'static str,
    route: Route,
}

for_each_symbol!(define);

impl Symbol {
    /// The function's name.
    pub fn name(self) -> &'static CStr {
        ROWS[self as usize].name
    }

    /// The function's return type.
    pub fn returns(self) -> Return {
        ROWS[self as usize].returns
    }

    /// The first minor version of cuDNN 9 known to have the function.
    pub fn since(self) -> &'static str {
        ROWS[self as usize].since
    }

    /// The function that takes a call.
    pub fn route(self) -> Route {
        ROWS[self as usize].route
    }
}
