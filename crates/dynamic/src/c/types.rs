//! The types and constants of the C API, in the order of `include/ucudnn.h`, which repeats their comments.
#![allow(non_camel_case_types, non_snake_case)]
#![allow(rustdoc::broken_intra_doc_links)] // shapes such as [vertices][width] stand in comments that the header repeats

use std::ffi::{c_char, c_int, c_longlong, c_void};

use cudnn_abi::cudnnDataType_t;

/// What an operation of a vertex function does. x and y are inputs[0] and inputs[1], the numbers of earlier operations
/// in the list; m and n are arguments[0] and arguments[1]; c is constant. What an operation does not take is 0.
///
/// A value is the vertex's, or each child's. Where both meet in one operation, the vertex's is used for every child.
/// Widths are equal where they meet, or one of them is 1 and is used for every element.
pub type ucudnnVertexOp_t = c_int;
/// The vertex's row of input m; zeros where it has none.
pub const UCUDNN_VERTEX_PULL: ucudnnVertexOp_t = 0;
/// The vertex's index in input m; only UCUDNN_VERTEX_LOOKUP takes it.
pub const UCUDNN_VERTEX_PULL_INDEX: ucudnnVertexOp_t = 1;
/// The row of parameter m that the index x names.
pub const UCUDNN_VERTEX_LOOKUP: ucudnnVertexOp_t = 2;
/// State n of the child in slot m; zeros where there is none.
pub const UCUDNN_VERTEX_GATHER: ucudnnVertexOp_t = 3;
/// State m of each child.
pub const UCUDNN_VERTEX_CHILDREN: ucudnnVertexOp_t = 4;
/// Parameter m, a matrix, times x.
pub const UCUDNN_VERTEX_MATMUL: ucudnnVertexOp_t = 5;
/// x plus parameter m, a vector.
pub const UCUDNN_VERTEX_BIAS: ucudnnVertexOp_t = 6;
/// x + y.
pub const UCUDNN_VERTEX_ADD: ucudnnVertexOp_t = 7;
/// x - y.
pub const UCUDNN_VERTEX_SUB: ucudnnVertexOp_t = 8;
/// x times y, element by element.
pub const UCUDNN_VERTEX_MUL: ucudnnVertexOp_t = 9;
/// c x.
pub const UCUDNN_VERTEX_SCALE: ucudnnVertexOp_t = 10;
/// x + c.
pub const UCUDNN_VERTEX_SHIFT: ucudnnVertexOp_t = 11;
/// 1 / (1 + exp(-x)).
pub const UCUDNN_VERTEX_SIGMOID: ucudnnVertexOp_t = 12;
/// tanh(x).
pub const UCUDNN_VERTEX_TANH: ucudnnVertexOp_t = 13;
/// max(x, 0).
pub const UCUDNN_VERTEX_RELU: ucudnnVertexOp_t = 14;
/// exp(x).
pub const UCUDNN_VERTEX_EXP: ucudnnVertexOp_t = 15;
/// The sum of x over the children; zeros without children, as for the next two.
pub const UCUDNN_VERTEX_SUM_CHILDREN: ucudnnVertexOp_t = 16;
/// The mean of x over the children.
pub const UCUDNN_VERTEX_MEAN_CHILDREN: ucudnnVertexOp_t = 17;
/// The greatest of x over the children, element by element. The first child that has it gets the gradient.
pub const UCUDNN_VERTEX_MAX_CHILDREN: ucudnnVertexOp_t = 18;
/// exp(x) over its sum over the children, element by element: a value of each child.
pub const UCUDNN_VERTEX_SOFTMAX_CHILDREN: ucudnnVertexOp_t = 19;
/// exp(x) over its sum over x's elements.
pub const UCUDNN_VERTEX_SOFTMAX: ucudnnVertexOp_t = 20;
/// The sum of x's elements, a value of width 1.
pub const UCUDNN_VERTEX_SUM: ucudnnVertexOp_t = 21;
/// x, then y.
pub const UCUDNN_VERTEX_CONCAT: ucudnnVertexOp_t = 22;
/// n elements of x from element m on.
pub const UCUDNN_VERTEX_SLICE: ucudnnVertexOp_t = 23;
/// Hands x on to the parents as state m. Makes no value.
pub const UCUDNN_VERTEX_SCATTER: ucudnnVertexOp_t = 24;
/// The vertex's row of output m is x. Makes no value.
pub const UCUDNN_VERTEX_PUSH: ucudnnVertexOp_t = 25;
/// x times parameter m, a vector, element by element.
pub const UCUDNN_VERTEX_GAIN: ucudnnVertexOp_t = 26;
/// x / y.
pub const UCUDNN_VERTEX_DIV: ucudnnVertexOp_t = 27;
/// The greater of x and y, element by element. Where they are equal, each gets half of the gradient.
pub const UCUDNN_VERTEX_MAXIMUM: ucudnnVertexOp_t = 28;
/// The lesser of x and y, likewise.
pub const UCUDNN_VERTEX_MINIMUM: ucudnnVertexOp_t = 29;
/// The logarithm of x to the base e.
pub const UCUDNN_VERTEX_LOG: ucudnnVertexOp_t = 30;
/// The square root of x.
pub const UCUDNN_VERTEX_SQRT: ucudnnVertexOp_t = 31;
/// x to the power of c.
pub const UCUDNN_VERTEX_POWER: ucudnnVertexOp_t = 32;

