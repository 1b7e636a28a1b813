/* cuDNN 9's C API as hostdnn carries it, on host pointers. Programs written for cuDNN's own header that use these
 * functions compile unchanged. Made by cbindgen from cudnn-abi and hostdnn/src/abi: do not edit. */

#ifndef CUDNN_H_
#define CUDNN_H_

#include <stddef.h>
#include <stdint.h>
#define CUDNN_MAJOR 9
#define CUDNN_MINOR 19
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION (CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)

/* CUDA's own names, from CUDA where it is installed. */
#if defined(__has_include)
#if __has_include(<library_types.h>)
#include <library_types.h>
#endif
#endif
#ifndef __LIBRARY_TYPES_H__
typedef enum libraryPropertyType_t { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
#endif
#ifndef __DRIVER_TYPES_H__
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;
#endif

#define CUDNNWINAPI

/*
 The least epsilon of batch normalization.
 */
#define CUDNN_BN_MIN_EPSILON 0.0

/*
 The most dimensions of a tensor descriptor.
 */
#define CUDNN_DIM_MAX 8

/*
 The bits of `auxFlags`: data with padding is accepted or not.
 */
#define CUDNN_RNN_PADDED_IO_DISABLED 0

#define CUDNN_RNN_PADDED_IO_ENABLED 1

/*
 An activation function and its parameter.
 */
typedef struct cudnnActivationStruct cudnnActivationStruct;

/*
 An execution context: a device, a stream and the library's state for them.
 */
typedef struct cudnnContext cudnnContext;

/*
 A convolution's padding, strides, dilation, groups, mode and math type.
 */
typedef struct cudnnConvolutionStruct cudnnConvolutionStruct;

/*
 A dropout probability and the state of its random numbers.
 */
typedef struct cudnnDropoutStruct cudnnDropoutStruct;

/*
 A filter's type, layout and dimensions.
 */
typedef struct cudnnFilterStruct cudnnFilterStruct;

/*
 An element-wise operation on two tensors.
 */
typedef struct cudnnOpTensorStruct cudnnOpTensorStruct;

/*
 A batch of sequences: type, layout, extents, the length of each sequence and the padding's fill value.
 */
typedef struct cudnnRNNDataStruct cudnnRNNDataStruct;

/*
 A recurrent network: cell, biases, directions, layers, types and sizes.
 */
typedef struct cudnnRNNStruct cudnnRNNStruct;

/*
 A tensor's type, dimensions and strides.
 */
typedef struct cudnnTensorStruct cudnnTensorStruct;

typedef int cudnnStatus_t;

typedef struct cudnnContext *cudnnHandle_t;

typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;

typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;

typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;

typedef int cudnnConvolutionFwdAlgo_t;

typedef int cudnnDeterminism_t;

typedef int cudnnMathType_t;

/*
 cuDNN's result for one Forward algorithm: `time` in milliseconds (-1 if not measured), `memory` in bytes.
 */
typedef struct cudnnConvolutionFwdAlgoPerfStruct {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerfStruct;

typedef struct cudnnConvolutionFwdAlgoPerfStruct cudnnConvolutionFwdAlgoPerf_t;

typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;

typedef int cudnnConvolutionBwdDataAlgo_t;

/*
 cuDNN's result for one BackwardData algorithm: `time` in milliseconds (-1 if not measured), `memory` in bytes.
 */
typedef struct cudnnConvolutionBwdDataAlgoPerfStruct {
  cudnnConvolutionBwdDataAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdDataAlgoPerfStruct;

typedef struct cudnnConvolutionBwdDataAlgoPerfStruct cudnnConvolutionBwdDataAlgoPerf_t;

typedef int cudnnConvolutionBwdFilterAlgo_t;

/*
 cuDNN's result for one BackwardFilter algorithm: `time` in milliseconds (-1 if not measured), `memory` in bytes.
 */
typedef struct cudnnConvolutionBwdFilterAlgoPerfStruct {
  cudnnConvolutionBwdFilterAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdFilterAlgoPerfStruct;

typedef struct cudnnConvolutionBwdFilterAlgoPerfStruct cudnnConvolutionBwdFilterAlgoPerf_t;

typedef int cudnnBatchNormMode_t;

typedef int cudnnBatchNormOps_t;

typedef struct cudnnRNNStruct *cudnnRNNDescriptor_t;

typedef int cudnnForwardMode_t;

typedef struct cudnnRNNDataStruct *cudnnRNNDataDescriptor_t;

/*
 What becomes of the weights' gradients that are there already: they are added to, or overwritten.
 */
typedef int cudnnWgradMode_t;

/*
 The kind of a backend descriptor.
 */
typedef int cudnnBackendDescriptorType_t;

/*
 A descriptor of any kind.
 */
typedef void *cudnnBackendDescriptor_t;

/*
 The attributes of the descriptors that make up convolution graphs.
 */
typedef int cudnnBackendAttributeName_t;

/*
 The type of an attribute's elements.
 */
typedef int cudnnBackendAttributeType_t;

typedef int cudnnTensorFormat_t;

typedef int cudnnDataType_t;

typedef int cudnnReorderType_t;

typedef int cudnnConvolutionMode_t;

typedef int cudnnActivationMode_t;

typedef int cudnnNanPropagation_t;

typedef struct cudnnOpTensorStruct *cudnnOpTensorDescriptor_t;

typedef int cudnnOpTensorOp_t;

typedef int cudnnRNNAlgo_t;

/*
 The cell. W multiplies the input and R the previous hidden state; b and d are their biases, and σ is the logistic
 function. ReLU and tanh apply their function to Wx + b + Rh + d. The others have gates, in the order of their
 matrices: LSTM i, f, g, o; GRU r, z, n with n = tanh(Wx + b + r∘(Rh + d)).
 */
typedef int cudnnRNNMode_t;

typedef int cudnnRNNBiasMode_t;

typedef int cudnnDirectionMode_t;

/*
 The first layer's treatment of its input: multiplied by a matrix, or taken unchanged.
 */
typedef int cudnnRNNInputMode_t;

typedef struct cudnnDropoutStruct *cudnnDropoutDescriptor_t;

/*
 Clipping of LSTM's cell state.
 */
typedef int cudnnRNNClipMode_t;

/*
 Unpacked: rows of equal length with padding, `[time, batch, vector]` or `[batch, time, vector]`. Packed: the longest
 sequence first, and each time step holds only the sequences that have not ended.
 */
typedef int cudnnRNNDataLayout_t;

/*
 A source in the vocabulary of `kernels/device.cuh`, as C strings, none of them null.
 */
typedef struct hostdnnKernelSource_t {
  /*
   The source's name in compiler messages.
   */
  const char *name;
  const char *text;
  /*
   The names and texts of `headerCount` headers for `#include`. May be null if there are none.
   */
  const char *const *headerNames;
  const char *const *headerTexts;
  size_t headerCount;
  /*
   The options that define macros are used; all others are for NVRTC. May be null if there are none.
   */
  const char *const *options;
  size_t optionCount;
} hostdnnKernelSource_t;

/*
 What a normalization normalizes over.
 */
typedef int cudnnBackendNormMode_t;

/*
 Inference or training, of a normalization forward.
 */
typedef int cudnnBackendNormFwdPhase_t;

/*
 Pointwise operations.
 */
typedef int cudnnPointwiseMode_t;

/*
 The heuristics that rank engines.
 */
typedef int cudnnBackendHeurMode_t;

/*
 A property of an engine's arithmetic.
 */
typedef int cudnnBackendNumericalNote_t;

/*
 Any other property of an engine.
 */
typedef int cudnnBackendBehaviorNote_t;

/*
 A knob that tunes an engine.
 */
typedef int cudnnBackendKnobType_t;

/*
 Layouts of packed tensors.
 */
typedef int cudnnBackendTensorReordering_t;

#define CUDNN_STATUS_SUCCESS 0

#define CUDNN_STATUS_NOT_INITIALIZED 1001

#define CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH 1002

#define CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH 1003

#define CUDNN_STATUS_DEPRECATED 1004

#define CUDNN_STATUS_LICENSE_ERROR 1005

#define CUDNN_STATUS_RUNTIME_IN_PROGRESS 1006

#define CUDNN_STATUS_RUNTIME_FP_OVERFLOW 1007

#define CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED 1008

#define CUDNN_STATUS_BAD_PARAM 2000

#define CUDNN_STATUS_INVALID_VALUE 2001

#define CUDNN_STATUS_BAD_PARAM_NULL_POINTER 2002

#define CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER 2003

#define CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED 2004

#define CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND 2005

#define CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT 2006

#define CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH 2007

#define CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH 2008

#define CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES 2009

#define CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE 2010

#define CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH 2011

#define CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE 2012

#define CUDNN_STATUS_NOT_SUPPORTED 3000

#define CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN 3001

#define CUDNN_STATUS_NOT_SUPPORTED_SHAPE 3002

#define CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE 3003

#define CUDNN_STATUS_NOT_SUPPORTED_LAYOUT 3004

#define CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER 3005

#define CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART 3006

#define CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH 3007

#define CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING 3008

#define CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE 3009

#define CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT 3010

#define CUDNN_STATUS_NOT_SUPPORTED_PADDING 3011

#define CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM 3012

#define CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API 3013

#define CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE 3014

#define CUDNN_STATUS_INTERNAL_ERROR 4000

#define CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED 4001

#define CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE 4002

#define CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED 4003

#define CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED 4004

#define CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM 4005

#define CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED 4006

#define CUDNN_STATUS_EXECUTION_FAILED 5000

#define CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER 5001

#define CUDNN_STATUS_EXECUTION_FAILED_CUBLAS 5002

#define CUDNN_STATUS_EXECUTION_FAILED_CUDART 5003

#define CUDNN_STATUS_EXECUTION_FAILED_CURAND 5004

#define CUDNN_STATUS_ALLOC_FAILED CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED

#define CUDNN_STATUS_ARCH_MISMATCH CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH

#define CUDNN_STATUS_MAPPING_ERROR CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED

#define CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING

#define CUDNN_STATUS_VERSION_MISMATCH CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH

#define CUDNN_DATA_FLOAT 0

#define CUDNN_DATA_DOUBLE 1

#define CUDNN_DATA_HALF 2

#define CUDNN_DATA_INT8 3

#define CUDNN_DATA_INT32 4

#define CUDNN_DATA_INT8x4 5

#define CUDNN_DATA_UINT8 6

#define CUDNN_DATA_UINT8x4 7

#define CUDNN_DATA_INT8x32 8

#define CUDNN_DATA_BFLOAT16 9

#define CUDNN_DATA_INT64 10

#define CUDNN_DATA_BOOLEAN 11

#define CUDNN_DATA_FP8_E4M3 12

#define CUDNN_DATA_FP8_E5M2 13

#define CUDNN_DEFAULT_MATH 0

#define CUDNN_TENSOR_OP_MATH 1

#define CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION 2

#define CUDNN_FMA_MATH 3

#define CUDNN_NOT_PROPAGATE_NAN 0

#define CUDNN_PROPAGATE_NAN 1

#define CUDNN_NON_DETERMINISTIC 0

#define CUDNN_DETERMINISTIC 1

#define CUDNN_DEFAULT_REORDER 0

#define CUDNN_NO_REORDER 1

#define CUDNN_TENSOR_NCHW 0

#define CUDNN_TENSOR_NHWC 1

#define CUDNN_TENSOR_NCHW_VECT_C 2

#define CUDNN_ACTIVATION_SIGMOID 0

#define CUDNN_ACTIVATION_RELU 1

#define CUDNN_ACTIVATION_TANH 2

#define CUDNN_ACTIVATION_CLIPPED_RELU 3

#define CUDNN_ACTIVATION_ELU 4

#define CUDNN_ACTIVATION_IDENTITY 5

#define CUDNN_ACTIVATION_SWISH 6

#define CUDNN_BATCHNORM_PER_ACTIVATION 0

#define CUDNN_BATCHNORM_SPATIAL 1

#define CUDNN_BATCHNORM_SPATIAL_PERSISTENT 2

#define CUDNN_BATCHNORM_OPS_BN 0

#define CUDNN_BATCHNORM_OPS_BN_ACTIVATION 1

#define CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION 2

#define CUDNN_OP_TENSOR_ADD 0

#define CUDNN_OP_TENSOR_MUL 1

#define CUDNN_OP_TENSOR_MIN 2

#define CUDNN_OP_TENSOR_MAX 3

#define CUDNN_OP_TENSOR_SQRT 4

#define CUDNN_OP_TENSOR_NOT 5

#define CUDNN_CONVOLUTION 0

#define CUDNN_CROSS_CORRELATION 1

#define CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM 0

#define CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM 1

#define CUDNN_CONVOLUTION_FWD_ALGO_GEMM 2

#define CUDNN_CONVOLUTION_FWD_ALGO_DIRECT 3

#define CUDNN_CONVOLUTION_FWD_ALGO_FFT 4

#define CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING 5

#define CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD 6

#define CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED 7

#define CUDNN_CONVOLUTION_FWD_ALGO_COUNT 8

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 0

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 1

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT 2

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING 3

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD 4

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED 5

#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT 6

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 0

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 1

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT 2

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 3

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD 4

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED 5

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING 6

#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT 7

#define CUDNN_BACKEND_POINTWISE_DESCRIPTOR 0

#define CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR 1

#define CUDNN_BACKEND_ENGINE_DESCRIPTOR 2

#define CUDNN_BACKEND_ENGINECFG_DESCRIPTOR 3

#define CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR 4

#define CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR 5

#define CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR 6

#define CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR 7

#define CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR 8

#define CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR 9

#define CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR 10

#define CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR 11

#define CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR 12

#define CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR 13

#define CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR 14

#define CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR 15

#define CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR 16

#define CUDNN_BACKEND_TENSOR_DESCRIPTOR 17

#define CUDNN_BACKEND_MATMUL_DESCRIPTOR 18

#define CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR 19

#define CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR 20

#define CUDNN_BACKEND_REDUCTION_DESCRIPTOR 21

#define CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR 22

#define CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR 23

#define CUDNN_BACKEND_RESAMPLE_DESCRIPTOR 24

#define CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR 25

#define CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR 26

#define CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR 27

#define CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR 28

#define CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR 29

#define CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR 30

#define CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR 31

#define CUDNN_BACKEND_RNG_DESCRIPTOR 32

#define CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR 33

#define CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR 34

#define CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR 35

#define CUDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR 36

#define CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR 37

#define CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR 38

#define CUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR 39

#define CUDNN_BACKEND_OPERATION_CONTRACT_BAND_MATRIX_DESCRIPTOR 40

#define CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR 41

#define CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR 42

#define CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR 43

#define CUDNN_ATTR_POINTWISE_MODE 0

#define CUDNN_ATTR_POINTWISE_MATH_PREC 1

#define CUDNN_ATTR_POINTWISE_NAN_PROPAGATION 2

#define CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP 3

#define CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP 4

#define CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE 5

#define CUDNN_ATTR_POINTWISE_ELU_ALPHA 6

#define CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA 7

#define CUDNN_ATTR_POINTWISE_SWISH_BETA 8

#define CUDNN_ATTR_POINTWISE_AXIS 9

#define CUDNN_ATTR_CONVOLUTION_COMP_TYPE 100

#define CUDNN_ATTR_CONVOLUTION_CONV_MODE 101

#define CUDNN_ATTR_CONVOLUTION_DILATIONS 102

#define CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES 103

#define CUDNN_ATTR_CONVOLUTION_POST_PADDINGS 104

#define CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS 105

#define CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS 106

#define CUDNN_ATTR_ENGINEHEUR_MODE 200

#define CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH 201

#define CUDNN_ATTR_ENGINEHEUR_RESULTS 202

#define CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET 203

#define CUDNN_ATTR_ENGINEHEUR_DEVICEPROP 204

#define CUDNN_ATTR_ENGINECFG_ENGINE 300

#define CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO 301

#define CUDNN_ATTR_ENGINECFG_KNOB_CHOICES 302

#define CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE 303

#define CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED 304

#define CUDNN_ATTR_EXECUTION_PLAN_HANDLE 400

#define CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG 401

#define CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE 402

#define CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS 403

#define CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS 404

#define CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION 405

#define CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE 406

#define CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP 407

#define CUDNN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID 500

#define CUDNN_ATTR_INTERMEDIATE_INFO_SIZE 501

#define CUDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS 502

#define CUDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES 503

#define CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE 600

#define CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE 601

#define CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA 700

#define CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA 701

#define CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC 702

#define CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W 703

#define CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X 704

#define CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y 705

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA 706

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA 707

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC 708

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W 709

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX 710

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY 711

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA 712

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA 713

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC 714

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW 715

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X 716

#define CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY 717

#define CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR 750

#define CUDNN_ATTR_OPERATION_POINTWISE_XDESC 751

#define CUDNN_ATTR_OPERATION_POINTWISE_BDESC 752

#define CUDNN_ATTR_OPERATION_POINTWISE_YDESC 753

#define CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1 754

#define CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2 755

#define CUDNN_ATTR_OPERATION_POINTWISE_DXDESC 756

#define CUDNN_ATTR_OPERATION_POINTWISE_DYDESC 757

#define CUDNN_ATTR_OPERATION_POINTWISE_TDESC 758

#define CUDNN_ATTR_OPERATIONGRAPH_HANDLE 800

#define CUDNN_ATTR_OPERATIONGRAPH_OPS 801

#define CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT 802

#define CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED 803

#define CUDNN_ATTR_OPERATIONGRAPH_IS_SAME_TOPOLOGY 804

#define CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT 900

#define CUDNN_ATTR_TENSOR_DATA_TYPE 901

#define CUDNN_ATTR_TENSOR_DIMENSIONS 902

#define CUDNN_ATTR_TENSOR_STRIDES 903

#define CUDNN_ATTR_TENSOR_VECTOR_COUNT 904

#define CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION 905

#define CUDNN_ATTR_TENSOR_UNIQUE_ID 906

#define CUDNN_ATTR_TENSOR_IS_VIRTUAL 907

#define CUDNN_ATTR_TENSOR_IS_BY_VALUE 908

#define CUDNN_ATTR_TENSOR_REORDERING_MODE 909

#define CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC 913

#define CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS 1000

#define CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS 1001

#define CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES 1002

#define CUDNN_ATTR_VARIANT_PACK_WORKSPACE 1003

#define CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS 1010

#define CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES 1011

#define CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES 1012

#define CUDNN_ATTR_LAYOUT_INFO_TENSOR_UID 1100

#define CUDNN_ATTR_LAYOUT_INFO_TYPES 1101

#define CUDNN_ATTR_KNOB_INFO_TYPE 1200

#define CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE 1201

#define CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE 1202

#define CUDNN_ATTR_KNOB_INFO_STRIDE 1203

#define CUDNN_ATTR_ENGINE_OPERATION_GRAPH 1300

#define CUDNN_ATTR_ENGINE_GLOBAL_INDEX 1301

#define CUDNN_ATTR_ENGINE_KNOB_INFO 1302

#define CUDNN_ATTR_ENGINE_NUMERICAL_NOTE 1303

#define CUDNN_ATTR_ENGINE_LAYOUT_INFO 1304

#define CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE 1305

#define CUDNN_ATTR_ENGINE_SM_COUNT_TARGET 1306

#define CUDNN_ATTR_ENGINE_DEVICEPROP 1307

#define CUDNN_ATTR_ENGINE_DISABLE_CLUSTER_COOPERATIVE 1308

#define CUDNN_ATTR_OPERATION_NORM_FWD_MODE 2000

#define CUDNN_ATTR_OPERATION_NORM_FWD_PHASE 2001

#define CUDNN_ATTR_OPERATION_NORM_FWD_XDESC 2002

#define CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC 2003

#define CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC 2004

#define CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC 2005

#define CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC 2006

#define CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC 2007

#define CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC 2008

#define CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC 2009

#define CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC 2010

#define CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC 2011

#define CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC 2012

#define CUDNN_ATTR_OPERATION_NORM_FWD_YDESC 2013

#define CUDNN_ATTR_OPERATION_NORM_BWD_MODE 2100

#define CUDNN_ATTR_OPERATION_NORM_BWD_XDESC 2101

#define CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC 2102

#define CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC 2103

#define CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC 2104

#define CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC 2105

#define CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC 2106

#define CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC 2107

#define CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC 2108

#define CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC 2109

#define CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH 2400

#define CUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED 2401

#define CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION 2402

#define CUDNN_ATTR_DEVICEPROP_DEVICE_ID 2700

#define CUDNN_ATTR_DEVICEPROP_HANDLE 2701

#define CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION 2702

#define CUDNN_TYPE_HANDLE 0

#define CUDNN_TYPE_DATA_TYPE 1

#define CUDNN_TYPE_BOOLEAN 2

#define CUDNN_TYPE_INT64 3

#define CUDNN_TYPE_FLOAT 4

#define CUDNN_TYPE_DOUBLE 5

#define CUDNN_TYPE_VOID_PTR 6

#define CUDNN_TYPE_CONVOLUTION_MODE 7

#define CUDNN_TYPE_HEUR_MODE 8

#define CUDNN_TYPE_KNOB_TYPE 9

#define CUDNN_TYPE_NAN_PROPOGATION 10

#define CUDNN_TYPE_NUMERICAL_NOTE 11

#define CUDNN_TYPE_LAYOUT_TYPE 12

#define CUDNN_TYPE_ATTRIB_NAME 13

#define CUDNN_TYPE_POINTWISE_MODE 14

#define CUDNN_TYPE_BACKEND_DESCRIPTOR 15

#define CUDNN_TYPE_GENSTATS_MODE 16

#define CUDNN_TYPE_BN_FINALIZE_STATS_MODE 17

#define CUDNN_TYPE_REDUCTION_OPERATOR_TYPE 18

#define CUDNN_TYPE_BEHAVIOR_NOTE 19

#define CUDNN_TYPE_TENSOR_REORDERING_MODE 20

#define CUDNN_TYPE_RESAMPLE_MODE 21

#define CUDNN_TYPE_PADDING_MODE 22

#define CUDNN_TYPE_INT32 23

#define CUDNN_TYPE_CHAR 24

#define CUDNN_TYPE_SIGNAL_MODE 25

#define CUDNN_TYPE_FRACTION 26

#define CUDNN_TYPE_NORM_MODE 27

#define CUDNN_TYPE_NORM_FWD_PHASE 28

#define CUDNN_TYPE_RNG_DISTRIBUTION 29

#define CUDNN_TYPE_MOE_GROUPED_MATMUL_MODE 30

#define CUDNN_LAYER_NORM 0

#define CUDNN_INSTANCE_NORM 1

#define CUDNN_BATCH_NORM 2

#define CUDNN_GROUP_NORM 3

#define CUDNN_RMS_NORM 4

#define CUDNN_ADA_LAYER_NORM 5

#define CUDNN_NORM_FWD_INFERENCE 0

#define CUDNN_NORM_FWD_TRAINING 1

#define CUDNN_POINTWISE_ADD 0

#define CUDNN_POINTWISE_ADD_SQUARE 5

#define CUDNN_POINTWISE_DIV 6

#define CUDNN_POINTWISE_MAX 3

#define CUDNN_POINTWISE_MIN 2

#define CUDNN_POINTWISE_MOD 7

#define CUDNN_POINTWISE_MUL 1

#define CUDNN_POINTWISE_POW 8

#define CUDNN_POINTWISE_SUB 9

#define CUDNN_POINTWISE_ABS 10

#define CUDNN_POINTWISE_CEIL 11

#define CUDNN_POINTWISE_COS 12

#define CUDNN_POINTWISE_EXP 13

#define CUDNN_POINTWISE_FLOOR 14

#define CUDNN_POINTWISE_LOG 15

#define CUDNN_POINTWISE_NEG 16

#define CUDNN_POINTWISE_RSQRT 17

#define CUDNN_POINTWISE_SIN 18

#define CUDNN_POINTWISE_SQRT 4

#define CUDNN_POINTWISE_TAN 19

#define CUDNN_POINTWISE_ERF 20

#define CUDNN_POINTWISE_IDENTITY 21

#define CUDNN_POINTWISE_RECIPROCAL 22

#define CUDNN_POINTWISE_ATAN2 23

#define CUDNN_POINTWISE_RELU_FWD 100

#define CUDNN_POINTWISE_TANH_FWD 101

#define CUDNN_POINTWISE_SIGMOID_FWD 102

#define CUDNN_POINTWISE_ELU_FWD 103

#define CUDNN_POINTWISE_GELU_FWD 104

#define CUDNN_POINTWISE_SOFTPLUS_FWD 105

#define CUDNN_POINTWISE_SWISH_FWD 106

#define CUDNN_POINTWISE_GELU_APPROX_TANH_FWD 107

#define CUDNN_POINTWISE_RELU_BWD 200

#define CUDNN_POINTWISE_TANH_BWD 201

#define CUDNN_POINTWISE_SIGMOID_BWD 202

#define CUDNN_POINTWISE_ELU_BWD 203

#define CUDNN_POINTWISE_GELU_BWD 204

#define CUDNN_POINTWISE_SOFTPLUS_BWD 205

#define CUDNN_POINTWISE_SWISH_BWD 206

#define CUDNN_POINTWISE_GELU_APPROX_TANH_BWD 207

#define CUDNN_POINTWISE_CMP_EQ 300

#define CUDNN_POINTWISE_CMP_NEQ 301

#define CUDNN_POINTWISE_CMP_GT 302

#define CUDNN_POINTWISE_CMP_GE 303

#define CUDNN_POINTWISE_CMP_LT 304

#define CUDNN_POINTWISE_CMP_LE 305

#define CUDNN_POINTWISE_LOGICAL_AND 400

#define CUDNN_POINTWISE_LOGICAL_OR 401

#define CUDNN_POINTWISE_LOGICAL_NOT 402

#define CUDNN_POINTWISE_GEN_INDEX 501

#define CUDNN_POINTWISE_BINARY_SELECT 601

#define CUDNN_HEUR_MODE_INSTANT 0

#define CUDNN_HEUR_MODE_B 1

#define CUDNN_HEUR_MODE_FALLBACK 2

#define CUDNN_HEUR_MODE_A 3

#define CUDNN_HEUR_MODES_COUNT 4

#define CUDNN_NUMERICAL_NOTE_TENSOR_CORE 0

#define CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS 1

#define CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION 2

#define CUDNN_NUMERICAL_NOTE_FFT 3

#define CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC 4

#define CUDNN_NUMERICAL_NOTE_WINOGRAD 5

#define CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 6

#define CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 7

#define CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 8

#define CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP 9

#define CUDNN_NUMERICAL_NOTE_TYPE_COUNT 10

#define CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION 0

#define CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER 1

#define CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER 2

#define CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API 3

#define CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY 4

#define CUDNN_BEHAVIOR_NOTE_TYPE_COUNT 5

#define CUDNN_KNOB_TYPE_SPLIT_K 0

#define CUDNN_KNOB_TYPE_SWIZZLE 1

#define CUDNN_KNOB_TYPE_TILE_SIZE 2

#define CUDNN_KNOB_TYPE_USE_TEX 3

#define CUDNN_KNOB_TYPE_EDGE 4

#define CUDNN_KNOB_TYPE_KBLOCK 5

#define CUDNN_KNOB_TYPE_LDGA 6

#define CUDNN_KNOB_TYPE_LDGB 7

#define CUDNN_KNOB_TYPE_CHUNK_K 8

#define CUDNN_KNOB_TYPE_SPLIT_H 9

#define CUDNN_KNOB_TYPE_WINO_TILE 10

#define CUDNN_KNOB_TYPE_MULTIPLY 11

#define CUDNN_KNOB_TYPE_SPLIT_K_BUF 12

#define CUDNN_KNOB_TYPE_TILEK 13

#define CUDNN_KNOB_TYPE_STAGES 14

#define CUDNN_KNOB_TYPE_REDUCTION_MODE 15

#define CUDNN_KNOB_TYPE_CTA_SPLIT_K_MODE 16

#define CUDNN_KNOB_TYPE_SPLIT_K_SLC 17

#define CUDNN_KNOB_TYPE_IDX_MODE 18

#define CUDNN_KNOB_TYPE_SLICED 19

#define CUDNN_KNOB_TYPE_SPLIT_RS 20

#define CUDNN_KNOB_TYPE_SINGLEBUFFER 21

#define CUDNN_KNOB_TYPE_LDGC 22

#define CUDNN_KNOB_TYPE_SPECFILT 23

#define CUDNN_KNOB_TYPE_KERNEL_CFG 24

#define CUDNN_KNOB_TYPE_WORKSPACE 25

#define CUDNN_KNOB_TYPE_TILE_CGA 26

#define CUDNN_KNOB_TYPE_TILE_CGA_M 27

#define CUDNN_KNOB_TYPE_TILE_CGA_N 28

#define CUDNN_KNOB_TYPE_BLOCK_SIZE 29

#define CUDNN_KNOB_TYPE_OCCUPANCY 30

#define CUDNN_KNOB_TYPE_ARRAY_SIZE_PER_THREAD 31

#define CUDNN_KNOB_TYPE_NUM_C_PER_BLOCK 32

#define CUDNN_KNOB_TYPE_SPLIT_COLS 33

#define CUDNN_KNOB_TYPE_TILE_ROWS 34

#define CUDNN_KNOB_TYPE_TILE_COLS 35

#define CUDNN_KNOB_TYPE_LOAD_SIZE 36

#define CUDNN_KNOB_TYPE_CTA_COUNT 37

#define CUDNN_KNOB_TYPE_STREAM_K 38

#define CUDNN_KNOB_TYPE_SPLIT_P_SLC 39

#define CUDNN_KNOB_TYPE_TILE_M 40

#define CUDNN_KNOB_TYPE_TILE_N 41

#define CUDNN_KNOB_TYPE_WARP_SPEC_CFG 42

#define CUDNN_KNOB_TYPE_SWAP_AB 43

#define CUDNN_KNOB_TYPE_COUNTS 44

#define CUDNN_TENSOR_REORDERING_NONE 0

#define CUDNN_TENSOR_REORDERING_INT8x32 1

#define CUDNN_TENSOR_REORDERING_F16x16 2

#define CUDNN_TENSOR_REORDERING_F8_128x4 3

#define CUDNN_RNN_ALGO_STANDARD 0

#define CUDNN_RNN_ALGO_PERSIST_STATIC 1

#define CUDNN_RNN_ALGO_PERSIST_DYNAMIC 2

#define CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H 3

#define CUDNN_RNN_ALGO_COUNT 4

#define CUDNN_FWD_MODE_INFERENCE 0

#define CUDNN_FWD_MODE_TRAINING 1

#define CUDNN_WGRAD_MODE_ADD 0

#define CUDNN_WGRAD_MODE_SET 1

#define CUDNN_RNN_RELU 0

#define CUDNN_RNN_TANH 1

#define CUDNN_LSTM 2

#define CUDNN_GRU 3

#define CUDNN_RNN_NO_BIAS 0

#define CUDNN_RNN_SINGLE_INP_BIAS 1

#define CUDNN_RNN_DOUBLE_BIAS 2

#define CUDNN_RNN_SINGLE_REC_BIAS 3

#define CUDNN_UNIDIRECTIONAL 0

#define CUDNN_BIDIRECTIONAL 1

#define CUDNN_LINEAR_INPUT 0

#define CUDNN_SKIP_INPUT 1

#define CUDNN_RNN_CLIP_NONE 0

#define CUDNN_RNN_CLIP_MINMAX 1

#define CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED 0

#define CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED 1

#define CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED 2

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle,
                                                     cudnnTensorDescriptor_t x_descriptor,
                                                     cudnnFilterDescriptor_t w_descriptor,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y_descriptor,
                                                     int requested,
                                                     int *returned,
                                                     cudnnConvolutionFwdAlgoPerf_t *results);

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t handle,
                                                   cudnnTensorDescriptor_t x_descriptor,
                                                   cudnnFilterDescriptor_t w_descriptor,
                                                   cudnnConvolutionDescriptor_t convolution,
                                                   cudnnTensorDescriptor_t y_descriptor,
                                                   int requested,
                                                   int *returned,
                                                   cudnnConvolutionFwdAlgoPerf_t *results);

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t handle,
                                                     cudnnTensorDescriptor_t x_descriptor,
                                                     const void *x,
                                                     cudnnFilterDescriptor_t w_descriptor,
                                                     const void *w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y_descriptor,
                                                     void *y,
                                                     int requested,
                                                     int *returned,
                                                     cudnnConvolutionFwdAlgoPerf_t *results,
                                                     void *workspace,
                                                     size_t workspace_size);

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle,
                                                      cudnnTensorDescriptor_t x_descriptor,
                                                      cudnnFilterDescriptor_t w_descriptor,
                                                      cudnnConvolutionDescriptor_t convolution,
                                                      cudnnTensorDescriptor_t y_descriptor,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      size_t *size);

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle,
                                      const void *alpha,
                                      cudnnTensorDescriptor_t x_descriptor,
                                      const void *x,
                                      cudnnFilterDescriptor_t w_descriptor,
                                      const void *w,
                                      cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm,
                                      void *workspace,
                                      size_t workspace_size,
                                      const void *beta,
                                      cudnnTensorDescriptor_t y_descriptor,
                                      void *y);

