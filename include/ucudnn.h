/* ucudnn: cuDNN's convolutions in micro-batches, recurrent networks on its own kernels, and nets over graphs. Made by
 * cbindgen from src/ucudnn: do not edit.
 *
 * A program needs none of this: it links with -lucudnn instead of -lcudnn, or runs with
 * LD_PRELOAD=libucudnn.so, and UCUDNN_... variables say what they may. These functions steer single
 * handles, tell what was planned, bring back the queries that cuDNN 8 took away, run recurrent
 * networks without cuDNN, and run dynamic nets: vertex functions over batches of graphs.
 *
 * Sizes are in bytes. Handles, descriptors and places for results stay the caller's; nothing here
 * keeps a pointer. Functions that return a status return CUDNN_STATUS_SUCCESS, what their comments
 * say, CUDNN_STATUS_BAD_PARAM_NULL_POINTER for a null pointer, or CUDNN_STATUS_BAD_PARAM for a network,
 * a net, graphs or a batch that was not made here, or was destroyed. Those of dynamic nets return
 * CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER for a pointer that is not aligned to its type, and
 * CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH if the calling thread's current device is not the net's. All
 * may be called from any thread.
 */

#ifndef UCUDNN_H_
#define UCUDNN_H_

#include <stddef.h>
#include <stdint.h>
/* cuDNN's types come from cudnn.h. Where there is none, or UCUDNN_WITHOUT_CUDNN_H is defined, those that this header
 * uses follow here: recurrent networks and dynamic nets need nothing else of cuDNN. */
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
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
    CUDNN_STATUS_EXECUTION_FAILED = 5000
};
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
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
 A batch of graphs.
 */
typedef struct ucudnnGraphBatchStruct ucudnnGraphBatchStruct;

/*
 Input graphs.
 */
typedef struct ucudnnGraphsStruct ucudnnGraphsStruct;

/*
 A network with the kernels that run it on one device.
 */
typedef struct ucudnnRnnStruct ucudnnRnnStruct;

/*
 A net.
 */
typedef struct ucudnnVertexNetStruct ucudnnVertexNetStruct;

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
 A net from ucudnnCreateVertexNet, valid until ucudnnDestroyVertexNet.
 */
typedef struct ucudnnVertexNetStruct *ucudnnVertexNet_t;

/*
 What an operation of a vertex function does. x and y are inputs[0] and inputs[1], the numbers of earlier operations
 in the list; m and n are arguments[0] and arguments[1]; c is constant. What an operation does not take is 0.

 A value is the vertex's, or each child's. Where both meet in one operation, the vertex's is used for every child.
 Widths are equal where they meet, or one of them is 1 and is used for every element.
 */
typedef int ucudnnVertexOp_t;

/*
 An operation of a vertex function. Its value has the operation's number in the list.
 */
typedef struct ucudnnVertexOperation_t {
  /*
   A ucudnnVertexOp_t.
   */
  ucudnnVertexOp_t op;
  /*
   The numbers of earlier operations.
   */
  int inputs[3];
  /*
   Numbers of parameters, states, inputs, outputs, slots or elements.
   */
  long long arguments[2];
  /*
   The constant of UCUDNN_VERTEX_SCALE, UCUDNN_VERTEX_SHIFT and UCUDNN_VERTEX_POWER.
   */
  double constant;
} ucudnnVertexOperation_t;

/*
 The computation of the vertices of a kind.
 */
typedef struct ucudnnVertexFunction_t {
  /*
   The slots for children of its vertices, some of which may be empty; -1 for any number of children.
   */
  int children;
  /*
   The number of operations, at most 512.
   */
  int operationCount;
  /*
   The operations, each behind those that it takes from.
   */
  const struct ucudnnVertexOperation_t *operations;
} ucudnnVertexFunction_t;

/*
 The loss of ucudnnRunVertexNetStep.
 */
typedef int ucudnnLoss_t;