/// The loss of ucudnnRunVertexNetStep.
pub type ucudnnLoss_t = c_int;
/// None: the net takes no steps.
pub const UCUDNN_LOSS_NONE: ucudnnLoss_t = 0;
/// The mean, over the vertices with a label, of the cross-entropy of softmax(output) and label.
pub const UCUDNN_LOSS_CROSS_ENTROPY: ucudnnLoss_t = 1;

/// The rule of an optimizer. g is the gradient of a parameter p plus weightDecay * p. Moments are zeros before the first
/// step.
pub type ucudnnOptimizerRule_t = c_int;
/// Momentum: the first moment v becomes momentum * v + g, and p becomes p - learningRate * v.
pub const UCUDNN_OPTIMIZER_MOMENTUM: ucudnnOptimizerRule_t = 0;
/// Nesterov's: likewise, and p becomes p - learningRate * (g + momentum * v).
pub const UCUDNN_OPTIMIZER_NESTEROV: ucudnnOptimizerRule_t = 1;
/// Adam (Kingma and Ba, ICLR 2015, algorithm 1): the first moment m becomes beta1 * m + (1 - beta1) * g, the second one v
/// becomes beta2 * v + (1 - beta2) * g * g, and at step t, from 1 on, p becomes
/// p - learningRate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
pub const UCUDNN_OPTIMIZER_ADAM: ucudnnOptimizerRule_t = 2;
/// AdamW (Loshchilov and Hutter, ICLR 2019, algorithm 2): likewise, with the gradient alone for g; p is multiplied by
/// 1 - learningRate * weightDecay first.
pub const UCUDNN_OPTIMIZER_ADAMW: ucudnnOptimizerRule_t = 3;

/// An operation of a vertex function. Its value has the operation's number in the list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexOperation_t {
    /// A ucudnnVertexOp_t.
    pub op: ucudnnVertexOp_t,
    /// The numbers of earlier operations.
    pub inputs: [c_int; 3],
    /// Numbers of parameters, states, inputs, outputs, slots or elements.
    pub arguments: [c_longlong; 2],
    /// The constant of UCUDNN_VERTEX_SCALE, UCUDNN_VERTEX_SHIFT and UCUDNN_VERTEX_POWER.
    pub constant: f64,
}

/// The computation of the vertices of a kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexFunction_t {
    /// The slots for children of its vertices, some of which may be empty; -1 for any number of children.
    pub children: c_int,
    /// The number of operations, at most 512.
    pub operationCount: c_int,
    /// The operations, each behind those that it takes from.
    pub operations: *const ucudnnVertexOperation_t,
}