/*
 `y = f(alpha1·conv(x) + alpha2·z + bias)`, where `f` is ReLU or, with IMPLICIT_PRECOMP_GEMM only, the identity. `z`
 may be `y` itself. In two-byte types the sum before the bias is rounded once more.
 */
cudnnStatus_t cudnnConvolutionBiasActivationForward(cudnnHandle_t handle,
                                                    const void *alpha1,
                                                    cudnnTensorDescriptor_t x_descriptor,
                                                    const void *x,
                                                    cudnnFilterDescriptor_t w_descriptor,
                                                    const void *w,
                                                    cudnnConvolutionDescriptor_t convolution,
                                                    cudnnConvolutionFwdAlgo_t algorithm,
                                                    void *workspace,
                                                    size_t workspace_size,
                                                    const void *alpha2,
                                                    cudnnTensorDescriptor_t z_descriptor,
                                                    const void *z,
                                                    cudnnTensorDescriptor_t bias_descriptor,
                                                    const void *bias,
                                                    cudnnActivationDescriptor_t activation,
                                                    cudnnTensorDescriptor_t y_descriptor,
                                                    void *y);

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle,
                                                          cudnnFilterDescriptor_t w_descriptor,
                                                          cudnnTensorDescriptor_t dy_descriptor,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx_descriptor,
                                                          int requested,
                                                          int *returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t *results);

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(cudnnHandle_t handle,
                                                        cudnnFilterDescriptor_t w_descriptor,
                                                        cudnnTensorDescriptor_t dy_descriptor,
                                                        cudnnConvolutionDescriptor_t convolution,
                                                        cudnnTensorDescriptor_t dx_descriptor,
                                                        int requested,
                                                        int *returned,
                                                        cudnnConvolutionBwdDataAlgoPerf_t *results);

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(cudnnHandle_t handle,
                                                          cudnnFilterDescriptor_t w_descriptor,
                                                          const void *w,
                                                          cudnnTensorDescriptor_t dy_descriptor,
                                                          const void *dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx_descriptor,
                                                          void *dx,
                                                          int requested,
                                                          int *returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t *results,
                                                          void *workspace,
                                                          size_t workspace_size);

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle,
                                                           cudnnFilterDescriptor_t w_descriptor,
                                                           cudnnTensorDescriptor_t dy_descriptor,
                                                           cudnnConvolutionDescriptor_t convolution,
                                                           cudnnTensorDescriptor_t dx_descriptor,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           size_t *size);

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle,
                                           const void *alpha,
                                           cudnnFilterDescriptor_t w_descriptor,
                                           const void *w,
                                           cudnnTensorDescriptor_t dy_descriptor,
                                           const void *dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void *workspace,
                                           size_t workspace_size,
                                           const void *beta,
                                           cudnnTensorDescriptor_t dx_descriptor,
                                           void *dx);

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle,
                                                            cudnnTensorDescriptor_t x_descriptor,
                                                            cudnnTensorDescriptor_t dy_descriptor,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw_descriptor,
                                                            int requested,
                                                            int *returned,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t *results);

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(cudnnHandle_t handle,
                                                          cudnnTensorDescriptor_t x_descriptor,
                                                          cudnnTensorDescriptor_t dy_descriptor,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnFilterDescriptor_t dw_descriptor,
                                                          int requested,
                                                          int *returned,
                                                          cudnnConvolutionBwdFilterAlgoPerf_t *results);

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(cudnnHandle_t handle,
                                                            cudnnTensorDescriptor_t x_descriptor,
                                                            const void *x,
                                                            cudnnTensorDescriptor_t dy_descriptor,
                                                            const void *dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw_descriptor,
                                                            void *dw,
                                                            int requested,
                                                            int *returned,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t *results,
                                                            void *workspace,
                                                            size_t workspace_size);

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle,
                                                             cudnnTensorDescriptor_t x_descriptor,
                                                             cudnnTensorDescriptor_t dy_descriptor,
                                                             cudnnConvolutionDescriptor_t convolution,
                                                             cudnnFilterDescriptor_t dw_descriptor,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             size_t *size);

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle,
                                             const void *alpha,
                                             cudnnTensorDescriptor_t x_descriptor,
                                             const void *x,
                                             cudnnTensorDescriptor_t dy_descriptor,
                                             const void *dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void *workspace,
                                             size_t workspace_size,
                                             const void *beta,
                                             cudnnFilterDescriptor_t dw_descriptor,
                                             void *dw);