/*
 The description of a net. Unused fields are 0. Nothing in it is read after ucudnnCreateVertexNet.
 */
typedef struct ucudnnVertexNetDescription_t {
  /*
   The type of parameters, inputs and outputs: CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF or
   CUDNN_DATA_BFLOAT16. Sums of the last two are float, and states are rounded to the type.
   */
  cudnnDataType_t dataType;
  /*
   Not 0: products of floats may be rounded to TF32 first. The host does not.
   */
  int allowTf32;
  /*
   Not 0: runs forward keep the values that runs backward need.
   */
  int isTraining;
  /*
   Not 0: the net runs on the host, and all memory is the host's. 0: on the calling thread's device.
   */
  int isOnHost;
  /*
   The threads of a run on the host; 0 for one a core.
   */
  int hostThreads;
  /*
   Not 0, on a device: runs may be captured into a CUDA graph, whose replays run whatever batch is set when they
   run. All runs of the net, captured or not, then launch what the largest batch needs, so that maxima should be
   close to what batches have; inputs and outputs have maxVertices rows, results those behind the batch's as zeros;
   and maxLevels is at most 1,024. The graphs that a batch is set to first decide which kernels its levels run on:
   any others run too, and those of like size run fastest.
   */
  int isStatic;
  /*
   The number of states, at most 8.
   */
  int stateCount;
  /*
   The number of parameters, at most 64.
   */
  int parameterCount;
  /*
   The number of inputs, at most 64.
   */
  int pullCount;
  /*
   The number of outputs, 1 to 64.
   */
  int pushCount;
  /*
   The number of functions, 1 to 16: one for each kind of vertex.
   */
  int functionCount;
  /*
   The width of each state, 1 to 65,536.
   */
  const int *stateWidths;
  /*
   The width of each input; 0 for one of indices, which are long long.
   */
  const int *pullWidths;
  /*
   The width of each output.
   */
  const int *pushWidths;
  /*
   The rows and columns of each parameter; 0 columns for a vector.
   */
  const int (*parameterSizes)[2];
  /*
   The functions.
   */
  const struct ucudnnVertexFunction_t *functions;
  /*
   A ucudnnLoss_t.
   */
  ucudnnLoss_t loss;
  /*
   The output with the scores of the classes.
   */
  int lossPush;
  /*
   The most graphs of a batch.
   */
  long long maxGraphs;
  /*
   The most vertices of a batch.
   */
  long long maxVertices;
  /*
   The most slots for children of a batch.
   */
  long long maxChildren;
  /*
   The most levels of a graph.
   */
  long long maxLevels;
  /*
   Null.
   */
  const char *configuration;
} ucudnnVertexNetDescription_t;

/*
 Graphs from ucudnnCreateGraphs, valid until ucudnnDestroyGraphs. Any net may use them.
 */
typedef struct ucudnnGraphsStruct *ucudnnGraphs_t;

/*
 The description of input graphs. Nothing in it is read after ucudnnCreateGraphs.
 */
typedef struct ucudnnGraphsDescription_t {
  /*
   The number of graphs.
   */
  long long graphs;
  /*
   [graphs + 1] The first vertex of each graph, and behind the last one the number of all vertices.
   */
  const long long *firstVertex;
  /*
   [vertices + 1] The first slot of each vertex, and behind the last one the number of all slots.
   */
  const long long *firstChild;
  /*
   [slots] The child in each slot, as the number of a vertex in its graph; -1 for none.
   */
  const int *children;
  /*
   [vertices] The kind of each vertex, the number of its function. Null: the number of slots decides; the function
   for that number, else the first for any number.
   */
  const uint8_t *kinds;
  /*
   [vertices] The row of the graph's inputs that each vertex pulls; -1 for none. A graph has one row of each
   input more than the largest number, and no more than vertices. Null: each vertex pulls the row of its number.
   */
  const int *rows;
} ucudnnGraphsDescription_t;

