//! The prototypes of cuDNN's functions that return a status, as far as anybody here calls, overrides or exports them.
//! They generate the typed calls, a struct of each overridden function's arguments, the functions that the library
//! exports in cuDNN's place, hostdnn's exports, and hostdnn's header.

/// Calls `$callback!` with one row `function { argument: type, … }` per function, the arguments in cuDNN's order. The
/// overridden functions come first and have a name for the struct of their arguments. All others are forwarded.
#[macro_export]
macro_rules! for_each_prototype {
    ($callback:ident) => {
        $callback! {
        overridden {
        cudnnCreate as CreateHandle { handle: *mut cudnnHandle_t }
        cudnnDestroy as DestroyHandle { handle: cudnnHandle_t }
        cudnnGetConvolutionForwardAlgorithm_v7 as GetConvolutionForwardAlgorithm {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, w_descriptor: cudnnFilterDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, y_descriptor: cudnnTensorDescriptor_t, requested: c_int,
            returned: *mut c_int, results: *mut cudnnConvolutionFwdAlgoPerf_t,
        }
        cudnnFindConvolutionForwardAlgorithm as FindConvolutionForwardAlgorithm {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, w_descriptor: cudnnFilterDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, y_descriptor: cudnnTensorDescriptor_t, requested: c_int,
            returned: *mut c_int, results: *mut cudnnConvolutionFwdAlgoPerf_t,
        }
        cudnnFindConvolutionForwardAlgorithmEx as FindConvolutionForwardAlgorithmEx {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            w_descriptor: cudnnFilterDescriptor_t, w: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void, requested: c_int, returned: *mut c_int,
            results: *mut cudnnConvolutionFwdAlgoPerf_t, workspace: *mut c_void, workspace_size: usize,
        }
        cudnnGetConvolutionForwardWorkspaceSize as GetConvolutionForwardWorkspaceSize {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, w_descriptor: cudnnFilterDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, y_descriptor: cudnnTensorDescriptor_t,
            algorithm: cudnnConvolutionFwdAlgo_t, size: *mut usize,
        }
        cudnnConvolutionForward as ConvolutionForward {
            handle: cudnnHandle_t, alpha: *const c_void, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            w_descriptor: cudnnFilterDescriptor_t, w: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            algorithm: cudnnConvolutionFwdAlgo_t, workspace: *mut c_void, workspace_size: usize, beta: *const c_void,
            y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void,
        }
        cudnnConvolutionBiasActivationForward as ConvolutionBiasActivationForward {
            handle: cudnnHandle_t, alpha1: *const c_void, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            w_descriptor: cudnnFilterDescriptor_t, w: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            algorithm: cudnnConvolutionFwdAlgo_t, workspace: *mut c_void, workspace_size: usize, alpha2: *const c_void,
            z_descriptor: cudnnTensorDescriptor_t, z: *const c_void, bias_descriptor: cudnnTensorDescriptor_t,
            bias: *const c_void, activation: cudnnActivationDescriptor_t, y_descriptor: cudnnTensorDescriptor_t,
            y: *mut c_void,
        }
        cudnnGetConvolutionBackwardDataAlgorithm_v7 as GetConvolutionBackwardDataAlgorithm {
            handle: cudnnHandle_t, w_descriptor: cudnnFilterDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, dx_descriptor: cudnnTensorDescriptor_t, requested: c_int,
            returned: *mut c_int, results: *mut cudnnConvolutionBwdDataAlgoPerf_t,
        }
        cudnnFindConvolutionBackwardDataAlgorithm as FindConvolutionBackwardDataAlgorithm {
            handle: cudnnHandle_t, w_descriptor: cudnnFilterDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, dx_descriptor: cudnnTensorDescriptor_t, requested: c_int,
            returned: *mut c_int, results: *mut cudnnConvolutionBwdDataAlgoPerf_t,
        }
        cudnnFindConvolutionBackwardDataAlgorithmEx as FindConvolutionBackwardDataAlgorithmEx {
            handle: cudnnHandle_t, w_descriptor: cudnnFilterDescriptor_t, w: *const c_void,
            dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            dx_descriptor: cudnnTensorDescriptor_t, dx: *mut c_void, requested: c_int, returned: *mut c_int,
            results: *mut cudnnConvolutionBwdDataAlgoPerf_t, workspace: *mut c_void, workspace_size: usize,
        }
        cudnnGetConvolutionBackwardDataWorkspaceSize as GetConvolutionBackwardDataWorkspaceSize {
            handle: cudnnHandle_t, w_descriptor: cudnnFilterDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, dx_descriptor: cudnnTensorDescriptor_t,
            algorithm: cudnnConvolutionBwdDataAlgo_t, size: *mut usize,
        }
        cudnnConvolutionBackwardData as ConvolutionBackwardData {
            handle: cudnnHandle_t, alpha: *const c_void, w_descriptor: cudnnFilterDescriptor_t, w: *const c_void,
            dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            algorithm: cudnnConvolutionBwdDataAlgo_t, workspace: *mut c_void, workspace_size: usize,
            beta: *const c_void, dx_descriptor: cudnnTensorDescriptor_t, dx: *mut c_void,
        }
        cudnnGetConvolutionBackwardFilterAlgorithm_v7 as GetConvolutionBackwardFilterAlgorithm {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, dw_descriptor: cudnnFilterDescriptor_t, requested: c_int,
            returned: *mut c_int, results: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
        }
        cudnnFindConvolutionBackwardFilterAlgorithm as FindConvolutionBackwardFilterAlgorithm {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, dw_descriptor: cudnnFilterDescriptor_t, requested: c_int,
            returned: *mut c_int, results: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
        }
        cudnnFindConvolutionBackwardFilterAlgorithmEx as FindConvolutionBackwardFilterAlgorithmEx {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            dw_descriptor: cudnnFilterDescriptor_t, dw: *mut c_void, requested: c_int, returned: *mut c_int,
            results: *mut cudnnConvolutionBwdFilterAlgoPerf_t, workspace: *mut c_void, workspace_size: usize,
        }
        cudnnGetConvolutionBackwardFilterWorkspaceSize as GetConvolutionBackwardFilterWorkspaceSize {
            handle: cudnnHandle_t, x_descriptor: cudnnTensorDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            convolution: cudnnConvolutionDescriptor_t, dw_descriptor: cudnnFilterDescriptor_t,
            algorithm: cudnnConvolutionBwdFilterAlgo_t, size: *mut usize,
        }
        cudnnConvolutionBackwardFilter as ConvolutionBackwardFilter {
            handle: cudnnHandle_t, alpha: *const c_void, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void, convolution: cudnnConvolutionDescriptor_t,
            algorithm: cudnnConvolutionBwdFilterAlgo_t, workspace: *mut c_void, workspace_size: usize,
            beta: *const c_void, dw_descriptor: cudnnFilterDescriptor_t, dw: *mut c_void,
        }
        cudnnBatchNormalizationForwardTraining as BatchNormForward {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, alpha: *const c_void, beta: *const c_void,
            x_descriptor: cudnnTensorDescriptor_t, x: *const c_void, y_descriptor: cudnnTensorDescriptor_t,
            y: *mut c_void, parameters: cudnnTensorDescriptor_t, scale: *const c_void, bias: *const c_void,
            factor: c_double, running_mean: *mut c_void, running_variance: *mut c_void, epsilon: c_double,
            saved_mean: *mut c_void, saved_inverse: *mut c_void,
        }
        cudnnBatchNormalizationForwardTrainingEx as BatchNormForwardEx {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, ops: cudnnBatchNormOps_t, alpha: *const c_void,
            beta: *const c_void, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            z_descriptor: cudnnTensorDescriptor_t, z: *const c_void, y_descriptor: cudnnTensorDescriptor_t,
            y: *mut c_void, parameters: cudnnTensorDescriptor_t, scale: *const c_void, bias: *const c_void,
            factor: c_double, running_mean: *mut c_void, running_variance: *mut c_void, epsilon: c_double,
            saved_mean: *mut c_void, saved_inverse: *mut c_void, activation: cudnnActivationDescriptor_t,
            workspace: *mut c_void, workspace_size: usize, reserve: *mut c_void, reserve_size: usize,
        }
        cudnnBatchNormalizationBackward as BatchNormBackward {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, alpha_data: *const c_void, beta_data: *const c_void,
            alpha_parameters: *const c_void, beta_parameters: *const c_void, x_descriptor: cudnnTensorDescriptor_t,
            x: *const c_void, dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void,
            dx_descriptor: cudnnTensorDescriptor_t, dx: *mut c_void, parameters: cudnnTensorDescriptor_t,
            scale: *const c_void, dscale: *mut c_void, dbias: *mut c_void, epsilon: c_double, saved_mean: *const c_void,
            saved_inverse: *const c_void,
        }
        cudnnBatchNormalizationBackwardEx as BatchNormBackwardEx {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, ops: cudnnBatchNormOps_t, alpha_data: *const c_void,
            beta_data: *const c_void, alpha_parameters: *const c_void, beta_parameters: *const c_void,
            x_descriptor: cudnnTensorDescriptor_t, x: *const c_void, y_descriptor: cudnnTensorDescriptor_t,
            y: *const c_void, dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void,
            dz_descriptor: cudnnTensorDescriptor_t, dz: *mut c_void, dx_descriptor: cudnnTensorDescriptor_t,
            dx: *mut c_void, parameters: cudnnTensorDescriptor_t, scale: *const c_void, bias: *const c_void,
            dscale: *mut c_void, dbias: *mut c_void, epsilon: c_double, saved_mean: *const c_void,
            saved_inverse: *const c_void, activation: cudnnActivationDescriptor_t, workspace: *mut c_void,
            workspace_size: usize, reserve: *mut c_void, reserve_size: usize,
        }
        cudnnBatchNormalizationForwardInference as BatchNormInference {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, alpha: *const c_void, beta: *const c_void,
            x_descriptor: cudnnTensorDescriptor_t, x: *const c_void, y_descriptor: cudnnTensorDescriptor_t,
            y: *mut c_void, parameters: cudnnTensorDescriptor_t, scale: *const c_void, bias: *const c_void,
            estimated_mean: *const c_void, estimated_variance: *const c_void, epsilon: c_double,
        }
        cudnnGetRNNTempSpaceSizes as GetRnnTempSpaceSizes {
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, mode: cudnnForwardMode_t,
            x_descriptor: cudnnRNNDataDescriptor_t, workspace_size: *mut usize, reserve_size: *mut usize,
        }
        cudnnRNNForward as RnnForward {
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, mode: cudnnForwardMode_t,
            device_lengths: *const i32, x_descriptor: cudnnRNNDataDescriptor_t, x: *const c_void,
            y_descriptor: cudnnRNNDataDescriptor_t, y: *mut c_void, h_descriptor: cudnnTensorDescriptor_t,
            hx: *const c_void, hy: *mut c_void, c_descriptor: cudnnTensorDescriptor_t, cx: *const c_void,
            cy: *mut c_void, weight_space_size: usize, weight_space: *const c_void, workspace_size: usize,
            workspace: *mut c_void, reserve_size: usize, reserve: *mut c_void,
        }
        cudnnRNNBackwardData_v8 as RnnBackwardData {
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, device_lengths: *const i32,
            y_descriptor: cudnnRNNDataDescriptor_t, y: *const c_void, dy: *const c_void,
            x_descriptor: cudnnRNNDataDescriptor_t, dx: *mut c_void, h_descriptor: cudnnTensorDescriptor_t,
            hx: *const c_void, dhy: *const c_void, dhx: *mut c_void, c_descriptor: cudnnTensorDescriptor_t,
            cx: *const c_void, dcy: *const c_void, dcx: *mut c_void, weight_space_size: usize,
            weight_space: *const c_void, workspace_size: usize, workspace: *mut c_void, reserve_size: usize,
            reserve: *mut c_void,
        }
        cudnnRNNBackwardWeights_v8 as RnnBackwardWeights {
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, mode: cudnnWgradMode_t, device_lengths: *const i32,
            x_descriptor: cudnnRNNDataDescriptor_t, x: *const c_void, h_descriptor: cudnnTensorDescriptor_t,
            hx: *const c_void, y_descriptor: cudnnRNNDataDescriptor_t, y: *const c_void, weight_space_size: usize,
            dweights: *mut c_void, workspace_size: usize, workspace: *mut c_void, reserve_size: usize,
            reserve: *mut c_void,
        }
        cudnnBackendCreateDescriptor as BackendCreateDescriptor {
            kind: cudnnBackendDescriptorType_t, descriptor: *mut cudnnBackendDescriptor_t,
        }
        cudnnBackendDestroyDescriptor as BackendDestroyDescriptor { descriptor: cudnnBackendDescriptor_t }
        cudnnBackendInitialize as BackendInitialize { descriptor: cudnnBackendDescriptor_t }
        cudnnBackendFinalize as BackendFinalize { descriptor: cudnnBackendDescriptor_t }
        cudnnBackendSetAttribute as BackendSetAttribute {
            descriptor: cudnnBackendDescriptor_t, name: cudnnBackendAttributeName_t,
            element: cudnnBackendAttributeType_t, count: i64, elements: *const c_void,
        }
        cudnnBackendGetAttribute as BackendGetAttribute {
            descriptor: cudnnBackendDescriptor_t, name: cudnnBackendAttributeName_t,
            element: cudnnBackendAttributeType_t, requested: i64, count: *mut i64, elements: *mut c_void,
        }
        cudnnBackendExecute as BackendExecute {
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t,
        }
        cudnnGetExecutionPlanWorkspaceSize as GetExecutionPlanWorkspaceSize {
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t, size: *mut usize,
        }
        cudnnBackendPopulateCudaGraph as BackendPopulateCudaGraph {
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t, graph: cudaGraph_t,
        }
        cudnnBackendUpdateCudaGraph as BackendUpdateCudaGraph {
            handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t, graph: cudaGraph_t,
        }
        }
        forwarded {
        cudnnGetProperty { property: libraryPropertyType, value: *mut c_int }
        cudnnSetStream { handle: cudnnHandle_t, stream: cudaStream_t }
        cudnnGetStream { handle: cudnnHandle_t, stream: *mut cudaStream_t }
        cudnnCreateTensorDescriptor { descriptor: *mut cudnnTensorDescriptor_t }
        cudnnDestroyTensorDescriptor { descriptor: cudnnTensorDescriptor_t }
        cudnnSetTensor4dDescriptor {
            descriptor: cudnnTensorDescriptor_t, format: cudnnTensorFormat_t, data_type: cudnnDataType_t, n: c_int,
            c: c_int, h: c_int, w: c_int,
        }
        cudnnSetTensor4dDescriptorEx {
            descriptor: cudnnTensorDescriptor_t, data_type: cudnnDataType_t, n: c_int, c: c_int, h: c_int, w: c_int,
            n_stride: c_int, c_stride: c_int, h_stride: c_int, w_stride: c_int,
        }
        cudnnGetTensor4dDescriptor {
            descriptor: cudnnTensorDescriptor_t, data_type: *mut cudnnDataType_t, n: *mut c_int, c: *mut c_int,
            h: *mut c_int, w: *mut c_int, n_stride: *mut c_int, c_stride: *mut c_int, h_stride: *mut c_int,
            w_stride: *mut c_int,
        }
        cudnnSetTensorNdDescriptor {
            descriptor: cudnnTensorDescriptor_t, data_type: cudnnDataType_t, rank: c_int, dims: *const c_int,
            strides: *const c_int,
        }
        cudnnSetTensorNdDescriptorEx {
            descriptor: cudnnTensorDescriptor_t, format: cudnnTensorFormat_t, data_type: cudnnDataType_t, rank: c_int,
            dims: *const c_int,
        }
        cudnnGetTensorNdDescriptor {
            descriptor: cudnnTensorDescriptor_t, requested: c_int, data_type: *mut cudnnDataType_t, rank: *mut c_int,
            dims: *mut c_int, strides: *mut c_int,
        }
        cudnnGetTensorSizeInBytes { descriptor: cudnnTensorDescriptor_t, size: *mut usize }
        cudnnCreateFilterDescriptor { descriptor: *mut cudnnFilterDescriptor_t }
        cudnnDestroyFilterDescriptor { descriptor: cudnnFilterDescriptor_t }
        cudnnSetFilter4dDescriptor {
            descriptor: cudnnFilterDescriptor_t, data_type: cudnnDataType_t, format: cudnnTensorFormat_t, k: c_int,
            c: c_int, h: c_int, w: c_int,
        }
        cudnnGetFilter4dDescriptor {
            descriptor: cudnnFilterDescriptor_t, data_type: *mut cudnnDataType_t, format: *mut cudnnTensorFormat_t,
            k: *mut c_int, c: *mut c_int, h: *mut c_int, w: *mut c_int,
        }
        cudnnSetFilterNdDescriptor {
            descriptor: cudnnFilterDescriptor_t, data_type: cudnnDataType_t, format: cudnnTensorFormat_t, rank: c_int,
            dims: *const c_int,
        }
        cudnnGetFilterNdDescriptor {
            descriptor: cudnnFilterDescriptor_t, requested: c_int, data_type: *mut cudnnDataType_t,
            format: *mut cudnnTensorFormat_t, rank: *mut c_int, dims: *mut c_int,
        }
        cudnnGetFilterSizeInBytes { descriptor: cudnnFilterDescriptor_t, size: *mut usize }
        cudnnCreateConvolutionDescriptor { descriptor: *mut cudnnConvolutionDescriptor_t }
        cudnnDestroyConvolutionDescriptor { descriptor: cudnnConvolutionDescriptor_t }
        cudnnSetConvolutionMathType { descriptor: cudnnConvolutionDescriptor_t, math_type: cudnnMathType_t }
        cudnnGetConvolutionMathType {
            descriptor: cudnnConvolutionDescriptor_t, math_type: *mut cudnnMathType_t,
        }
        cudnnSetConvolutionGroupCount { descriptor: cudnnConvolutionDescriptor_t, groups: c_int }
        cudnnGetConvolutionGroupCount { descriptor: cudnnConvolutionDescriptor_t, groups: *mut c_int }
        cudnnSetConvolutionReorderType {
            descriptor: cudnnConvolutionDescriptor_t, reorder: cudnnReorderType_t,
        }
        cudnnGetConvolutionReorderType {
            descriptor: cudnnConvolutionDescriptor_t, reorder: *mut cudnnReorderType_t,
        }
        cudnnSetConvolution2dDescriptor {
            descriptor: cudnnConvolutionDescriptor_t, pad_h: c_int, pad_w: c_int, u: c_int, v: c_int, dilation_h: c_int,
            dilation_w: c_int, mode: cudnnConvolutionMode_t, compute_type: cudnnDataType_t,
        }
        cudnnGetConvolution2dDescriptor {
            descriptor: cudnnConvolutionDescriptor_t, pad_h: *mut c_int, pad_w: *mut c_int, u: *mut c_int,
            v: *mut c_int, dilation_h: *mut c_int, dilation_w: *mut c_int, mode: *mut cudnnConvolutionMode_t,
            compute_type: *mut cudnnDataType_t,
        }
        cudnnSetConvolutionNdDescriptor {
            descriptor: cudnnConvolutionDescriptor_t, rank: c_int, pad: *const c_int, stride: *const c_int,
            dilation: *const c_int, mode: cudnnConvolutionMode_t, compute_type: cudnnDataType_t,
        }
        cudnnGetConvolutionNdDescriptor {
            descriptor: cudnnConvolutionDescriptor_t, requested: c_int, rank: *mut c_int, pad: *mut c_int,
            stride: *mut c_int, dilation: *mut c_int, mode: *mut cudnnConvolutionMode_t,
            compute_type: *mut cudnnDataType_t,
        }
        cudnnGetConvolution2dForwardOutputDim {
            convolution: cudnnConvolutionDescriptor_t, input: cudnnTensorDescriptor_t, filter: cudnnFilterDescriptor_t,
            n: *mut c_int, c: *mut c_int, h: *mut c_int, w: *mut c_int,
        }
        cudnnGetConvolutionNdForwardOutputDim {
            convolution: cudnnConvolutionDescriptor_t, input: cudnnTensorDescriptor_t, filter: cudnnFilterDescriptor_t,
            rank: c_int, dims: *mut c_int,
        }
        cudnnCreateActivationDescriptor { descriptor: *mut cudnnActivationDescriptor_t }
        cudnnDestroyActivationDescriptor { descriptor: cudnnActivationDescriptor_t }
        cudnnSetActivationDescriptor {
            descriptor: cudnnActivationDescriptor_t, mode: cudnnActivationMode_t, propagate_nan: cudnnNanPropagation_t,
            coefficient: c_double,
        }
        cudnnGetActivationDescriptor {
            descriptor: cudnnActivationDescriptor_t, mode: *mut cudnnActivationMode_t,
            propagate_nan: *mut cudnnNanPropagation_t, coefficient: *mut c_double,
        }
        cudnnSetActivationDescriptorSwishBeta {
            descriptor: cudnnActivationDescriptor_t, swish_beta: c_double,
        }
        cudnnGetActivationDescriptorSwishBeta {
            descriptor: cudnnActivationDescriptor_t, swish_beta: *mut c_double,
        }
        cudnnCreateOpTensorDescriptor { descriptor: *mut cudnnOpTensorDescriptor_t }
        cudnnDestroyOpTensorDescriptor { descriptor: cudnnOpTensorDescriptor_t }
        cudnnSetOpTensorDescriptor {
            descriptor: cudnnOpTensorDescriptor_t, operation: cudnnOpTensorOp_t, compute_type: cudnnDataType_t,
            propagate_nan: cudnnNanPropagation_t,
        }
        cudnnGetOpTensorDescriptor {
            descriptor: cudnnOpTensorDescriptor_t, operation: *mut cudnnOpTensorOp_t,
            compute_type: *mut cudnnDataType_t, propagate_nan: *mut cudnnNanPropagation_t,
        }
        cudnnCreateRNNDescriptor { descriptor: *mut cudnnRNNDescriptor_t }
        cudnnDestroyRNNDescriptor { descriptor: cudnnRNNDescriptor_t }
        cudnnSetRNNDescriptor_v8 {
            descriptor: cudnnRNNDescriptor_t, algorithm: cudnnRNNAlgo_t, cell: cudnnRNNMode_t, bias: cudnnRNNBiasMode_t,
            direction: cudnnDirectionMode_t, input_mode: cudnnRNNInputMode_t, data_type: cudnnDataType_t,
            math_precision: cudnnDataType_t, math_type: cudnnMathType_t, input: i32, hidden: i32, projection: i32,
            layers: i32, dropout: cudnnDropoutDescriptor_t, flags: u32,
        }
        cudnnGetRNNDescriptor_v8 {
            descriptor: cudnnRNNDescriptor_t, algorithm: *mut cudnnRNNAlgo_t, cell: *mut cudnnRNNMode_t,
            bias: *mut cudnnRNNBiasMode_t, direction: *mut cudnnDirectionMode_t, input_mode: *mut cudnnRNNInputMode_t,
            data_type: *mut cudnnDataType_t, math_precision: *mut cudnnDataType_t, math_type: *mut cudnnMathType_t,
            input: *mut i32, hidden: *mut i32, projection: *mut i32, layers: *mut i32,
            dropout: *mut cudnnDropoutDescriptor_t, flags: *mut u32,
        }
        cudnnRNNSetClip_v8 {
            descriptor: cudnnRNNDescriptor_t, mode: cudnnRNNClipMode_t, propagate_nan: cudnnNanPropagation_t,
            least: c_double, greatest: c_double,
        }
        cudnnRNNSetClip_v9 {
            descriptor: cudnnRNNDescriptor_t, mode: cudnnRNNClipMode_t, least: c_double, greatest: c_double,
        }
        cudnnRNNGetClip_v8 {
            descriptor: cudnnRNNDescriptor_t, mode: *mut cudnnRNNClipMode_t, propagate_nan: *mut cudnnNanPropagation_t,
            least: *mut c_double, greatest: *mut c_double,
        }
        cudnnRNNGetClip_v9 {
            descriptor: cudnnRNNDescriptor_t, mode: *mut cudnnRNNClipMode_t, least: *mut c_double,
            greatest: *mut c_double,
        }
        cudnnCreateRNNDataDescriptor { descriptor: *mut cudnnRNNDataDescriptor_t }
        cudnnDestroyRNNDataDescriptor { descriptor: cudnnRNNDataDescriptor_t }
        cudnnSetRNNDataDescriptor {
            descriptor: cudnnRNNDataDescriptor_t, data_type: cudnnDataType_t, layout: cudnnRNNDataLayout_t,
            steps: c_int, batch: c_int, vector: c_int, lengths: *const c_int, padding_fill: *mut c_void,
        }
        cudnnGetRNNDataDescriptor {
            descriptor: cudnnRNNDataDescriptor_t, data_type: *mut cudnnDataType_t, layout: *mut cudnnRNNDataLayout_t,
            steps: *mut c_int, batch: *mut c_int, vector: *mut c_int, requested: c_int, lengths: *mut c_int,
            padding_fill: *mut c_void,
        }
        cudnnCreateDropoutDescriptor { descriptor: *mut cudnnDropoutDescriptor_t }
        cudnnDestroyDropoutDescriptor { descriptor: cudnnDropoutDescriptor_t }
        cudnnDropoutGetStatesSize { handle: cudnnHandle_t, size: *mut usize }
        cudnnSetDropoutDescriptor {
            descriptor: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, probability: c_float, states: *mut c_void,
            states_size: usize, seed: c_ulonglong,
        }
        cudnnRestoreDropoutDescriptor {
            descriptor: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, probability: c_float, states: *mut c_void,
            states_size: usize, seed: c_ulonglong,
        }
        cudnnGetDropoutDescriptor {
            descriptor: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, probability: *mut c_float,
            states: *mut *mut c_void, seed: *mut c_ulonglong,
        }
        cudnnGetConvolutionForwardAlgorithmMaxCount { handle: cudnnHandle_t, count: *mut c_int }
        cudnnGetConvolutionBackwardDataAlgorithmMaxCount { handle: cudnnHandle_t, count: *mut c_int }
        cudnnGetConvolutionBackwardFilterAlgorithmMaxCount { handle: cudnnHandle_t, count: *mut c_int }
        cudnnConvolutionBackwardBias {
            handle: cudnnHandle_t, alpha: *const c_void, dy_descriptor: cudnnTensorDescriptor_t, dy: *const c_void,
            beta: *const c_void, db_descriptor: cudnnTensorDescriptor_t, db: *mut c_void,
        }
        cudnnAddTensor {
            handle: cudnnHandle_t, alpha: *const c_void, a_descriptor: cudnnTensorDescriptor_t, a: *const c_void,
            beta: *const c_void, c_descriptor: cudnnTensorDescriptor_t, c: *mut c_void,
        }
        cudnnTransformTensor {
            handle: cudnnHandle_t, alpha: *const c_void, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void,
            beta: *const c_void, y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void,
        }
        cudnnSetTensor {
            handle: cudnnHandle_t, y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void, value: *const c_void,
        }
        cudnnScaleTensor {
            handle: cudnnHandle_t, y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void, alpha: *const c_void,
        }
        cudnnOpTensor {
            handle: cudnnHandle_t, descriptor: cudnnOpTensorDescriptor_t, alpha1: *const c_void,
            a_descriptor: cudnnTensorDescriptor_t, a: *const c_void, alpha2: *const c_void,
            b_descriptor: cudnnTensorDescriptor_t, b: *const c_void, beta: *const c_void,
            c_descriptor: cudnnTensorDescriptor_t, c: *mut c_void,
        }
        cudnnActivationForward {
            handle: cudnnHandle_t, activation: cudnnActivationDescriptor_t, alpha: *const c_void,
            x_descriptor: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void,
            y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void,
        }
        cudnnActivationBackward {
            handle: cudnnHandle_t, activation: cudnnActivationDescriptor_t, alpha: *const c_void,
            y_descriptor: cudnnTensorDescriptor_t, y: *const c_void, dy_descriptor: cudnnTensorDescriptor_t,
            dy: *const c_void, x_descriptor: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void,
            dx_descriptor: cudnnTensorDescriptor_t, dx: *mut c_void,
        }
        cudnnDropoutGetReserveSpaceSize { x_descriptor: cudnnTensorDescriptor_t, size: *mut usize }
        cudnnDropoutForward {
            handle: cudnnHandle_t, dropout: cudnnDropoutDescriptor_t, x_descriptor: cudnnTensorDescriptor_t,
            x: *const c_void, y_descriptor: cudnnTensorDescriptor_t, y: *mut c_void, reserve: *mut c_void,
            reserve_size: usize,
        }
        cudnnDropoutBackward {
            handle: cudnnHandle_t, dropout: cudnnDropoutDescriptor_t, dy_descriptor: cudnnTensorDescriptor_t,
            dy: *const c_void, dx_descriptor: cudnnTensorDescriptor_t, dx: *mut c_void, reserve: *mut c_void,
            reserve_size: usize,
        }
        cudnnDeriveBNTensorDescriptor {
            descriptor: cudnnTensorDescriptor_t, x_descriptor: cudnnTensorDescriptor_t, mode: cudnnBatchNormMode_t,
        }
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, ops: cudnnBatchNormOps_t,
            x_descriptor: cudnnTensorDescriptor_t, z_descriptor: cudnnTensorDescriptor_t,
            y_descriptor: cudnnTensorDescriptor_t, parameters: cudnnTensorDescriptor_t,
            activation: cudnnActivationDescriptor_t, size: *mut usize,
        }
        cudnnGetBatchNormalizationBackwardExWorkspaceSize {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, ops: cudnnBatchNormOps_t,
            x_descriptor: cudnnTensorDescriptor_t, y_descriptor: cudnnTensorDescriptor_t,
            dy_descriptor: cudnnTensorDescriptor_t, dz_descriptor: cudnnTensorDescriptor_t,
            dx_descriptor: cudnnTensorDescriptor_t, parameters: cudnnTensorDescriptor_t,
            activation: cudnnActivationDescriptor_t, size: *mut usize,
        }
        cudnnGetBatchNormalizationTrainingExReserveSpaceSize {
            handle: cudnnHandle_t, mode: cudnnBatchNormMode_t, ops: cudnnBatchNormOps_t,
            activation: cudnnActivationDescriptor_t, x_descriptor: cudnnTensorDescriptor_t, size: *mut usize,
        }
        cudnnGetRNNWeightSpaceSize {
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, weight_space_size: *mut usize,
        }
        cudnnGetRNNWeightParams {
            handle: cudnnHandle_t, descriptor: cudnnRNNDescriptor_t, pseudo_layer: i32, weight_space_size: usize,
            weight_space: *const c_void, id: i32, matrix_descriptor: cudnnTensorDescriptor_t, matrix: *mut *mut c_void,
            bias_descriptor: cudnnTensorDescriptor_t, bias: *mut *mut c_void,
        }
        }
        }
    };
}
