/* Compiles if every function here has cuDNN's own type, against cuDNN's header and against hostdnn's. */
#include <cudnn.h>

typedef cudnnHandle_t H;
typedef const cudnnTensorDescriptor_t T;
typedef const cudnnFilterDescriptor_t F;
typedef const cudnnConvolutionDescriptor_t C;
typedef cudnnBackendDescriptor_t B;
typedef const void *In;
typedef void *Out;
typedef cudnnStatus_t S;

int signatures(void);
int signatures(void)
{
    size_t (*version)(void) = cudnnGetVersion;
    size_t (*cudart)(void) = cudnnGetCudartVersion;
    size_t (*device)(void) = cudnnGetMaxDeviceVersion;
    const char *(*error)(S) = cudnnGetErrorString;
    void (*last)(char *, size_t) = cudnnGetLastErrorString;
    S (*create)(H *) = cudnnCreate;
    S (*destroy)(H) = cudnnDestroy;
    S (*set_stream)(H, cudaStream_t) = cudnnSetStream;
    S (*get_stream)(H, cudaStream_t *) = cudnnGetStream;

    S (*t_create)(cudnnTensorDescriptor_t *) = cudnnCreateTensorDescriptor;
    S (*t_destroy)(cudnnTensorDescriptor_t) = cudnnDestroyTensorDescriptor;
    S (*t_set)(cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int, int, int, int) =
        cudnnSetTensor4dDescriptor;
    S (*t_set_ex)(cudnnTensorDescriptor_t, cudnnDataType_t, int, int, int, int, int, int, int, int) =
        cudnnSetTensor4dDescriptorEx;
    S (*t_get)(T, cudnnDataType_t *, int *, int *, int *, int *, int *, int *, int *, int *) =
        cudnnGetTensor4dDescriptor;
    S (*t_set_nd)(cudnnTensorDescriptor_t, cudnnDataType_t, int, const int *, const int *) =
        cudnnSetTensorNdDescriptor;
    S (*t_set_nd_ex)(cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int, const int *) =
        cudnnSetTensorNdDescriptorEx;
    S (*t_get_nd)(T, int, cudnnDataType_t *, int *, int *, int *) = cudnnGetTensorNdDescriptor;
    S (*t_size)(T, size_t *) = cudnnGetTensorSizeInBytes;

    S (*f_create)(cudnnFilterDescriptor_t *) = cudnnCreateFilterDescriptor;
    S (*f_destroy)(cudnnFilterDescriptor_t) = cudnnDestroyFilterDescriptor;
    S (*f_set)(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int, int, int, int) =
        cudnnSetFilter4dDescriptor;
    S (*f_get)(F, cudnnDataType_t *, cudnnTensorFormat_t *, int *, int *, int *, int *) = cudnnGetFilter4dDescriptor;
    S (*f_set_nd)(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int, const int *) =
        cudnnSetFilterNdDescriptor;
    S (*f_get_nd)(F, int, cudnnDataType_t *, cudnnTensorFormat_t *, int *, int *) = cudnnGetFilterNdDescriptor;
    S (*f_size)(F, size_t *) = cudnnGetFilterSizeInBytes;

    S (*c_create)(cudnnConvolutionDescriptor_t *) = cudnnCreateConvolutionDescriptor;
    S (*c_destroy)(cudnnConvolutionDescriptor_t) = cudnnDestroyConvolutionDescriptor;
    S (*c_set_math)(cudnnConvolutionDescriptor_t, cudnnMathType_t) = cudnnSetConvolutionMathType;
    S (*c_get_math)(cudnnConvolutionDescriptor_t, cudnnMathType_t *) = cudnnGetConvolutionMathType;
    S (*c_set_groups)(cudnnConvolutionDescriptor_t, int) = cudnnSetConvolutionGroupCount;
    S (*c_get_groups)(cudnnConvolutionDescriptor_t, int *) = cudnnGetConvolutionGroupCount;
    S (*c_set_order)(cudnnConvolutionDescriptor_t, cudnnReorderType_t) = cudnnSetConvolutionReorderType;
    S (*c_get_order)(cudnnConvolutionDescriptor_t, cudnnReorderType_t *) = cudnnGetConvolutionReorderType;
    S (*c_set)(cudnnConvolutionDescriptor_t, int, int, int, int, int, int, cudnnConvolutionMode_t, cudnnDataType_t) =
        cudnnSetConvolution2dDescriptor;
    S (*c_get)(C, int *, int *, int *, int *, int *, int *, cudnnConvolutionMode_t *, cudnnDataType_t *) =
        cudnnGetConvolution2dDescriptor;
    S (*c_set_nd)(cudnnConvolutionDescriptor_t, int, const int *, const int *, const int *, cudnnConvolutionMode_t,
                  cudnnDataType_t) = cudnnSetConvolutionNdDescriptor;
    S (*c_get_nd)(C, int, int *, int *, int *, int *, cudnnConvolutionMode_t *, cudnnDataType_t *) =
        cudnnGetConvolutionNdDescriptor;
    S (*c_out)(C, T, F, int *, int *, int *, int *) = cudnnGetConvolution2dForwardOutputDim;
    S (*c_out_nd)(C, T, F, int, int *) = cudnnGetConvolutionNdForwardOutputDim;

    S (*count_f)(H, int *) = cudnnGetConvolutionForwardAlgorithmMaxCount;
    S (*count_bd)(H, int *) = cudnnGetConvolutionBackwardDataAlgorithmMaxCount;
    S (*count_bf)(H, int *) = cudnnGetConvolutionBackwardFilterAlgorithmMaxCount;
    S (*get_f)(H, T, F, C, T, int, int *, cudnnConvolutionFwdAlgoPerf_t *) = cudnnGetConvolutionForwardAlgorithm_v7;
    S (*get_bd)(H, F, T, C, T, int, int *, cudnnConvolutionBwdDataAlgoPerf_t *) =
        cudnnGetConvolutionBackwardDataAlgorithm_v7;
    S (*get_bf)(H, T, T, C, F, int, int *, cudnnConvolutionBwdFilterAlgoPerf_t *) =
        cudnnGetConvolutionBackwardFilterAlgorithm_v7;
    S (*find_f)(H, T, F, C, T, int, int *, cudnnConvolutionFwdAlgoPerf_t *) = cudnnFindConvolutionForwardAlgorithm;
    S (*find_bd)(H, F, T, C, T, int, int *, cudnnConvolutionBwdDataAlgoPerf_t *) =
        cudnnFindConvolutionBackwardDataAlgorithm;
    S (*find_bf)(H, T, T, C, F, int, int *, cudnnConvolutionBwdFilterAlgoPerf_t *) =
        cudnnFindConvolutionBackwardFilterAlgorithm;
    S (*ex_f)(H, T, In, F, In, C, T, Out, int, int *, cudnnConvolutionFwdAlgoPerf_t *, void *, size_t) =
        cudnnFindConvolutionForwardAlgorithmEx;
    S (*ex_bd)(H, F, In, T, In, C, T, Out, int, int *, cudnnConvolutionBwdDataAlgoPerf_t *, void *, size_t) =
        cudnnFindConvolutionBackwardDataAlgorithmEx;
    S (*ex_bf)(H, T, In, T, In, C, F, Out, int, int *, cudnnConvolutionBwdFilterAlgoPerf_t *, void *, size_t) =
        cudnnFindConvolutionBackwardFilterAlgorithmEx;
    S (*size_f)(H, T, F, C, T, cudnnConvolutionFwdAlgo_t, size_t *) = cudnnGetConvolutionForwardWorkspaceSize;
    S (*size_bd)(H, F, T, C, T, cudnnConvolutionBwdDataAlgo_t, size_t *) =
        cudnnGetConvolutionBackwardDataWorkspaceSize;
    S (*size_bf)(H, T, T, C, F, cudnnConvolutionBwdFilterAlgo_t, size_t *) =
        cudnnGetConvolutionBackwardFilterWorkspaceSize;
    S (*run_f)(H, In, T, In, F, In, C, cudnnConvolutionFwdAlgo_t, void *, size_t, In, T, Out) =
        cudnnConvolutionForward;
    S (*run_bd)(H, In, F, In, T, In, C, cudnnConvolutionBwdDataAlgo_t, void *, size_t, In, T, Out) =
        cudnnConvolutionBackwardData;
    S (*run_bf)(H, In, T, In, T, In, C, cudnnConvolutionBwdFilterAlgo_t, void *, size_t, In, F, Out) =
        cudnnConvolutionBackwardFilter;
    S (*fused)(H, In, T, In, F, In, C, cudnnConvolutionFwdAlgo_t, void *, size_t, In, T, In, T, In,
               const cudnnActivationDescriptor_t, T, Out) = cudnnConvolutionBiasActivationForward;
    S (*bias)(H, In, T, In, In, T, Out) = cudnnConvolutionBackwardBias;

    S (*a_create)(cudnnActivationDescriptor_t *) = cudnnCreateActivationDescriptor;
    S (*a_destroy)(cudnnActivationDescriptor_t) = cudnnDestroyActivationDescriptor;
    S (*a_set)(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t, double) =
        cudnnSetActivationDescriptor;
    S (*a_get)(const cudnnActivationDescriptor_t, cudnnActivationMode_t *, cudnnNanPropagation_t *, double *) =
        cudnnGetActivationDescriptor;
    S (*a_set_swish)(cudnnActivationDescriptor_t, double) = cudnnSetActivationDescriptorSwishBeta;
    S (*a_get_swish)(cudnnActivationDescriptor_t, double *) = cudnnGetActivationDescriptorSwishBeta;
    S (*a_forward)(H, cudnnActivationDescriptor_t, In, T, In, In, T, Out) = cudnnActivationForward;
    S (*a_backward)(H, cudnnActivationDescriptor_t, In, T, In, T, In, T, In, In, T, Out) = cudnnActivationBackward;
    S (*o_create)(cudnnOpTensorDescriptor_t *) = cudnnCreateOpTensorDescriptor;
    S (*o_destroy)(cudnnOpTensorDescriptor_t) = cudnnDestroyOpTensorDescriptor;
    S (*o_set)(cudnnOpTensorDescriptor_t, cudnnOpTensorOp_t, cudnnDataType_t, cudnnNanPropagation_t) =
        cudnnSetOpTensorDescriptor;
    S (*o_get)(const cudnnOpTensorDescriptor_t, cudnnOpTensorOp_t *, cudnnDataType_t *, cudnnNanPropagation_t *) =
        cudnnGetOpTensorDescriptor;
    S (*o_run)(H, const cudnnOpTensorDescriptor_t, In, T, In, In, T, In, In, T, Out) = cudnnOpTensor;
    S (*add)(H, In, T, In, In, T, Out) = cudnnAddTensor;
    S (*transform)(H, In, T, In, In, T, Out) = cudnnTransformTensor;
    S (*set)(H, T, Out, In) = cudnnSetTensor;
    S (*scale)(H, T, Out, In) = cudnnScaleTensor;

    S (*n_derive)(cudnnTensorDescriptor_t, T, cudnnBatchNormMode_t) = cudnnDeriveBNTensorDescriptor;
    S (*n_size)(H, cudnnBatchNormMode_t, cudnnBatchNormOps_t, T, T, T, T, const cudnnActivationDescriptor_t, size_t *) =
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize;
    S (*n_size_back)(H, cudnnBatchNormMode_t, cudnnBatchNormOps_t, T, T, T, T, T, T, const cudnnActivationDescriptor_t,
                     size_t *) = cudnnGetBatchNormalizationBackwardExWorkspaceSize;
    S (*n_reserve)(H, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnActivationDescriptor_t, T, size_t *) =
        cudnnGetBatchNormalizationTrainingExReserveSpaceSize;
    S (*n_train)(H, cudnnBatchNormMode_t, In, In, T, In, T, Out, T, In, In, double, Out, Out, double, Out, Out) =
        cudnnBatchNormalizationForwardTraining;
    S (*n_train_ex)(H, cudnnBatchNormMode_t, cudnnBatchNormOps_t, In, In, T, In, T, In, T, Out, T, In, In, double, Out,
                    Out, double, Out, Out, cudnnActivationDescriptor_t, void *, size_t, void *, size_t) =
        cudnnBatchNormalizationForwardTrainingEx;
    S (*n_infer)(H, cudnnBatchNormMode_t, In, In, T, In, T, Out, T, In, In, In, In, double) =
        cudnnBatchNormalizationForwardInference;
    S (*n_back)(H, cudnnBatchNormMode_t, In, In, In, In, T, In, T, In, T, Out, T, In, Out, Out, double, In, In) =
        cudnnBatchNormalizationBackward;
    S (*n_back_ex)(H, cudnnBatchNormMode_t, cudnnBatchNormOps_t, In, In, In, In, T, In, T, In, T, In, T, Out, T, Out, T,
                   In, In, Out, Out, double, In, In, cudnnActivationDescriptor_t, void *, size_t, void *, size_t) =
        cudnnBatchNormalizationBackwardEx;

    S (*b_create)(cudnnBackendDescriptorType_t, B *) = cudnnBackendCreateDescriptor;
    S (*b_destroy)(B) = cudnnBackendDestroyDescriptor;
    S (*b_finalize)(B) = cudnnBackendFinalize;
    S (*b_set)(B, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, In) = cudnnBackendSetAttribute;
    S (*b_get)(B, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, int64_t *, Out) =
        cudnnBackendGetAttribute;
    S (*b_run)(H, B, B) = cudnnBackendExecute;
    S (*b_workspace)(H, B, B, size_t *) = cudnnGetExecutionPlanWorkspaceSize;
    S (*b_populate)(H, B, B, cudaGraph_t) = cudnnBackendPopulateCudaGraph;
    S (*b_update)(H, B, B, cudaGraph_t) = cudnnBackendUpdateCudaGraph;

    int major = 0;
    S property = cudnnGetProperty(MAJOR_VERSION, &major);
    return version && cudart && device && error && last && create && destroy && set_stream && get_stream && t_create &&
           t_destroy && t_set && t_set_ex && t_get && t_set_nd && t_set_nd_ex && t_get_nd && t_size && f_create &&
           f_destroy && f_set && f_get && f_set_nd && f_get_nd && f_size && c_create && c_destroy && c_set_math &&
           c_get_math && c_set_groups && c_get_groups && c_set_order && c_get_order && c_set && c_get && c_set_nd &&
           c_get_nd && c_out && c_out_nd && count_f && count_bd && count_bf && get_f && get_bd && get_bf && find_f &&
           find_bd && find_bf && ex_f && ex_bd && ex_bf && size_f && size_bd && size_bf && run_f && run_bd && run_bf &&
           fused && bias && a_create && a_destroy && a_set && a_get && a_set_swish && a_get_swish && a_forward &&
           a_backward && o_create && o_destroy && o_set && o_get && o_run && add && transform && set && scale &&
           n_derive && n_size && n_size_back && n_reserve && n_train && n_train_ex && n_infer && n_back && n_back_ex &&
           CUDNN_BN_MIN_EPSILON == 0.0 && CUDNN_BATCHNORM_SPATIAL_PERSISTENT == 2 &&
           CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION == 2 &&
           b_create && b_destroy && b_finalize && b_set && b_get && b_run && b_workspace && b_populate && b_update &&
           property == CUDNN_STATUS_SUCCESS && major == CUDNN_MAJOR && CUDNN_VERSION > 90000;
}

int main(void)
{
    return !signatures();
}