/*
 What a batch has, or a set of graphs.
 */
typedef struct ucudnnGraphBatchSizes_t {
  /*
   Graphs.
   */
  long long graphs;
  /*
   Vertices: the rows of each output. They are those of the first graph, then those of the next.
   */
  long long vertices;
  /*
   Slots for children.
   */
  long long children;
  /*
   Levels of the highest graph.
   */
  long long levels;
  /*
   The rows of each input: those of the first graph, then those of the next.
   */
  long long rows;
} ucudnnGraphBatchSizes_t;

/*
 A batch from ucudnnCreateGraphBatch, valid until ucudnnDestroyGraphBatch.
 */
typedef struct ucudnnGraphBatchStruct *ucudnnGraphBatch_t;

/*
 The arguments of a run. Unused fields are 0. Results must not overlap anything.
 */
typedef struct ucudnnVertexNetArguments_t {
  /*
   [parameterCount] Each [rows][columns]. ucudnnRunVertexNetStep writes them.
   */
  const void *const *parameters;
  /*
   [pullCount] Each [rows of the batch][width], or [rows of the batch] indices.
   */
  const void *const *pulls;
  /*
   Backward: [pushCount] each [vertices][width], or null for zeros.
   */
  const void *const *pushGradients;
  /*
   Forward: [pushCount] each [vertices][width], or null if it is not wanted. A vertex whose function does not push
   has zeros.
   */
  void *const *pushes;
  /*
   Backward: [pullCount] each [rows of the batch][width], or null if it is not wanted. Null for none.
   */
  void *const *pullGradients;
  /*
   Backward: [parameterCount] each like its parameter, or null if it is not wanted. Null for none.
   */
  void *const *parameterGradients;
  /*
   Not 0: the parameters' gradients are added to the numbers there.
   */
  int accumulatesGradients;
  /*
   Step: [vertices] the class of each vertex; -1 for one that is not in the loss. Like inputs and results, on a device
   it is the device's, and a static net's has maxVertices rows; so is the place for the loss.
   */
  const int *labels;
  /*
   Step: the place for the loss, or null.
   */
  float *loss;
  /*
   Step: each parameter p becomes p - learningRate * (gradient + weightDecay * p).
   */
  float learningRate;
  /*
   Step: the part of a parameter that is added to its gradient.
   */
  float weightDecay;
  /*
   Memory of at least the size from ucudnnGetVertexNetMemorySize, aligned to 8 bytes, and to 256 on a device. Its
   contents mean nothing before and after a run.
   */
  void *workspace;
  /*
   Likewise; carries values from the run forward of a batch to its run backward.
   */
  void *reserve;
  /*
   The size of the workspace in bytes.
   */
  size_t workspaceSizeInBytes;
  /*
   The size of the reserve in bytes.
   */
  size_t reserveSizeInBytes;
} ucudnnVertexNetArguments_t;

/*
 The rule of an optimizer. g is the gradient of a parameter p plus weightDecay * p. Moments are zeros before the first
 step.
 */
typedef int ucudnnOptimizerRule_t;

/*
 An optimizer for ucudnnRunVertexNetOptimizerStep. Unused fields are 0. A step writes all that the pointers lead to, which
 is the device's for a net on a device, and must not overlap anything.
 */
typedef struct ucudnnOptimizer_t {
  /*
   A ucudnnOptimizerRule_t.
   */
  ucudnnOptimizerRule_t rule;
  /*
   Momentum: a step keeps this part of the moment. It is 0 or more, and below 1.
   */
  double momentum;
  /*
   Adam: beta1, likewise.
   */
  double beta1;
  /*
   Adam: beta2, likewise.
   */
  double beta2;
  /*
   Adam: epsilon, from 0 on.
   */
  double epsilon;
  /*
   [parameterCount] The first moments: each has as many numbers as its parameter, of float, or of double in a net of
   doubles.
   */
  void *const *firstMoments;
  /*
   [parameterCount] Adam: the second moments, likewise.
   */
  void *const *secondMoments;
  /*
   [2] Adam: beta1 and beta2 to the power of the steps so far: 1 and 1 before the first step, each of which multiplies
   them.
   */
  double *betaPowers;
} ucudnnOptimizer_t;

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