/*
 `y = alpha·(scale·x̂ + bias) + beta·y` by the statistics of x itself. `cudnnBatchNormalizationForwardTrainingEx`
 with CUDNN_BATCHNORM_OPS_BN has all rules.
 */
cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle,
                                                     cudnnBatchNormMode_t mode,
                                                     const void *alpha,
                                                     const void *beta,
                                                     cudnnTensorDescriptor_t x_descriptor,
                                                     const void *x,
                                                     cudnnTensorDescriptor_t y_descriptor,
                                                     void *y,
                                                     cudnnTensorDescriptor_t parameters,
                                                     const void *scale,
                                                     const void *bias,
                                                     double factor,
                                                     void *running_mean,
                                                     void *running_variance,
                                                     double epsilon,
                                                     void *saved_mean,
                                                     void *saved_inverse);

/*
 `y = alpha·f(scale·x̂ + bias [+ z]) + beta·y`, where f is the identity or a ReLU, by `ops`.

 x, y and z have one type and the same four or five dimensions: n, c, h, w, with d before h. Types are half, bfloat16
 and float, with alpha, beta and parameters in float, and double with all in double. Parameters are as
 `cudnnDeriveBNTensorDescriptor` says. y may be x or z itself.

 The running mean becomes `(1 - factor)·old + factor·mean`, and the running variance likewise by the unbiased
 variance, which is NaN for a single element. Either may be null. The saved values are the mean and 1/√(variance +
 epsilon) by the biased variance; both or neither are null.

 Operations other than CUDNN_BATCHNORM_OPS_BN need CUDNN_BATCHNORM_SPATIAL_PERSISTENT, packed NHWC, no doubles,
 CUDNN_ACTIVATION_RELU, a workspace and saved statistics; a sum also needs channels in fours, and the reserve. What
 is missing is CUDNN_STATUS_NOT_SUPPORTED. Two things that cuDNN computes are not supported here: results whose
 elements overlap, and CUDNN_ACTIVATION_SWISH. Other bad arguments are CUDNN_STATUS_BAD_PARAM.
 */
cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(cudnnHandle_t handle,
                                                       cudnnBatchNormMode_t mode,
                                                       cudnnBatchNormOps_t ops,
                                                       const void *alpha,
                                                       const void *beta,
                                                       cudnnTensorDescriptor_t x_descriptor,
                                                       const void *x,
                                                       cudnnTensorDescriptor_t z_descriptor,
                                                       const void *z,
                                                       cudnnTensorDescriptor_t y_descriptor,
                                                       void *y,
                                                       cudnnTensorDescriptor_t parameters,
                                                       const void *scale,
                                                       const void *bias,
                                                       double factor,
                                                       void *running_mean,
                                                       void *running_variance,
                                                       double epsilon,
                                                       void *saved_mean,
                                                       void *saved_inverse,
                                                       cudnnActivationDescriptor_t activation,
                                                       void *workspace,
                                                       size_t workspace_size,
                                                       void *reserve,
                                                       size_t reserve_size);

/*
 The gradient of `cudnnBatchNormalizationForwardTraining`. `cudnnBatchNormalizationBackwardEx` with
 CUDNN_BATCHNORM_OPS_BN has all rules.
 */
cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle,
                                              cudnnBatchNormMode_t mode,
                                              const void *alpha_data,
                                              const void *beta_data,
                                              const void *alpha_parameters,
                                              const void *beta_parameters,
                                              cudnnTensorDescriptor_t x_descriptor,
                                              const void *x,
                                              cudnnTensorDescriptor_t dy_descriptor,
                                              const void *dy,
                                              cudnnTensorDescriptor_t dx_descriptor,
                                              void *dx,
                                              cudnnTensorDescriptor_t parameters,
                                              const void *scale,
                                              void *dscale,
                                              void *dbias,
                                              double epsilon,
                                              const void *saved_mean,
                                              const void *saved_inverse);

