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

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>
/* No limit was set. */
#define UCUDNN_NO_LIMIT ((size_t)-1)
/* No layer is named. */
#define UCUDNN_NO_LAYER_ID UINT64_MAX


/*
 A network with the kernels that run it, on one device.
 */
typedef struct ucudnnRnnStruct ucudnnRnnStruct;

/*
 How workspace limits apply to a handle's convolutions.
 */
typedef int ucudnnPolicy_t;

/*
 Which micro-batch sizes are tried.
 */
typedef int ucudnnBatchSizePolicy_t;

/*
 What the pre-v8 query of a Forward algorithm prefers.
 */
typedef int cudnnConvolutionFwdPreference_t;

/*
 What the pre-v8 query of a BackwardData algorithm prefers.
 */
typedef int cudnnConvolutionBwdDataPreference_t;

/*
 What the pre-v8 query of a BackwardFilter algorithm prefers.
 */
typedef int cudnnConvolutionBwdFilterPreference_t;

/*
 Made by ucudnnCreateRnn, and valid until ucudnnDestroyRnn.
 */
typedef struct ucudnnRnnStruct *ucudnnRnn_t;

/*
 The cell of a recurrent network. W and R are its matrices, b_W and b_R its biases; s is the logistic
 function, and * multiplies element by element.
 */
typedef int ucudnnRnnCell_t;

/*
 What a network is made from. Fields that are not used are 0.
 */
typedef struct ucudnnRnnDescription_t {
  /*
   One of ucudnnRnnCell_t.
   */
  ucudnnRnnCell_t cell;
  /*
   Of data, states and weights: CUDNN_DATA_FLOAT, CUDNN_DATA_HALF or CUDNN_DATA_BFLOAT16. Sums are float.
   */
  cudnnDataType_t dataType;
  /*
   Not 0: floats may be rounded to TF32 where they are multiplied.
   */
  int allowTf32;
  /*
   Not 0: there are biases.
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
   Each but the first takes the output of the one before it.
   */
  int layers;
  /*
   1, or 2: forwards and backwards, and the next layer takes both outputs, one behind the other.
   */
  int directions;
  /*
   The largest batch that a run may bring. Kernels are chosen for it.
   */
  int maxBatch;
  /*
   The most time steps that a run may bring.
   */
  int maxSteps;
  /*
   Null: the fastest of those that a performance model ranks best (UCUDNN_RNN_TOP_K of them), by their
   times on the device. Else what ucudnnGetRnnConfiguration wrote.
   */
  const char *configuration;
} ucudnnRnnDescription_t;

/*
 What a run is handed: memory of the network's device, but for `lengths`. Results overlap nothing.
 */