/*
 The vertex's row of input m; zeros where it has none.
 */
#define UCUDNN_VERTEX_PULL 0

/*
 The vertex's index in input m; only UCUDNN_VERTEX_LOOKUP takes it.
 */
#define UCUDNN_VERTEX_PULL_INDEX 1

/*
 The row of parameter m that the index x names.
 */
#define UCUDNN_VERTEX_LOOKUP 2

/*
 State n of the child in slot m; zeros where there is none.
 */
#define UCUDNN_VERTEX_GATHER 3

/*
 State m of each child.
 */
#define UCUDNN_VERTEX_CHILDREN 4

/*
 Parameter m, a matrix, times x.
 */
#define UCUDNN_VERTEX_MATMUL 5

/*
 x plus parameter m, a vector.
 */
#define UCUDNN_VERTEX_BIAS 6

/*
 x + y.
 */
#define UCUDNN_VERTEX_ADD 7

/*
 x - y.
 */
#define UCUDNN_VERTEX_SUB 8

/*
 x times y, element by element.
 */
#define UCUDNN_VERTEX_MUL 9

/*
 c x.
 */
#define UCUDNN_VERTEX_SCALE 10

/*
 x + c.
 */
#define UCUDNN_VERTEX_SHIFT 11

/*
 1 / (1 + exp(-x)).
 */
#define UCUDNN_VERTEX_SIGMOID 12

/*
 tanh(x).
 */
#define UCUDNN_VERTEX_TANH 13

/*
 max(x, 0).
 */
#define UCUDNN_VERTEX_RELU 14

/*
 exp(x).
 */
#define UCUDNN_VERTEX_EXP 15

/*
 The sum of x over the children; zeros without children, as for the next two.
 */
#define UCUDNN_VERTEX_SUM_CHILDREN 16

/*
 The mean of x over the children.
 */
#define UCUDNN_VERTEX_MEAN_CHILDREN 17

/*
 The greatest of x over the children, element by element. The first child that has it gets the gradient.
 */
#define UCUDNN_VERTEX_MAX_CHILDREN 18

/*
 exp(x) over its sum over the children, element by element: a value of each child.
 */
#define UCUDNN_VERTEX_SOFTMAX_CHILDREN 19

/*
 exp(x) over its sum over x's elements.
 */
#define UCUDNN_VERTEX_SOFTMAX 20

/*
 The sum of x's elements, a value of width 1.
 */
#define UCUDNN_VERTEX_SUM 21

/*
 x, then y.
 */
#define UCUDNN_VERTEX_CONCAT 22

/*
 n elements of x from element m on.
 */
#define UCUDNN_VERTEX_SLICE 23

/*
 Hands x on to the parents as state m. Makes no value.
 */
#define UCUDNN_VERTEX_SCATTER 24

/*
 The vertex's row of output m is x. Makes no value.
 */
#define UCUDNN_VERTEX_PUSH 25

/*
 x times parameter m, a vector, element by element.
 */
#define UCUDNN_VERTEX_GAIN 26

/*
 x / y.
 */
#define UCUDNN_VERTEX_DIV 27

/*
 The greater of x and y, element by element. Where they are equal, each gets half of the gradient.
 */
#define UCUDNN_VERTEX_MAXIMUM 28

/*
 The lesser of x and y, likewise.
 */
#define UCUDNN_VERTEX_MINIMUM 29

/*
 The logarithm of x to the base e.
 */
#define UCUDNN_VERTEX_LOG 30

/*
 The square root of x.
 */
#define UCUDNN_VERTEX_SQRT 31

/*
 x to the power of c.
 */
#define UCUDNN_VERTEX_POWER 32