/*
 The gradients of `cudnnBatchNormalizationForwardTrainingEx`, whose rules for types, dimensions, parameters and
 operations hold here.

 Let g be dy where the ReLU let its input through, and 0 elsewhere; without a ReLU g is dy. Then

 - `dx = alpha_data·scale·inverse·(g - (Σg + x̂·Σ(g·x̂))/m) + beta_data·dx`, over the m elements of a group;
 - `dscale = alpha_parameters·Σ(g·x̂) + beta_parameters·dscale`, and `dbias` likewise by Σg;
 - `dz = g`, without factors, for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION alone.

 The sum's ReLU is known from the reserve of the forward call. Without a sum, the ReLU's input is computed again, and
 `bias` is needed. y is not read. Without saved statistics, CUDNN_BATCHNORM_OPS_BN finds x's statistics again.
 dx or dz may be dy itself, and dx may be x.
 */
cudnnStatus_t cudnnBatchNormalizationBackwardEx(cudnnHandle_t handle,
                                                cudnnBatchNormMode_t mode,
                                                cudnnBatchNormOps_t ops,
                                                const void *alpha_data,
                                                const void *beta_data,
                                                const void *alpha_parameters,
                                                const void *beta_parameters,
                                                cudnnTensorDescriptor_t x_descriptor,
                                                const void *x,
                                                cudnnTensorDescriptor_t y_descriptor,
                                                const void *y,
                                                cudnnTensorDescriptor_t dy_descriptor,
                                                const void *dy,
                                                cudnnTensorDescriptor_t dz_descriptor,
                                                void *dz,
                                                cudnnTensorDescriptor_t dx_descriptor,
                                                void *dx,
                                                cudnnTensorDescriptor_t parameters,
                                                const void *scale,
                                                const void *bias,
                                                void *dscale,
                                                void *dbias,
                                                double epsilon,
                                                const void *saved_mean,
                                                const void *saved_inverse,
                                                cudnnActivationDescriptor_t activation,
                                                void *workspace,
                                                size_t workspace_size,
                                                void *reserve,
                                                size_t reserve_size);

