/* ucudnn: cuDNN's convolutions in micro-batches. Made by cbindgen from src/ucudnn: do not edit.
 *
 * A program needs none of this: it links with -lucudnn instead of -lcudnn, or runs with
 * LD_PRELOAD=libucudnn.so, and UCUDNN_... variables say what they may. These functions steer single
 * handles, tell what was planned, bring back the queries that cuDNN 8 took away, and run recurrent
 * networks without cuDNN.
 *
 * Sizes are in bytes. Handles, descriptors and places for results stay the caller's; nothing here
 * keeps a pointer. Functions that return a status return CUDNN_STATUS_SUCCESS, what their comments
 * say, or CUDNN_STATUS_BAD_PARAM_NULL_POINTER for a null pointer. They may be called from any thread.
 */

#ifndef UCUDNN_H_
#define UCUDNN_H_

#include <stddef.h>
#include <stdint.h>
/* cuDNN's types come from cudnn.h. Where there is none, or UCUDNN_WITHOUT_CUDNN_H is defined, those that this header
 * uses follow here: recurrent networks need nothing else of cuDNN. */
#if !defined(UCUDNN_WITHOUT_CUDNN_H) && !defined(CUDNN_H_) && defined(__has_include)
#if !__has_include(<cudnn.h>)
#define UCUDNN_WITHOUT_CUDNN_H
#endif
#endif
#ifndef UCUDNN_WITHOUT_CUDNN_H
#include <cudnn.h>
#else
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t;
typedef int cudnnStatus_t, cudnnDataType_t, cudnnRNNDataLayout_t;
enum {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
    CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
    CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 2005,
    CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
    CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 2007,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING = 3008,
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    CUDNN_STATUS_EXECUTION_FAILED = 5000
};
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum { CUDNN_RNN_RELU = 0, CUDNN_RNN_TANH = 1, CUDNN_LSTM = 2, CUDNN_GRU = 3 };
enum {
    CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0,
    CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED = 1,
    CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED = 2
};
#endif

/* No limit was set. */
#define UCUDNN_NO_LIMIT ((size_t)-1)
/* No layer is named. */
#define UCUDNN_NO_LAYER_ID UINT64_MAX


/*
 A network with the kernels that run it on one device.
 */
typedef struct ucudnnRnnStruct ucudnnRnnStruct;

/*
 How workspace limits apply to a handle's convolutions.
 */
typedef int ucudnnPolicy_t;

/*
 The micro-batch sizes to try.
 */
typedef int ucudnnBatchSizePolicy_t;

/*
 The preference of the pre-v8 query for a Forward algorithm.
 */
typedef int cudnnConvolutionFwdPreference_t;

/*
 The preference of the pre-v8 query for a BackwardData algorithm.
 */
typedef int cudnnConvolutionBwdDataPreference_t;

/*
 The preference of the pre-v8 query for a BackwardFilter algorithm.
 */
typedef int cudnnConvolutionBwdFilterPreference_t;

/*
 A network from ucudnnCreateRnn, valid until ucudnnDestroyRnn.
 */
typedef struct ucudnnRnnStruct *ucudnnRnn_t;

/*
 The cell of a recurrent network. W and R are its matrices, b_W and b_R its biases. s is the logistic function;
 the operator * multiplies element by element.
 */
typedef int ucudnnRnnCell_t;

/*
 The description of a network. Unused fields are 0.
 */
typedef struct ucudnnRnnDescription_t {
  /*
   A ucudnnRnnCell_t.
   */
  ucudnnRnnCell_t cell;
  /*
   The type of data, states and weights: CUDNN_DATA_FLOAT, CUDNN_DATA_HALF or CUDNN_DATA_BFLOAT16. Sums are float.
   */
  cudnnDataType_t dataType;
  /*
   Not 0: products of floats may be rounded to TF32 first.
   */
  int allowTf32;
  /*
   Not 0: the network has biases.
   */
  int hasBiases;
  /*
   Elements of an input vector.
   */
  int inputSize;
  /*
   Elements of a hidden state, H.
   */
  int hiddenSize;
  /*
   The number of layers. Each layer after the first takes the output of the layer before it.
   */
  int layers;
  /*
   1, or 2 for forwards and backwards. With 2, the next layer takes both outputs, concatenated.
   */
  int directions;
  /*
   The largest batch of a run. Kernels are chosen for it.
   */
  int maxBatch;
  /*
   The most time steps of a run.
   */
  int maxSteps;
  /*
   A text from ucudnnGetRnnConfiguration, or null. With null, the UCUDNN_RNN_TOP_K configurations that a
   performance model ranks best are timed on the device, and the fastest is used.
   */
  const char *configuration;
} ucudnnRnnDescription_t;