/*
 None: the net takes no steps.
 */
#define UCUDNN_LOSS_NONE 0

/*
 The mean, over the vertices with a label, of the cross-entropy of softmax(output) and label.
 */
#define UCUDNN_LOSS_CROSS_ENTROPY 1

/*
 Momentum: the first moment v becomes momentum * v + g, and p becomes p - learningRate * v.
 */
#define UCUDNN_OPTIMIZER_MOMENTUM 0

/*
 Nesterov's: likewise, and p becomes p - learningRate * (g + momentum * v).
 */
#define UCUDNN_OPTIMIZER_NESTEROV 1

/*
 Adam (Kingma and Ba, ICLR 2015, algorithm 1): the first moment m becomes beta1 * m + (1 - beta1) * g, the second one v
 becomes beta2 * v + (1 - beta2) * g * g, and at step t, from 1 on, p becomes
 p - learningRate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
 */
#define UCUDNN_OPTIMIZER_ADAM 2

/*
 AdamW (Loshchilov and Hutter, ICLR 2019, algorithm 2): likewise, with the gradient alone for g; p is multiplied by
 1 - learningRate * weightDecay first.
 */
#define UCUDNN_OPTIMIZER_ADAMW 3

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

 CUDNN_STATUS_BAD_PARAM: UCUDNN_NO_LIMIT is not a total. An error changes nothing.
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

 CUDNN_STATUS_BAD_PARAM: the policy is not a ucudnnPolicy_t, or it is UCUDNN_POLICY_WD and no total is set. An error
 changes nothing.
 */
cudnnStatus_t ucudnnSetPolicy(cudnnHandle_t handle,
                              ucudnnPolicy_t policy);

/*
 Gets the policy in force for a handle: its own, or the one in UCUDNN_POLICY.
 */
cudnnStatus_t ucudnnGetPolicy(cudnnHandle_t handle, ucudnnPolicy_t *policy);

/*
 Sets the micro-batch sizes to try for a handle's convolutions.

 CUDNN_STATUS_BAD_PARAM: the policy is not a ucudnnBatchSizePolicy_t. An error changes nothing.
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

 CUDNN_STATUS_BAD_PARAM: the preference is unknown, or a descriptor is null. CUDNN_STATUS_NOT_SUPPORTED: no algorithm
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
 them in memory that it frees again. The compiler runs on threads of its own, one for each processor, which have ended
 when the call returns. The calling thread must not be capturing a stream.

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

/*
 Puts the library's kernels in the place of PyTorch's own, as the first cudnnCreate does, if the process has loaded
 libtorch and UCUDNN_TORCH is not off. For programs that do not preload the library: they load it, and call this once
 libtorch is there. A second call changes nothing.

 Returns CUDNN_STATUS_SUCCESS if the kernels are in place, and CUDNN_STATUS_NOT_SUPPORTED if not; the log says why
 (UCUDNN_LOG=info).
 */
cudnnStatus_t ucudnnReplaceTorchOperators(void);

/*
 Makes a net. With isOnHost 0 it is made for the calling thread's current device, where compiling its kernels takes a
 second or two for the first time; needs CUDA's driver and NVRTC, but not cuDNN, and uses cublasLt if it finds it. The
 calling thread must not be capturing a stream.

 CUDNN_STATUS_BAD_PARAM: the description is not accepted. CUDNN_STATUS_NOT_SUPPORTED: configuration is not null; or,
 on a device, the type is double, or the kernels do not compile.
 CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. An error makes no net, and
 ucudnnGetVertexNetErrorString gives the details: the function, the operation, and the values that are accepted.
 */
cudnnStatus_t ucudnnCreateVertexNet(ucudnnVertexNet_t *net,
                                    const struct ucudnnVertexNetDescription_t *description);

/*
 Destroys a net. Its batches run no more; they are destroyed as ever, before or behind it.

 CUDNN_STATUS_BAD_PARAM: net is no net, or was destroyed before.
 */