typedef struct ucudnnRnnArguments_t {
  /*
   With nothing between them: of each layer, and in it of each direction, W [gates][H][elements of the
   layer's input] and R [gates][H][H]; and behind all of these, where there are biases, of each layer and
   direction b_W [gates][H] and b_R [gates][H]. Gates are in the order in which ucudnnRnnCell_t names them.
   */
  const void *weights;
  /*
   [steps][batch][inputSize], or as the layout says.
   */
  const void *x;
  /*
   [steps][batch][directions * H], likewise. What is behind a sequence's end is 0.
   */
  void *y;
  /*
   First states: [layers * directions][batch][H], or null for zeros.
   */
  const void *hx;
  /*
   First c, likewise; of UCUDNN_RNN_LSTM alone.
   */
  const void *cx;
  /*
   Last states, likewise; null where they are not wanted.
   */
  void *hy;
  /*
   Last c, likewise; of UCUDNN_RNN_LSTM alone.
   */
  void *cy;
  /*
   How x and y lie. 0 is CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED.
   */
  cudnnRNNDataLayout_t layout;
  /*
   Sequences.
   */
  int batch;
  /*
   Time steps of the longest sequence, or more where sequences are not packed.
   */
  int steps;
  /*
   Steps of each sequence: [batch] numbers from 0 to steps in the program's own memory, which may change
   once the call has returned. Null: all have as many as there are. Packed sequences are sorted, the
   longest first, which has all steps, and none is empty.
   */
  const int *lengths;
  /*
   What ucudnnGetRnnWorkspaceSize says, or more. What it holds means nothing before and after a run.
   */
  void *workspace;
  /*
   The bytes of workspace that there are.
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
 The mini-batch alone: algorithms are chosen, nothing is divided.
 */
#define UCUDNN_BATCH_SIZE_UNDIVIDED 2

/*
 An algorithm that needs no workspace.
 */
#define CUDNN_CONVOLUTION_FWD_NO_WORKSPACE 0

/*
 The fastest algorithm, whatever workspace it needs.
 */
#define CUDNN_CONVOLUTION_FWD_PREFER_FASTEST 1

/*
 The fastest algorithm within the limit given.
 */
#define CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT 2

/*
 An algorithm that needs no workspace.
 */
#define CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE 0

/*
 The fastest algorithm, whatever workspace it needs.
 */
#define CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST 1

/*
 The fastest algorithm within the limit given.
 */
#define CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT 2

/*
 An algorithm that needs no workspace.
 */
#define CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE 0

/*
 The fastest algorithm, whatever workspace it needs.
 */
#define CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST 1

/*
 The fastest algorithm within the limit given.
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
 Gates i, f, g, o, each of W x + b_W + R h + b_R: c' = s(f) * c + s(i) * tanh(g), h' = s(o) * tanh(c').
 */
#define UCUDNN_RNN_LSTM CUDNN_LSTM

/*
 cuDNN's and PyTorch's: gates r, z, n, with n = tanh(W x + b_W + s(r) * (R h + b_R)) and
 h' = (1 - s(z)) * n + s(z) * h.
 */
#define UCUDNN_RNN_GRU CUDNN_GRU

/*
 The canonical one, which cuDNN does not have: as UCUDNN_RNN_GRU, with n = tanh(W x + b_W + R (s(r) * h) + b_R).
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
 Describes, as lines of text, how Workspace Division has divided the total of the calling thread's
 device: a summary, then for each layer its kernel, its division, its bytes of the arena and its
 predicted time in milliseconds.

 Writes at most textSizeInBytes bytes into the caller's text, the last of them 0 (text may be null
 if that is 0), and the bytes that the whole text takes into neededSizeInBytes.
 CUDNN_STATUS_NOT_SUPPORTED: nothing has been divided yet.
 */
cudnnStatus_t ucudnnGetDivisionDescription(cudnnHandle_t handle,
                                           char *text,
                                           size_t textSizeInBytes,
                                           size_t *neededSizeInBytes);

/*
 Describes, as lines of text, the plan that stands behind an algorithm which a query returned:
 the division, its workspace in bytes and its predicted time in milliseconds.

 Writes at most textSizeInBytes bytes into the caller's text, the last of them 0 (text may be null
 if that is 0), and the bytes that the whole text takes into neededSizeInBytes.
 CUDNN_STATUS_NOT_SUPPORTED: no plan stands behind the algorithm; cuDNN runs it as asked.
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
 As ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardData.
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
 As ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardFilter.
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
 Sets the most workspace, in bytes, of all convolutions on the calling thread's device together, and
 gives the handle the policy UCUDNN_POLICY_WD. Where a total is in force already it is divided anew
 when the next iteration has begun.

 CUDNN_STATUS_BAD_PARAM: UCUDNN_NO_LIMIT is no total. CUDNN_STATUS_NOT_SUPPORTED: Workspace Division's
 solver cannot be loaded; the log says why. Nothing is changed then.
 */
cudnnStatus_t ucudnnSetTotalWorkspace(cudnnHandle_t handle, size_t bytes);

/*
 The total in force on the calling thread's device, in bytes: what was set, or
 UCUDNN_TOTAL_WORKSPACE_SIZE; UCUDNN_NO_LIMIT if there is none.
 */
cudnnStatus_t ucudnnGetTotalWorkspace(cudnnHandle_t handle, size_t *bytes);

/*
 Ends collecting: the program has asked for the algorithms of all its layers. What they may take is
 measured, where it is not known yet, and the total is divided now, and not while the first
 convolution waits.

 CUDNN_STATUS_NOT_SUPPORTED: the handle's policy is not UCUDNN_POLICY_WD. Where nothing was collected,
 or convolutions have run already, nothing happens.
 */
cudnnStatus_t ucudnnFinishCollection(cudnnHandle_t handle);

/*
 Names the layer that the handle's next queries and convolutions belong to, until another is named;
 UCUDNN_NO_LAYER_ID names none. Layers that are not named are told apart by their filters' and
 descriptors' addresses: a program that moves filters, or has several layers use one filter at once,
 names them. A layer's forward and backward convolutions may share a name.
 */
cudnnStatus_t ucudnnSetLayerId(cudnnHandle_t handle, uint64_t layerId);

/*
 Declares whether one stream runs all convolutions of the calling thread's device, one after another
 (not 0), or several may (0, the default). On one stream all layers share one segment, and the total
 is the most that any of them takes, not the sum of all. Convolutions that run on another stream
 nevertheless get no workspace.
 */
cudnnStatus_t ucudnnSetOneStream(cudnnHandle_t handle, int oneStream);

/*
 Sets how workspace limits apply to a handle's convolutions. What was reported to the program
 before stays true.

 CUDNN_STATUS_BAD_PARAM: the policy is none of ucudnnPolicy_t, or it is UCUDNN_POLICY_WD and no total
 is set, or the handle is null. CUDNN_STATUS_NOT_SUPPORTED: Workspace Division's solver cannot be
 loaded; the log says why. Nothing is changed then.
 */
cudnnStatus_t ucudnnSetPolicy(cudnnHandle_t handle, ucudnnPolicy_t policy);

/*
 The policy in force for a handle: its own, or that of UCUDNN_POLICY.
 */
cudnnStatus_t ucudnnGetPolicy(cudnnHandle_t handle, ucudnnPolicy_t *policy);

/*
 Sets which micro-batch sizes are tried for a handle's convolutions.

 CUDNN_STATUS_BAD_PARAM: the policy is none of ucudnnBatchSizePolicy_t, or the handle is null;
 nothing is changed.
 */
cudnnStatus_t ucudnnSetBatchSizePolicy(cudnnHandle_t handle, ucudnnBatchSizePolicy_t policy);

/*
 The batch-size policy in force for a handle: its own, or that of UCUDNN_BATCH_SIZE_POLICY.
 */
cudnnStatus_t ucudnnGetBatchSizePolicy(cudnnHandle_t handle, ucudnnBatchSizePolicy_t *policy);

/*
 Sets the most workspace, in bytes, that any convolution of the handle may use: the least of this
 and the program's own limit holds. UCUDNN_NO_LIMIT takes it away.
 */
cudnnStatus_t ucudnnSetWorkspaceLimit(cudnnHandle_t handle, size_t bytes);

/*
 The limit in force for a handle, in bytes: its own, or that of UCUDNN_WORKSPACE_LIMIT;
 UCUDNN_NO_LIMIT if there is none.
 */
cudnnStatus_t ucudnnGetWorkspaceLimit(cudnnHandle_t handle, size_t *bytes);

/*
 Sets the most workspace, in bytes, of a convolution for which the program gives no limit.
 UCUDNN_NO_LIMIT takes it away: then it is what cuDNN's own choice would take.
 */
cudnnStatus_t ucudnnSetDefaultWorkspaceLimit(cudnnHandle_t handle, size_t bytes);

/*
 The default limit in force for a handle, in bytes: its own, or that of
 UCUDNN_DEFAULT_WORKSPACE_LIMIT; UCUDNN_NO_LIMIT if there is none.
 */
cudnnStatus_t ucudnnGetDefaultWorkspaceLimit(cudnnHandle_t handle, size_t *bytes);

/*
 As in cuDNN before version 8: the algorithm to use for cudnnConvolutionForward, within
 memoryLimitInBytes if the preference says so. Then cudnnGetConvolutionForwardWorkspaceSize gives
 the workspace.

 CUDNN_STATUS_BAD_PARAM: an unknown preference, or null. CUDNN_STATUS_NOT_SUPPORTED: no algorithm
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
 As cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardData.
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
 As cudnnGetConvolutionForwardAlgorithm, for cudnnConvolutionBackwardFilter.
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
 Makes a network for the calling thread's current device: compiles kernels for it, which may take some
 seconds, and times them in memory that is freed again. Not while the calling thread captures a stream.

 cuDNN is not needed; CUDA's driver and NVRTC are, and cublasLt is used where it is found.

 CUDNN_STATUS_BAD_PARAM: a field has a value that is not accepted. CUDNN_STATUS_NOT_SUPPORTED: no kernel
 runs it here. CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. No network is
 made then; ucudnnGetRnnErrorString tells more.
 */
cudnnStatus_t ucudnnCreateRnn(ucudnnRnn_t *rnn, const struct ucudnnRnnDescription_t *description);

/*
 Destroys a network, of which no run is under way any more, on the host or on the device.

 CUDNN_STATUS_BAD_PARAM: it is none, or was destroyed before.
 */
cudnnStatus_t ucudnnDestroyRnn(ucudnnRnn_t rnn);

/*
 The bytes of a network's weights.
 */
cudnnStatus_t ucudnnGetRnnWeightSize(ucudnnRnn_t rnn, size_t *bytes);

/*
 The bytes of workspace that each run takes.
 */
cudnnStatus_t ucudnnGetRnnWorkspaceSize(ucudnnRnn_t rnn, size_t *bytes);

/*
 Tells by a text such as "grid u8 b4 t256 l32 r128" for what the network's kernels were compiled.

 Writes at most textSizeInBytes bytes into the caller's text, the last of them 0 (text may be null
 if that is 0), and the bytes that the whole text takes into neededSizeInBytes.
 */
cudnnStatus_t ucudnnGetRnnConfiguration(ucudnnRnn_t rnn,
                                        char *text,
                                        size_t textSizeInBytes,
                                        size_t *neededSizeInBytes);

/*
 Runs a network in the stream's order. The calling thread's current device is the network's, and the stream
 one of that device. Nothing waits for the device, no memory of it is allocated, and the run may be captured
 into a CUDA graph, which keeps its own copy of `lengths`; the network may be destroyed before the graph.
 Runs of one network may be under way at once, each with its own workspace and results.

 CUDNN_STATUS_BAD_PARAM: the network, a size, a length or the layout is not accepted, or a result overlaps
 other data. CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND: the batch or the steps are more than the network was made
 for. CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: data are not aligned to their type.
 CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the workspace is too small.
 CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH: the device is another. Nothing is written then.
 CUDNN_STATUS_EXECUTION_FAILED: a launch failed; results are not to be used.
 */
cudnnStatus_t ucudnnRunRnn(ucudnnRnn_t rnn, const struct ucudnnRnnArguments_t *arguments, void *stream);

/*
 Why the calling thread's last failed call of these functions for recurrent networks failed: what was wrong,
 and what is accepted. Writes at most textSizeInBytes bytes, the last of them 0.
 */
void ucudnnGetRnnErrorString(char *text, size_t textSizeInBytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UCUDNN_H_ */