/*
 The arguments of a run: memory of the network's device, except lengths. Results must not overlap anything.
 */
typedef struct ucudnnRnnArguments_t {
  /*
   Packed without gaps. First, for each layer and each of its directions: W [gates][H][elements of the layer's
   input] and R [gates][H][H]. Then, if there are biases, for each layer and each of its directions: b_W [gates][H]
   and b_R [gates][H]. Gates are in the order of ucudnnRnnCell_t.
   */
  const void *weights;
  /*
   The input: [steps][batch][inputSize], or as the layout says.
   */
  const void *x;
  /*
   The output: [steps][batch][directions * H], or as the layout says. The output after a sequence's end is 0.
   */
  void *y;
  /*
   First states: [layers * directions][batch][H], or null for zeros.
   */
  const void *hx;
  /*
   First c: [layers * directions][batch][H], or null for zeros; only for UCUDNN_RNN_LSTM.
   */
  const void *cx;
  /*
   Last states: [layers * directions][batch][H], or null if not wanted.
   */
  void *hy;
  /*
   Last c: [layers * directions][batch][H], or null if not wanted; only for UCUDNN_RNN_LSTM.
   */
  void *cy;
  /*
   The layout of x and y. 0 is CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED.
   */
  cudnnRNNDataLayout_t layout;
  /*
   The number of sequences.
   */
  int batch;
  /*
   Time steps of the longest sequence; may be more if sequences are not packed.
   */
  int steps;
  /*
   Steps of each sequence: [batch] numbers from 0 to steps in host memory, which the program may change once the
   call returns. Null: every sequence has all steps. Packed sequences are sorted, longest first; the first has all
   steps, and none is empty.
   */
  const int *lengths;
  /*
   Memory of at least ucudnnGetRnnWorkspaceSize bytes. Its contents mean nothing before and after a run.
   */
  void *workspace;
  /*
   The size of the workspace in bytes.
   */
  size_t workspaceSizeInBytes;
} ucudnnRnnArguments_t;

/*
 Workspace Reuse: each convolution is planned on its own. The default.
 */
#define UCUDNN_POLICY_WR 0

/*
 Workspace Division: the convolutions of a network share one budget.
 */
#define UCUDNN_POLICY_WD 1

/*
 Every call goes through to cuDNN unchanged.
 */
#define UCUDNN_POLICY_OFF 2

/*
 1, 2, 4, ... and the mini-batch itself. The default.
 */
#define UCUDNN_BATCH_SIZE_POWER_OF_TWO 0

/*
 Every size up to the mini-batch.
 */
#define UCUDNN_BATCH_SIZE_ALL 1

/*
 Only the mini-batch itself: algorithms are chosen, but nothing is divided.
 */
#define UCUDNN_BATCH_SIZE_UNDIVIDED 2

/*
 An algorithm that needs no workspace.
 */
#define CUDNN_CONVOLUTION_FWD_NO_WORKSPACE 0

/*
 The fastest algorithm, with any workspace.
 */
#define CUDNN_CONVOLUTION_FWD_PREFER_FASTEST 1

/*
 The fastest algorithm within the given limit.
 */
#define CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT 2

/*
 An algorithm that needs no workspace.
 */
#define CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE 0

/*
 The fastest algorithm, with any workspace.
 */
#define CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST 1

/*
 The fastest algorithm within the given limit.
 */
#define CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT 2

/*
 An algorithm that needs no workspace.
 */
#define CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE 0

/*
 The fastest algorithm, with any workspace.
 */
#define CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST 1

/*
 The fastest algorithm within the given limit.
 */
#define CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT 2

/*
 h' = max(W x + b_W + R h + b_R, 0).
 */
#define UCUDNN_RNN_RELU CUDNN_RNN_RELU

/*
 h' = tanh(W x + b_W + R h + b_R).
 */
#define UCUDNN_RNN_TANH CUDNN_RNN_TANH

/*
 Gates i, f, g, o, each W x + b_W + R h + b_R: c' = s(f) * c + s(i) * tanh(g), h' = s(o) * tanh(c').
 */
#define UCUDNN_RNN_LSTM CUDNN_LSTM