cudnnStatus_t ucudnnDestroyVertexNet(ucudnnVertexNet_t net);

/*
 Makes input graphs: copies, checks and levels them.

 CUDNN_STATUS_BAD_PARAM: a number is out of range, or a vertex is its own descendant.
 CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: there is not so much memory. An error makes no graphs, and
 ucudnnGetVertexNetErrorString names the graph and the vertex.
 */
cudnnStatus_t ucudnnCreateGraphs(ucudnnGraphs_t *graphs,
                                 const struct ucudnnGraphsDescription_t *description);

/*
 Gets what a set of graphs has: graphs, vertices, slots, the levels of the highest graph, and rows of inputs.

 CUDNN_STATUS_BAD_PARAM: graphs is none, or was destroyed.
 */
cudnnStatus_t ucudnnGetGraphsSizes(ucudnnGraphs_t graphs, struct ucudnnGraphBatchSizes_t *sizes);

/*
 Destroys graphs. Batches that were set from them stay as they are.

 CUDNN_STATUS_BAD_PARAM: graphs is none, or was destroyed before.
 */
cudnnStatus_t ucudnnDestroyGraphs(ucudnnGraphs_t graphs);

/*
 Makes memory for batches up to the net's maxima.

 CUDNN_STATUS_BAD_PARAM: net is none. CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED or
 CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: there is not so much memory.
 */
cudnnStatus_t ucudnnCreateGraphBatch(ucudnnGraphBatch_t *batch, ucudnnVertexNet_t net);

/*
 Destroys a batch. None of its runs may be under way any more.

 CUDNN_STATUS_BAD_PARAM: batch is none, or was destroyed before.
 */
cudnnStatus_t ucudnnDestroyGraphBatch(ucudnnGraphBatch_t batch);

/*
 Makes a batch of these graphs, ids[0 ... count - 1], in this order; one may stand there several times. Allocates
 nothing once each of the graphs was in the batch. On a device, the batch is copied in the stream's order: runs on the
 stream before it still have the old batch. The first batch of its size may compile the kernels that run it, for a second
 or two. stream is unused for a net on the host.

 CUDNN_STATUS_BAD_PARAM: the count or an id is out of range, the net has no function for a vertex, or the batch
 exceeds the net's maxima. CUDNN_STATUS_NOT_SUPPORTED: the stream is being captured. The batch then is as it was.
 CUDNN_STATUS_EXECUTION_FAILED: it was not copied to the device.
 */
cudnnStatus_t ucudnnSetGraphBatch(ucudnnGraphBatch_t batch,
                                  ucudnnGraphs_t graphs,
                                  const long long *ids,
                                  long long count,
                                  void *stream);

/*
 Gets what a batch has. All is 0 before it was set.
 */
cudnnStatus_t ucudnnGetGraphBatchSizes(ucudnnGraphBatch_t batch, struct ucudnnGraphBatchSizes_t *sizes);

/*
 Gets the sizes of workspace and reserve in bytes that runs of a batch need; with a null batch, those of any batch
 within the net's maxima.

 CUDNN_STATUS_BAD_PARAM: net or batch is none, or the batch is another net's.
 */
cudnnStatus_t ucudnnGetVertexNetMemorySize(ucudnnVertexNet_t net,
                                           ucudnnGraphBatch_t batch,
                                           size_t *workspaceSizeInBytes,
                                           size_t *reserveSizeInBytes);