/*
 `y = alpha·(scale·(x - estimated_mean)/√(estimated_variance + epsilon) + bias) + beta·y`. Types, dimensions and
 parameters are those of `cudnnBatchNormalizationForwardTrainingEx`. y may be x itself.
 */
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle,
                                                      cudnnBatchNormMode_t mode,
                                                      const void *alpha,
                                                      const void *beta,
                                                      cudnnTensorDescriptor_t x_descriptor,
                                                      const void *x,
                                                      cudnnTensorDescriptor_t y_descriptor,
                                                      void *y,
                                                      cudnnTensorDescriptor_t parameters,
                                                      const void *scale,
                                                      const void *bias,
                                                      const void *estimated_mean,
                                                      const void *estimated_variance,
                                                      double epsilon);

/*
 Bytes for sequences of `x_descriptor`'s number and length. Null results are skipped. Inference needs no reserve; the
 workspace for training is for forward and both backward calls.
 */
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle,
                                        cudnnRNNDescriptor_t descriptor,
                                        cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x_descriptor,
                                        size_t *workspace_size,
                                        size_t *reserve_size);

/*
 The lengths are the descriptors': `device_lengths` is ignored. A sequence of length 0 ends in its initial state.
 Training computes as inference does and writes a reserve, for the backward calls. It also applies dropout between
 layers if the RNN's dropout descriptor says so, with the states from when the RNN descriptor was set: each pseudo
 layer above the first layer has a mask of its own, drawn as `cudnnDropoutForward` draws one for its input.
 */
cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle,
                              cudnnRNNDescriptor_t descriptor,
                              cudnnForwardMode_t mode,
                              const int32_t *device_lengths,
                              cudnnRNNDataDescriptor_t x_descriptor,
                              const void *x,
                              cudnnRNNDataDescriptor_t y_descriptor,
                              void *y,
                              cudnnTensorDescriptor_t h_descriptor,
                              const void *hx,
                              void *hy,
                              cudnnTensorDescriptor_t c_descriptor,
                              const void *cx,
                              void *cy,
                              size_t weight_space_size,
                              const void *weight_space,
                              size_t workspace_size,
                              void *workspace,
                              size_t reserve_size,
                              void *reserve);

/*
 Computes `dx`, and `dhx` and `dcx` if they are not null. Null `dhy` and `dcy` are zeros, as null `hx` and `cx` are.
 Padding of `dy` is not read. cuDNN's reference does not say what padding of `dx` becomes: here it is 0. The lengths
 are the descriptors': `device_lengths` is ignored.

 The call uses up the reserve: it leaves there what `cudnnRNNBackwardWeights_v8` reads, and cannot run again on it.
 As in cuDNN, `h_descriptor` is not looked at if `dhy` and `dhx` are null, and `c_descriptor` if `dcy` and `dcx` are.
 */
cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle,
                                      cudnnRNNDescriptor_t descriptor,
                                      const int32_t *device_lengths,
                                      cudnnRNNDataDescriptor_t y_descriptor,
                                      const void *y,
                                      const void *dy,
                                      cudnnRNNDataDescriptor_t x_descriptor,
                                      void *dx,
                                      cudnnTensorDescriptor_t h_descriptor,
                                      const void *hx,
                                      const void *dhy,
                                      void *dhx,
                                      cudnnTensorDescriptor_t c_descriptor,
                                      const void *cx,
                                      const void *dcy,
                                      void *dcx,
                                      size_t weight_space_size,
                                      const void *weight_space,
                                      size_t workspace_size,
                                      void *workspace,
                                      size_t reserve_size,
                                      void *reserve);

/*
 Adds the weights' gradients to `dweights`, in the weight space's layout. Reads what `cudnnRNNBackwardData_v8`
 left in the reserve, which stays as it is. A null `hx` is zeros, and `h_descriptor` is not looked at then.

 As in cuDNN 9.19, CUDNN_WGRAD_MODE_SET is CUDNN_STATUS_NOT_SUPPORTED, whatever the arguments but `x_descriptor`.
 */
cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle,
                                         cudnnRNNDescriptor_t descriptor,
                                         cudnnWgradMode_t mode,
                                         const int32_t *device_lengths,
                                         cudnnRNNDataDescriptor_t x_descriptor,
                                         const void *x,
                                         cudnnTensorDescriptor_t h_descriptor,
                                         const void *hx,
                                         cudnnRNNDataDescriptor_t y_descriptor,
                                         const void *y,
                                         size_t weight_space_size,
                                         void *dweights,
                                         size_t workspace_size,
                                         void *workspace,
                                         size_t reserve_size,
                                         void *reserve);

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t *descriptor);

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);

/*
 Resets a descriptor to its state at creation.
 */
cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor);

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t element,
                                       int64_t count,
                                       const void *elements);

/*
 Without an array, `count` becomes the number of elements. Descriptors in the array are filled if they have
 the attribute's kind.
 */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t element,
                                       int64_t requested,
                                       int64_t *count,
                                       void *elements);

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack);

/*
 The bytes of workspace that an execution of the plan with the pack needs. cuDNN has this function since 9.23.
 */
cudnnStatus_t cudnnGetExecutionPlanWorkspaceSize(cudnnHandle_t handle,
                                                 cudnnBackendDescriptor_t plan,
                                                 cudnnBackendDescriptor_t pack,
                                                 size_t *size);

/*
 CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API: there are no CUDA graphs on a CPU.
 */
cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle,
                                            cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack,
                                            cudaGraph_t graph);

/*
 CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API: there are no CUDA graphs on a CPU.
 */
cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                          cudnnBackendDescriptor_t plan,
                                          cudnnBackendDescriptor_t pack,
                                          cudaGraph_t graph);

/*
 `property` is a `libraryPropertyType`: 0 major, 1 minor, 2 patch level.
 */
cudnnStatus_t cudnnGetProperty(libraryPropertyType property, int *value);

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream);

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor);

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnTensorFormat_t format,
                                         cudnnDataType_t data_type,
                                         int n,
                                         int c,
                                         int h,
                                         int w);

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                           cudnnDataType_t data_type,
                                           int n,
                                           int c,
                                           int h,
                                           int w,
                                           int n_stride,
                                           int c_stride,
                                           int h_stride,
                                           int w_stride);

cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnDataType_t *data_type,
                                         int *n,
                                         int *c,
                                         int *h,
                                         int *w,
                                         int *n_stride,
                                         int *c_stride,
                                         int *h_stride,
                                         int *w_stride);

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnDataType_t data_type,
                                         int rank,
                                         const int *dims,
                                         const int *strides);

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                           cudnnTensorFormat_t format,
                                           cudnnDataType_t data_type,
                                           int rank,
                                           const int *dims);

/*
 Writes the first `requested` dimensions and strides, or as many as there are.
 */
cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                         int requested,
                                         cudnnDataType_t *data_type,
                                         int *rank,
                                         int *dims,
                                         int *strides);

cudnnStatus_t cudnnGetTensorSizeInBytes(cudnnTensorDescriptor_t descriptor, size_t *size);

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor);

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor,
                                         cudnnDataType_t data_type,
                                         cudnnTensorFormat_t format,
                                         int k,
                                         int c,
                                         int h,
                                         int w);

cudnnStatus_t cudnnGetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor,
                                         cudnnDataType_t *data_type,
                                         cudnnTensorFormat_t *format,
                                         int *k,
                                         int *c,
                                         int *h,
                                         int *w);

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                         cudnnDataType_t data_type,
                                         cudnnTensorFormat_t format,
                                         int rank,
                                         const int *dims);

/*
 Writes `requested` dimensions, 1 to 8; 0 where there are fewer.
 */
cudnnStatus_t cudnnGetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                         int requested,
                                         cudnnDataType_t *data_type,
                                         cudnnTensorFormat_t *format,
                                         int *rank,
                                         int *dims);

cudnnStatus_t cudnnGetFilterSizeInBytes(cudnnFilterDescriptor_t descriptor, size_t *size);

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor);

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math_type);

cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t *math_type);

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups);

cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int *groups);

cudnnStatus_t cudnnSetConvolutionReorderType(cudnnConvolutionDescriptor_t descriptor,
                                             cudnnReorderType_t reorder);

cudnnStatus_t cudnnGetConvolutionReorderType(cudnnConvolutionDescriptor_t descriptor,
                                             cudnnReorderType_t *reorder);

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor,
                                              int pad_h,
                                              int pad_w,
                                              int u,
                                              int v,
                                              int dilation_h,
                                              int dilation_w,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type);

cudnnStatus_t cudnnGetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor,
                                              int *pad_h,
                                              int *pad_w,
                                              int *u,
                                              int *v,
                                              int *dilation_h,
                                              int *dilation_w,
                                              cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *compute_type);

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t descriptor,
                                              int rank,
                                              const int *pad,
                                              const int *stride,
                                              const int *dilation,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type);

/*
 Writes `requested` values to each array, 0 to 6, and 0 for missing ones.
 */
cudnnStatus_t cudnnGetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t descriptor,
                                              int requested,
                                              int *rank,
                                              int *pad,
                                              int *stride,
                                              int *dilation,
                                              cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *compute_type);

/*
 The results are 0 if the shapes do not match; if the filter does not fit, they are 0 from that dimension on.
 */
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t convolution,
                                                    cudnnTensorDescriptor_t input,
                                                    cudnnFilterDescriptor_t filter,
                                                    int *n,
                                                    int *c,
                                                    int *h,
                                                    int *w);

/*
 Writes the first `rank` dimensions of the output; stops before the first one that the filter does not fit.
 */
cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(cudnnConvolutionDescriptor_t convolution,
                                                    cudnnTensorDescriptor_t input,
                                                    cudnnFilterDescriptor_t filter,
                                                    int rank,
                                                    int *dims);

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor);

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                           cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t propagate_nan,
                                           double coefficient);

cudnnStatus_t cudnnGetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                           cudnnActivationMode_t *mode,
                                           cudnnNanPropagation_t *propagate_nan,
                                           double *coefficient);

cudnnStatus_t cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t descriptor,
                                                    double swish_beta);

cudnnStatus_t cudnnGetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t descriptor,
                                                    double *swish_beta);

cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t descriptor);

cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t descriptor,
                                         cudnnOpTensorOp_t operation,
                                         cudnnDataType_t compute_type,
                                         cudnnNanPropagation_t propagate_nan);

cudnnStatus_t cudnnGetOpTensorDescriptor(cudnnOpTensorDescriptor_t descriptor,
                                         cudnnOpTensorOp_t *operation,
                                         cudnnDataType_t *compute_type,
                                         cudnnNanPropagation_t *propagate_nan);

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor);

/*
 Copies the dropout descriptor's settings: later changes to it, or its destruction, have no effect.
 */
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor,
                                       cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t cell,
                                       cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input_mode,
                                       cudnnDataType_t data_type,
                                       cudnnDataType_t math_precision,
                                       cudnnMathType_t math_type,
                                       int32_t input,
                                       int32_t hidden,
                                       int32_t projection,
                                       int32_t layers,
                                       cudnnDropoutDescriptor_t dropout,
                                       uint32_t flags);

cudnnStatus_t cudnnGetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor,
                                       cudnnRNNAlgo_t *algorithm,
                                       cudnnRNNMode_t *cell,
                                       cudnnRNNBiasMode_t *bias,
                                       cudnnDirectionMode_t *direction,
                                       cudnnRNNInputMode_t *input_mode,
                                       cudnnDataType_t *data_type,
                                       cudnnDataType_t *math_precision,
                                       cudnnMathType_t *math_type,
                                       int32_t *input,
                                       int32_t *hidden,
                                       int32_t *projection,
                                       int32_t *layers,
                                       cudnnDropoutDescriptor_t *dropout,
                                       uint32_t *flags);

cudnnStatus_t cudnnRNNSetClip_v8(cudnnRNNDescriptor_t descriptor,
                                 cudnnRNNClipMode_t mode,
                                 cudnnNanPropagation_t propagate_nan,
                                 double least,
                                 double greatest);

cudnnStatus_t cudnnRNNSetClip_v9(cudnnRNNDescriptor_t descriptor,
                                 cudnnRNNClipMode_t mode,
                                 double least,
                                 double greatest);

/*
 Null results are skipped.
 */
cudnnStatus_t cudnnRNNGetClip_v8(cudnnRNNDescriptor_t descriptor,
                                 cudnnRNNClipMode_t *mode,
                                 cudnnNanPropagation_t *propagate_nan,
                                 double *least,
                                 double *greatest);

/*
 Null results are skipped.
 */
cudnnStatus_t cudnnRNNGetClip_v9(cudnnRNNDescriptor_t descriptor,
                                 cudnnRNNClipMode_t *mode,
                                 double *least,
                                 double *greatest);

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor);

/*
 `padding_fill` points to an element of the type; null is 0.
 */
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor,
                                        cudnnDataType_t data_type,
                                        cudnnRNNDataLayout_t layout,
                                        int steps,
                                        int batch,
                                        int vector,
                                        const int *lengths,
                                        void *padding_fill);

/*
 Writes the first `requested` lengths, or all if there are fewer, and the padding fill, an element.
 */
cudnnStatus_t cudnnGetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor,
                                        cudnnDataType_t *data_type,
                                        cudnnRNNDataLayout_t *layout,
                                        int *steps,
                                        int *batch,
                                        int *vector,
                                        int requested,
                                        int *lengths,
                                        void *padding_fill);

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t *descriptor);

cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t descriptor);

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *size);

/*
 Fills the states from the seed; without states, keeps the existing ones unchanged.
 */
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                        cudnnHandle_t handle,
                                        float probability,
                                        void *states,
                                        size_t states_size,
                                        unsigned long long seed);

/*
 Continues with states that were filled before.
 */
cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                            cudnnHandle_t handle,
                                            float probability,
                                            void *states,
                                            size_t states_size,
                                            unsigned long long seed);

cudnnStatus_t cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                        cudnnHandle_t handle,
                                        float *probability,
                                        void **states,
                                        unsigned long long *seed);

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int *count);

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle, int *count);

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle, int *count);

/*
 `db = alpha·(sum of dy over all but the channels) + beta·db`.
 */
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle,
                                           const void *alpha,
                                           cudnnTensorDescriptor_t dy_descriptor,
                                           const void *dy,
                                           const void *beta,
                                           cudnnTensorDescriptor_t db_descriptor,
                                           void *db);

/*
 `C = alpha·A + beta·C`, where A's dimensions are C's or 1.
 */
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle,
                             const void *alpha,
                             cudnnTensorDescriptor_t a_descriptor,
                             const void *a,
                             const void *beta,
                             cudnnTensorDescriptor_t c_descriptor,
                             void *c);

/*
 `y = alpha·x + beta·y`, from one layout to another of the same type and dimensions.
 */
cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle,
                                   const void *alpha,
                                   cudnnTensorDescriptor_t x_descriptor,
                                   const void *x,
                                   const void *beta,
                                   cudnnTensorDescriptor_t y_descriptor,
                                   void *y);

/*
 Sets all elements to the one at `value`, which is of the tensor's type.
 */
cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle,
                             cudnnTensorDescriptor_t y_descriptor,
                             void *y,
                             const void *value);

/*
 Multiplies all elements.
 */
cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle,
                               cudnnTensorDescriptor_t y_descriptor,
                               void *y,
                               const void *alpha);

/*
 `C = op(alpha1·A, alpha2·B) + beta·C`, where B's dimensions are C's or 1. A and B have one type. It and C's type are
 equal, or one is float and the other a two-byte type, computed in float; all double, computed in double; all half,
 in float or half; all bfloat16, in float. SQRT and NOT use only A.
 */
cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle,
                            cudnnOpTensorDescriptor_t descriptor,
                            const void *alpha1,
                            cudnnTensorDescriptor_t a_descriptor,
                            const void *a,
                            const void *alpha2,
                            cudnnTensorDescriptor_t b_descriptor,
                            const void *b,
                            const void *beta,
                            cudnnTensorDescriptor_t c_descriptor,
                            void *c);

/*
 `y = alpha·f(x) + beta·y`. `y` may be `x` itself.
 */
cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle,
                                     cudnnActivationDescriptor_t activation,
                                     const void *alpha,
                                     cudnnTensorDescriptor_t x_descriptor,
                                     const void *x,
                                     const void *beta,
                                     cudnnTensorDescriptor_t y_descriptor,
                                     void *y);