/*
 The GRU of cuDNN and PyTorch: gates r, z, n, with n = tanh(W x + b_W + s(r) * (R h + b_R)) and
 h' = (1 - s(z)) * n + s(z) * h.
 */
#define UCUDNN_RNN_GRU CUDNN_GRU

/*
 The canonical GRU, which cuDNN lacks: like UCUDNN_RNN_GRU, with n = tanh(W x + b_W + R (s(r) * h) + b_R).
 */
#define UCUDNN_RNN_CANONICAL_GRU 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of this library: major * 10000 + minor * 100 + patch.
 */
size_t ucudnnGetVersion(void);

/*
 Describes, as lines of text, how Workspace Division has divided the total of the calling thread's device: a summary,
 then for each layer its convolution problem, its division, its bytes of the arena and its predicted time in
 milliseconds.

 Writes at most textSizeInBytes bytes to text, the last of them 0; text may be null if textSizeInBytes is 0. Writes
 the size of the whole text, in bytes, to neededSizeInBytes. CUDNN_STATUS_NOT_SUPPORTED: nothing has been divided
 yet.
 */
cudnnStatus_t ucudnnGetDivisionDescription(cudnnHandle_t handle,
                                           char *text,
                                           size_t textSizeInBytes,
                                           size_t *neededSizeInBytes);

/*
 Describes, as lines of text, the plan behind an algorithm that a query returned: the division, its workspace in
 bytes and its predicted time in milliseconds.

 Writes at most textSizeInBytes bytes to text, the last of them 0; text may be null if textSizeInBytes is 0. Writes
 the size of the whole text, in bytes, to neededSizeInBytes. CUDNN_STATUS_NOT_SUPPORTED: the algorithm has no plan;
 cuDNN runs it unchanged.
 */
cudnnStatus_t ucudnnGetConvolutionForwardPlanDescription(cudnnHandle_t handle,
                                                         cudnnTensorDescriptor_t xDesc,
                                                         cudnnFilterDescriptor_t wDesc,
                                                         cudnnConvolutionDescriptor_t convDesc,
                                                         cudnnTensorDescriptor_t yDesc,
                                                         cudnnConvolutionFwdAlgo_t algo,
                                                         char *text,
                                                         size_t textSizeInBytes,
                                                         size_t *neededSizeInBytes);

/*
 Like ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardData.
 */
cudnnStatus_t ucudnnGetConvolutionBackwardDataPlanDescription(cudnnHandle_t handle,
                                                              cudnnFilterDescriptor_t wDesc,
                                                              cudnnTensorDescriptor_t dyDesc,
                                                              cudnnConvolutionDescriptor_t convDesc,
                                                              cudnnTensorDescriptor_t dxDesc,
                                                              cudnnConvolutionBwdDataAlgo_t algo,
                                                              char *text,
                                                              size_t textSizeInBytes,
                                                              size_t *neededSizeInBytes);

/*
 Like ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardFilter.
 */
cudnnStatus_t ucudnnGetConvolutionBackwardFilterPlanDescription(cudnnHandle_t handle,
                                                                cudnnTensorDescriptor_t xDesc,
                                                                cudnnTensorDescriptor_t dyDesc,
                                                                cudnnConvolutionDescriptor_t convDesc,
                                                                cudnnFilterDescriptor_t dwDesc,
                                                                cudnnConvolutionBwdFilterAlgo_t algo,
                                                                char *text,
                                                                size_t textSizeInBytes,
                                                                size_t *neededSizeInBytes);

/*
 Sets the total workspace, in bytes, of all convolutions on the calling thread's device, and sets the handle's policy
 to UCUDNN_POLICY_WD. If a total was already in force, the new total is divided once the next iteration has begun.

 CUDNN_STATUS_BAD_PARAM: UCUDNN_NO_LIMIT is not a total. CUDNN_STATUS_NOT_SUPPORTED: Workspace Division's solver
 cannot be loaded; the log gives the reason. An error changes nothing.
 */
cudnnStatus_t ucudnnSetTotalWorkspace(cudnnHandle_t handle,
                                      size_t bytes);

/*
 Gets the total in force on the calling thread's device, in bytes: the total that was set, or the one in
 UCUDNN_TOTAL_WORKSPACE_SIZE, or UCUDNN_NO_LIMIT if there is none.
 */
cudnnStatus_t ucudnnGetTotalWorkspace(cudnnHandle_t handle, size_t *bytes);