/*
 Runs a batch forward. Allocates nothing of its own: the library of matrix products allocates memory to pack matrices
 into, and with several hostThreads their queue allocates now and then. Runs of different batches may be under way at
 once, each with its own workspace, reserve and results; those of one batch follow each other. stream is unused for a
 net on the host.

 On a device, the run is launched on the stream, allocates nothing and waits for nothing. The memory of parameters,
 inputs and results is the device's. An index that is out of range reads zeros, and adds to nothing. On a stream that
 is being captured, the net is one with isStatic (else CUDNN_STATUS_NOT_SUPPORTED) that ran before in the same way.
 Replays read the batch where ucudnnSetGraphBatch copied it, in their stream's order.

 CUDNN_STATUS_BAD_PARAM: the batch is another net's, or was not set; an index or a label is out of range; the net was
 made without what the run needs; or a result overlaps other data. CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the
 workspace or the reserve is too small. After any of these errors nothing has been written, except into the workspace.
 CUDNN_STATUS_EXECUTION_FAILED: a launch failed, and the results are undefined.
 */
cudnnStatus_t ucudnnRunVertexNetForward(ucudnnVertexNet_t net,
                                        ucudnnGraphBatch_t batch,
                                        const struct ucudnnVertexNetArguments_t *arguments,
                                        void *stream);

/*
 Runs a batch backward, behind its run forward with the same parameters, inputs and reserve, and the same graphs in the
 batch. The net was made with isTraining. The reserve may lie elsewhere by then, byte for byte the same. On the host, a
 reserve of no such run is CUDNN_STATUS_BAD_PARAM; on a device nothing waits to look at it, and gradients are wrong. For
 the rest see ucudnnRunVertexNetForward.
 */
cudnnStatus_t ucudnnRunVertexNetBackward(ucudnnVertexNet_t net,
                                         ucudnnGraphBatch_t batch,
                                         const struct ucudnnVertexNetArguments_t *arguments,
                                         void *stream);

/*
 Runs a step of training: forward, the loss, backward, and gradient descent, which writes the parameters
 (ucudnnRunVertexNetOptimizerStep has other rules). The net was made with a loss. On a device, the labels and the place
 for the loss are the device's, and labels that are no classes are not in the loss. For the rest see
 ucudnnRunVertexNetForward.
 */
cudnnStatus_t ucudnnRunVertexNetStep(ucudnnVertexNet_t net,
                                     ucudnnGraphBatch_t batch,
                                     const struct ucudnnVertexNetArguments_t *arguments,
                                     void *stream);

/*
 Runs a step of training as ucudnnRunVertexNetStep does, with an optimizer in place of gradient descent; null for that.
 All elements of all parameters change, those of an embedding whose rows the batch does not have too.

 CUDNN_STATUS_BAD_PARAM: there is no such rule, or a number is out of its range.
 */
cudnnStatus_t ucudnnRunVertexNetOptimizerStep(ucudnnVertexNet_t net,
                                              ucudnnGraphBatch_t batch,
                                              const struct ucudnnVertexNetArguments_t *arguments,
                                              const struct ucudnnOptimizer_t *optimizer,
                                              void *stream);

/*
 Gets the canonical text of a net: its sizes and its functions. Writes at most textSizeInBytes bytes to text, the
 last of them 0, and the number of bytes that the whole text needs to neededSizeInBytes; text may be null if
 textSizeInBytes is 0.
 */
cudnnStatus_t ucudnnGetVertexNetText(ucudnnVertexNet_t net,
                                     char *text,
                                     size_t textSizeInBytes,
                                     size_t *neededSizeInBytes);

/*
 Gets the executor of a net as text: "host" and its threads; or "batched", and how many groups of passes are one kernel
 for few rows; before that "persistent" and its blocks forward and backward, if one launch each way may run all levels.
 For the buffer see ucudnnGetVertexNetText.
 */
cudnnStatus_t ucudnnGetVertexNetConfiguration(ucudnnVertexNet_t net,
                                              char *text,
                                              size_t textSizeInBytes,
                                              size_t *neededSizeInBytes);

/*
 Gets the reason of the calling thread's last failure in a function for vertex nets, graphs and batches. Writes at
 most textSizeInBytes bytes to text, the last of them 0.
 */
void ucudnnGetVertexNetErrorString(char *text,
                                   size_t textSizeInBytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UCUDNN_H_ */