/*
 `dx = alpha·f'(x)·dy + beta·dx`. `dx` may be `dy` itself.
 */
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle,
                                      cudnnActivationDescriptor_t activation,
                                      const void *alpha,
                                      cudnnTensorDescriptor_t y_descriptor,
                                      const void *y,
                                      cudnnTensorDescriptor_t dy_descriptor,
                                      const void *dy,
                                      cudnnTensorDescriptor_t x_descriptor,
                                      const void *x,
                                      const void *beta,
                                      cudnnTensorDescriptor_t dx_descriptor,
                                      void *dx);

/*
 Bytes of the reserve of a tensor's dropout: a bit for each element, in whole words of 4 bytes.
 */
cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t x_descriptor, size_t *size);

/*
 Drops elements of `x`, scales the others so that the mean stays, and notes in the reserve which were dropped. Draws
 from the descriptor's states. `x` may be `y` if their descriptors lay them out alike.
 */
cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle,
                                  cudnnDropoutDescriptor_t dropout,
                                  cudnnTensorDescriptor_t x_descriptor,
                                  const void *x,
                                  cudnnTensorDescriptor_t y_descriptor,
                                  void *y,
                                  void *reserve,
                                  size_t reserve_size);

/*
 Drops the elements of `dy` that `cudnnDropoutForward` noted in the reserve, and scales the others alike.
 */
cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle,
                                   cudnnDropoutDescriptor_t dropout,
                                   cudnnTensorDescriptor_t dy_descriptor,
                                   const void *dy,
                                   cudnnTensorDescriptor_t dx_descriptor,
                                   void *dx,
                                   void *reserve,
                                   size_t reserve_size);

/*
 Sets the descriptor of scale, bias, means and variances for `x_descriptor` of any rank: packed, [1, c, 1, 1] in
 spatial modes and [1, c, h, w] per activation; of float for half and bfloat16, otherwise of x's type.
 */
cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t descriptor,
                                            cudnnTensorDescriptor_t x_descriptor,
                                            cudnnBatchNormMode_t mode);

/*
 Bytes of workspace for training. `z_descriptor` is read for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, `activation` for
 that and CUDNN_BATCHNORM_OPS_BN_ACTIVATION. As in cuDNN, other modes than CUDNN_BATCHNORM_SPATIAL_PERSISTENT get a
 size of 0 for operations that they then refuse.
 */
cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(cudnnHandle_t handle,
                                                                       cudnnBatchNormMode_t mode,
                                                                       cudnnBatchNormOps_t ops,
                                                                       cudnnTensorDescriptor_t x_descriptor,
                                                                       cudnnTensorDescriptor_t z_descriptor,
                                                                       cudnnTensorDescriptor_t y_descriptor,
                                                                       cudnnTensorDescriptor_t parameters,
                                                                       cudnnActivationDescriptor_t activation,
                                                                       size_t *size);

/*
 Bytes of workspace for the gradient. `y_descriptor` is not read. `dz_descriptor` and `activation` are read as
 `z_descriptor` and `activation` are by `cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize`.
 */
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(cudnnHandle_t handle,
                                                                cudnnBatchNormMode_t mode,
                                                                cudnnBatchNormOps_t ops,
                                                                cudnnTensorDescriptor_t x_descriptor,
                                                                cudnnTensorDescriptor_t y_descriptor,
                                                                cudnnTensorDescriptor_t dy_descriptor,
                                                                cudnnTensorDescriptor_t dz_descriptor,
                                                                cudnnTensorDescriptor_t dx_descriptor,
                                                                cudnnTensorDescriptor_t parameters,
                                                                cudnnActivationDescriptor_t activation,
                                                                size_t *size);

/*
 Bytes that keep the ReLU's choices, one bit for each element of x, from the forward to the backward function: 0
 except for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION in CUDNN_BATCHNORM_SPATIAL_PERSISTENT mode, which takes packed NHWC
 alone.
 */
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t handle,
                                                                   cudnnBatchNormMode_t mode,
                                                                   cudnnBatchNormOps_t ops,
                                                                   cudnnActivationDescriptor_t activation,
                                                                   cudnnTensorDescriptor_t x_descriptor,
                                                                   size_t *size);

/*
 Bytes of the weight space; 0 for a descriptor that is not set, as in cuDNN.
 */
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle,
                                         cudnnRNNDescriptor_t descriptor,
                                         size_t *weight_space_size);

/*
 Finds the matrix and the bias of `id` in a pseudo layer: W of each gate, R of each gate, the projection. A
 missing one has a null address and a descriptor without dimensions. As in cuDNN, `weight_space_size` need only reach
 to the end of the requested weights; if not, the address is still written.
 */
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle,
                                      cudnnRNNDescriptor_t descriptor,
                                      int32_t pseudo_layer,
                                      size_t weight_space_size,
                                      const void *weight_space,
                                      int32_t id,
                                      cudnnTensorDescriptor_t matrix_descriptor,
                                      void **matrix,
                                      cudnnTensorDescriptor_t bias_descriptor,
                                      void **bias);

/*
 The number of devices: `HOSTDNN_DEVICES`, or 1.
 */
cudnnStatus_t hostdnnGetDeviceCount(int *count);

/*
 Makes a device the calling thread's current one: a handle belongs to the device that was current when it was made,
 and computes on no other. Each thread begins with device 0.
 */
cudnnStatus_t hostdnnSetDevice(int device);

/*
 The calling thread's device.
 */
cudnnStatus_t hostdnnGetDevice(int *device);

/*
 A device's name, at most `size` bytes of it with the final 0, and its number of computing threads. Devices with
 equal properties take equal times.
 */
cudnnStatus_t hostdnnGetDeviceProperties(int device,
                                         char *name,
                                         size_t size,
                                         int *threads);

/*
 The milliseconds that devices have taken for all work so far, from an unknown start: the time that has gone by, or
 the calling thread's work as `HOSTDNN_CLOCK` counts it (hostdnn/src/clock.rs).
 */
cudnnStatus_t hostdnnGetTime(double *milliseconds);

/*
 Compiles a source with this machine's C++ compiler (`HOSTDNN_CXX`, or `c++`), or finds an earlier object (in
 `HOSTDNN_KERNEL_CACHE`, or among the temporary files). On failure, `log` gets the reason with the compiler's output,
 if it is not null: at most `log_bytes` with the final 0. CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING if
 there is no compiler, CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED if it rejects the source.
 */
cudnnStatus_t hostdnnLoadKernels(const struct hostdnnKernelSource_t *source,
                                 void **module,
                                 char *log,
                                 size_t log_bytes);

/*
 CUDNN_STATUS_SUCCESS if this source was compiled before, so that loading it compiles nothing; otherwise
 CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING.
 */
cudnnStatus_t hostdnnFindKernels(const struct hostdnnKernelSource_t *source);

/*
 The kernel of a module with this name; valid until the module is unloaded.
 */
cudnnStatus_t hostdnnGetKernel(void *module, const char *name, void **kernel);

/*
 Runs a kernel to its end, in the calling thread. `grid` and `block` are three numbers each: blocks, and threads of a
 block. `cluster` is null, or three numbers: blocks of a cluster, 16 at most. A block has `shared_bytes` of dynamic
 shared memory. `arguments[0]` points to the kernel's parameters. `HOSTDNN_SCHEDULE_SEED` determines the order of
 threads. CUDNN_STATUS_EXECUTION_FAILED on a deadlock, or if the kernel itself fails: `cudnnGetLastErrorString` says
 which threads wait where.
 */
cudnnStatus_t hostdnnLaunchKernel(void *kernel,
                                  const unsigned int *grid,
                                  const unsigned int *block,
                                  const unsigned int *cluster,
                                  size_t shared_bytes,
                                  void **arguments);

/*
 Unloads a module. The caller no longer runs or launches its kernels.
 */
cudnnStatus_t hostdnnUnloadKernels(void *module);

/*
 hostdnn's own version, as text that lives as long as the library. The real cuDNN does not have this function.
 */
const char *hostdnnGetVersion(void);

/*
 Replaces the armed faults (grammar: hostdnn/src/fault.rs) and restarts counting. Null or "" disarms.
 CUDNN_STATUS_BAD_PARAM, and no change, if the text is not understood.
 */
cudnnStatus_t hostdnnFail(const char *faults);

size_t cudnnGetVersion(void);

/*
 0: no CUDA runtime is linked.
 */
size_t cudnnGetCudartVersion(void);

/*
 0: no GPU architecture is supported.
 */
size_t cudnnGetMaxDeviceVersion(void);

/*
 The enumerator's name; text that lives as long as the library.
 */
const char *cudnnGetErrorString(cudnnStatus_t status);

/*
 The function that last failed on this thread and the failed check, at most `max_size` bytes with the final 0. Empty
 if nothing has failed since the last call.
 */
void cudnnGetLastErrorString(char *message,
                             size_t max_size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CUDNN_H_ */