/*
 Ends collecting: the program has queried the algorithms of all its layers. The call makes the measurements that
 these layers lack and divides the total, so that the first convolution does not have to wait.

 CUDNN_STATUS_NOT_SUPPORTED: the handle's policy is not UCUDNN_POLICY_WD. The call does nothing if no layer was
 collected or if convolutions have already run.
 */
cudnnStatus_t ucudnnFinishCollection(cudnnHandle_t handle);

/*
 Names the layer that the handle's next queries and convolutions belong to, until the next call; UCUDNN_NO_LAYER_ID
 ends the naming. Unnamed layers are distinguished by the addresses of their filters and descriptors: a program that
 moves filters, or uses one filter in several layers at once, should name them. A layer's forward and backward
 convolutions may share a name.
 */
cudnnStatus_t ucudnnSetLayerId(cudnnHandle_t handle,
                               uint64_t layerId);

/*
 Declares that one stream runs all convolutions of the calling thread's device in sequence (not 0), or that several
 streams may run them (0, the default). On one stream all layers share one segment, so the total limits the largest
 layer, not the sum of all layers. A convolution on any other stream then gets no workspace.
 */
cudnnStatus_t ucudnnSetOneStream(cudnnHandle_t handle,
                                 int oneStream);

/*
 Sets how workspace limits apply to a handle's convolutions. Results reported to the program before remain valid.

 CUDNN_STATUS_BAD_PARAM: the policy is not a ucudnnPolicy_t, or it is UCUDNN_POLICY_WD and no total is set, or the
 handle is null. CUDNN_STATUS_NOT_SUPPORTED: Workspace Division's solver cannot be loaded; the log gives the reason.
 An error changes nothing.
 */
cudnnStatus_t ucudnnSetPolicy(cudnnHandle_t handle,
                              ucudnnPolicy_t policy);

/*
 Gets the policy in force for a handle: its own, or the one in UCUDNN_POLICY.
 */
cudnnStatus_t ucudnnGetPolicy(cudnnHandle_t handle, ucudnnPolicy_t *policy);

/*
 Sets the micro-batch sizes to try for a handle's convolutions.

 CUDNN_STATUS_BAD_PARAM: the policy is not a ucudnnBatchSizePolicy_t, or the handle is null. An error changes
 nothing.
 */
cudnnStatus_t ucudnnSetBatchSizePolicy(cudnnHandle_t handle, ucudnnBatchSizePolicy_t policy);

/*
 Gets the batch-size policy in force for a handle: its own, or the one in UCUDNN_BATCH_SIZE_POLICY.
 */
cudnnStatus_t ucudnnGetBatchSizePolicy(cudnnHandle_t handle, ucudnnBatchSizePolicy_t *policy);

/*
 Sets the largest workspace, in bytes, that a convolution of the handle may use. The program's own limit applies too:
 the smaller one holds. UCUDNN_NO_LIMIT removes this limit.
 */
cudnnStatus_t ucudnnSetWorkspaceLimit(cudnnHandle_t handle,
                                      size_t bytes);

/*
 Gets the workspace limit in force for a handle, in bytes: its own, or the one in UCUDNN_WORKSPACE_LIMIT, or
 UCUDNN_NO_LIMIT if there is none.
 */
cudnnStatus_t ucudnnGetWorkspaceLimit(cudnnHandle_t handle, size_t *bytes);

/*
 Sets the largest workspace, in bytes, of a convolution for which the program gives no limit. UCUDNN_NO_LIMIT removes
 this default: the limit is then the workspace of cuDNN's own choice.
 */
cudnnStatus_t ucudnnSetDefaultWorkspaceLimit(cudnnHandle_t handle,
                                             size_t bytes);

/*
 Gets the default limit in force for a handle, in bytes: its own, or the one in UCUDNN_DEFAULT_WORKSPACE_LIMIT, or
 UCUDNN_NO_LIMIT if there is none.
 */
cudnnStatus_t ucudnnGetDefaultWorkspaceLimit(cudnnHandle_t handle,
                                             size_t *bytes);

/*
 Gets the algorithm to use for cudnnConvolutionForward, as cuDNN did before version 8; within memoryLimitInBytes if
 the preference says so. cudnnGetConvolutionForwardWorkspaceSize then gives its workspace.

 CUDNN_STATUS_BAD_PARAM: the preference is unknown, or a pointer is null. CUDNN_STATUS_NOT_SUPPORTED: no algorithm
 runs within the limit.
 */
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm(cudnnHandle_t handle,
                                                  cudnnTensorDescriptor_t xDesc,
                                                  cudnnFilterDescriptor_t wDesc,
                                                  cudnnConvolutionDescriptor_t convDesc,
                                                  cudnnTensorDescriptor_t yDesc,
                                                  cudnnConvolutionFwdPreference_t preference,
                                                  size_t memoryLimitInBytes,
                                                  cudnnConvolutionFwdAlgo_t *algo);