/// The description of a net. Unused fields are 0. Nothing in it is read after ucudnnCreateVertexNet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexNetDescription_t {
    /// The type of parameters, inputs and outputs: CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF or
    /// CUDNN_DATA_BFLOAT16. Sums of the last two are float, and states are rounded to the type.
    pub dataType: cudnnDataType_t,
    /// Not 0: products of floats may be rounded to TF32 first. The host does not.
    pub allowTf32: c_int,
    /// Not 0: runs forward keep the values that runs backward need.
    pub isTraining: c_int,
    /// Not 0: the net runs on the host, and all memory is the host's. 0: on the calling thread's device.
    pub isOnHost: c_int,
    /// The threads of a run on the host; 0 for one a core.
    pub hostThreads: c_int,
    /// Not 0, on a device: runs may be captured into a CUDA graph, whose replays run whatever batch is set when they
    /// run. All runs of the net, captured or not, then launch what the largest batch needs, so that maxima should be
    /// close to what batches have; inputs and outputs have maxVertices rows, results those behind the batch's as zeros;
    /// and maxLevels is at most 1,024. The graphs that a batch is set to first decide which kernels its levels run on:
    /// any others run too, and those of like size run fastest.
    pub isStatic: c_int,
    /// The number of states, at most 8.
    pub stateCount: c_int,
    /// The number of parameters, at most 64.
    pub parameterCount: c_int,
    /// The number of inputs, at most 64.
    pub pullCount: c_int,
    /// The number of outputs, 1 to 64.
    pub pushCount: c_int,
    /// The number of functions, 1 to 16: one for each kind of vertex.
    pub functionCount: c_int,
    /// The width of each state, 1 to 65,536.
    pub stateWidths: *const c_int,
    /// The width of each input; 0 for one of indices, which are long long.
    pub pullWidths: *const c_int,
    /// The width of each output.
    pub pushWidths: *const c_int,
    /// The rows and columns of each parameter; 0 columns for a vector.
    pub parameterSizes: *const [c_int; 2],
    /// The functions.
    pub functions: *const ucudnnVertexFunction_t,
    /// A ucudnnLoss_t.
    pub loss: ucudnnLoss_t,
    /// The output with the scores of the classes.
    pub lossPush: c_int,
    /// The most graphs of a batch.
    pub maxGraphs: c_longlong,
    /// The most vertices of a batch.
    pub maxVertices: c_longlong,
    /// The most slots for children of a batch.
    pub maxChildren: c_longlong,
    /// The most levels of a graph.
    pub maxLevels: c_longlong,
    /// Null.
    pub configuration: *const c_char,
}

/// The description of input graphs. Nothing in it is read after ucudnnCreateGraphs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnGraphsDescription_t {
    /// The number of graphs.
    pub graphs: c_longlong,
    /// [graphs + 1] The first vertex of each graph, and behind the last one the number of all vertices.
    pub firstVertex: *const c_longlong,
    /// [vertices + 1] The first slot of each vertex, and behind the last one the number of all slots.
    pub firstChild: *const c_longlong,
    /// [slots] The child in each slot, as the number of a vertex in its graph; -1 for none.
    pub children: *const c_int,
    /// [vertices] The kind of each vertex, the number of its function. Null: the number of slots decides; the function
    /// for that number, else the first for any number.
    pub kinds: *const u8,
    /// [vertices] The row of the graph's inputs that each vertex pulls; -1 for none. A graph has one row of each
    /// input more than the largest number, and no more than vertices. Null: each vertex pulls the row of its number.
    pub rows: *const c_int,
}

/// What a batch has, or a set of graphs.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ucudnnGraphBatchSizes_t {
    /// Graphs.
    pub graphs: c_longlong,
    /// Vertices: the rows of each output. They are those of the first graph, then those of the next.
    pub vertices: c_longlong,
    /// Slots for children.
    pub children: c_longlong,
    /// Levels of the highest graph.
    pub levels: c_longlong,
    /// The rows of each input: those of the first graph, then those of the next.
    pub rows: c_longlong,
}