/*
 Like cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardData.
 */
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm(cudnnHandle_t handle,
                                                       cudnnFilterDescriptor_t wDesc,
                                                       cudnnTensorDescriptor_t dyDesc,
                                                       cudnnConvolutionDescriptor_t convDesc,
                                                       cudnnTensorDescriptor_t dxDesc,
                                                       cudnnConvolutionBwdDataPreference_t preference,
                                                       size_t memoryLimitInBytes,
                                                       cudnnConvolutionBwdDataAlgo_t *algo);

/*
 Like cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardFilter.
 */
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm(cudnnHandle_t handle,
                                                         cudnnTensorDescriptor_t xDesc,
                                                         cudnnTensorDescriptor_t dyDesc,
                                                         cudnnConvolutionDescriptor_t convDesc,
                                                         cudnnFilterDescriptor_t dwDesc,
                                                         cudnnConvolutionBwdFilterPreference_t preference,
                                                         size_t memoryLimitInBytes,
                                                         cudnnConvolutionBwdFilterAlgo_t *algo);

/*
 Makes a network for the calling thread's current device: compiles kernels, which may take some seconds, and times
 them in memory that it frees again. The calling thread must not be capturing a stream.

 Needs CUDA's driver and NVRTC, but not cuDNN; uses cublasLt if it finds it.

 CUDNN_STATUS_BAD_PARAM: a field has a value that is not accepted. CUDNN_STATUS_NOT_SUPPORTED: no kernel runs the
 network here. CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. An error makes no
 network, and ucudnnGetRnnErrorString gives the details.
 */
cudnnStatus_t ucudnnCreateRnn(ucudnnRnn_t *rnn,
                              const struct ucudnnRnnDescription_t *description);

/*
 Destroys a network. None of its runs may be under way any more, on the host or on the device.

 CUDNN_STATUS_BAD_PARAM: rnn is not a network, or was destroyed before.
 */
cudnnStatus_t ucudnnDestroyRnn(ucudnnRnn_t rnn);

/*
 Gets the size of a network's weights, in bytes.
 */
cudnnStatus_t ucudnnGetRnnWeightSize(ucudnnRnn_t rnn, size_t *bytes);

/*
 Gets the size of the workspace that each run takes, in bytes.
 */
cudnnStatus_t ucudnnGetRnnWorkspaceSize(ucudnnRnn_t rnn, size_t *bytes);

/*
 Gets the configuration of the network's kernels as text, such as "grid u8 b4 t256 l32 r128".

 Writes at most textSizeInBytes bytes to text, the last of them 0; text may be null if textSizeInBytes is 0. Writes
 the size of the whole text, in bytes, to neededSizeInBytes.
 */
cudnnStatus_t ucudnnGetRnnConfiguration(ucudnnRnn_t rnn,
                                        char *text,
                                        size_t textSizeInBytes,
                                        size_t *neededSizeInBytes);

/*
 Runs a network in the stream's order. The calling thread's current device must be the network's, and the stream one
 of that device. The call neither waits for the device nor allocates memory on it. A run may be captured into a CUDA
 graph, which keeps its own copy of lengths; the network may be destroyed before the graph. Several runs of one
 network may be under way at once, each with its own workspace and results.

 CUDNN_STATUS_BAD_PARAM: the network, a size, a length or the layout is not accepted, or a result overlaps other
 data. CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND: the batch or the steps exceed the network's maximum.
 CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: data are not aligned to their type.
 CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the workspace is too small. CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH: the
 current device is not the network's. After any of these errors nothing has been written.
 CUDNN_STATUS_EXECUTION_FAILED: a launch failed, and the results are undefined.
 */
cudnnStatus_t ucudnnRunRnn(ucudnnRnn_t rnn,
                           const struct ucudnnRnnArguments_t *arguments,
                           void *stream);

/*
 Gets the reason of the calling thread's last failure in a function for recurrent networks: the error, and the
 accepted values. Writes at most textSizeInBytes bytes to text, the last of them 0.
 */
void ucudnnGetRnnErrorString(char *text, size_t textSizeInBytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UCUDNN_H_ */