/// A net.
pub struct ucudnnVertexNetStruct(());
/// A net from ucudnnCreateVertexNet, valid until ucudnnDestroyVertexNet.
pub type ucudnnVertexNet_t = *mut ucudnnVertexNetStruct;
/// Input graphs.
pub struct ucudnnGraphsStruct(());
/// Graphs from ucudnnCreateGraphs, valid until ucudnnDestroyGraphs. Any net may use them.
pub type ucudnnGraphs_t = *mut ucudnnGraphsStruct;
/// A batch of graphs.
pub struct ucudnnGraphBatchStruct(());
/// A batch from ucudnnCreateGraphBatch, valid until ucudnnDestroyGraphBatch.
pub type ucudnnGraphBatch_t = *mut ucudnnGraphBatchStruct;

/// The arguments of a run. Unused fields are 0. Results must not overlap anything.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexNetArguments_t {
    /// [parameterCount] Each [rows][columns]. ucudnnRunVertexNetStep writes them.
    pub parameters: *const *const c_void,
    /// [pullCount] Each [rows of the batch][width], or [rows of the batch] indices.
    pub pulls: *const *const c_void,
    /// Backward: [pushCount] each [vertices][width], or null for zeros.
    pub pushGradients: *const *const c_void,
    /// Forward: [pushCount] each [vertices][width], or null if it is not wanted. A vertex whose function does not push
    /// has zeros.
    pub pushes: *const *mut c_void,
    /// Backward: [pullCount] each [rows of the batch][width], or null if it is not wanted. Null for none.
    pub pullGradients: *const *mut c_void,
    /// Backward: [parameterCount] each like its parameter, or null if it is not wanted. Null for none.
    pub parameterGradients: *const *mut c_void,
    /// Not 0: the parameters' gradients are added to the numbers there.
    pub accumulatesGradients: c_int,
    /// Step: [vertices] the class of each vertex; -1 for one that is not in the loss. Like inputs and results, on a device
    /// it is the device's, and a static net's has maxVertices rows; so is the place for the loss.
    pub labels: *const c_int,
    /// Step: the place for the loss, or null.
    pub loss: *mut f32,
    /// Step: each parameter p becomes p - learningRate * (gradient + weightDecay * p).
    pub learningRate: f32,
    /// Step: the part of a parameter that is added to its gradient.
    pub weightDecay: f32,
    /// Memory of at least the size from ucudnnGetVertexNetMemorySize, aligned to 8 bytes, and to 256 on a device. Its
    /// contents mean nothing before and after a run.
    pub workspace: *mut c_void,
    /// Likewise; carries values from the run forward of a batch to its run backward.
    pub reserve: *mut c_void,
    /// The size of the workspace in bytes.
    pub workspaceSizeInBytes: usize,
    /// The size of the reserve in bytes.
    pub reserveSizeInBytes: usize,
}

/// An optimizer for ucudnnRunVertexNetOptimizerStep. Unused fields are 0. A step writes all that the pointers lead to, which
/// is the device's for a net on a device, and must not overlap anything.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ucudnnOptimizer_t {
    /// A ucudnnOptimizerRule_t.
    pub rule: ucudnnOptimizerRule_t,
    /// Momentum: a step keeps this part of the moment. It is 0 or more, and below 1.
    pub momentum: f64,
    /// Adam: beta1, likewise.
    pub beta1: f64,
    /// Adam: beta2, likewise.
    pub beta2: f64,
    /// Adam: epsilon, from 0 on.
    pub epsilon: f64,
    /// [parameterCount] The first moments: each has as many numbers as its parameter, of float, or of double in a net of
    /// doubles.
    pub firstMoments: *const *mut c_void,
    /// [parameterCount] Adam: the second moments, likewise.
    pub secondMoments: *const *mut c_void,
    /// [2] Adam: beta1 and beta2 to the power of the steps so far: 1 and 1 before the first step, each of which multiplies
    /// them.
    pub betaPowers: *mut f64,
}
