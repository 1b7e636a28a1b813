//! Dynamic nets: vertex functions over batches of input graphs. `dynamic::c` has the types and the work.

use std::cell::RefCell;
use std::ffi::{c_char, c_longlong, c_void};

use cudnn_abi::*;

use super::descriptions::{Place, write_text};
use super::refusals::{Refusals, null};
use dynamic::c::runs::{self, Asked};
use dynamic::c::types::*;
use dynamic::c::{batches, graphs as sets, nets};
use guest::refusal::Refusal;

thread_local! {
    /// The reason of the thread's last failure here.
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

static REFUSALS: Refusals = Refusals::new(&WHY);

/// Writes an answer to the caller's buffer.
///
/// # Safety
/// As for [`write_text`].
unsafe fn write_answer(place: Place, answer: impl FnOnce() -> Result<String, Refusal>) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        // SAFETY: the caller's promise.
        let is_written = unsafe { write_text(place, &answer()?) };
        if is_written { Ok(()) } else { Err(null("text or neededSizeInBytes")) }
    })
}

/// Makes a net. With isOnHost 0 it is made for the calling thread's current device, where compiling its kernels takes a
/// second or two for the first time; needs CUDA's driver and NVRTC, but not cuDNN, and uses cublasLt if it finds it. The
/// calling thread must not be capturing a stream.
///
/// CUDNN_STATUS_BAD_PARAM: the description is not accepted. CUDNN_STATUS_NOT_SUPPORTED: configuration is not null; or,
/// on a device, the type is double, or the kernels do not compile.
/// CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. An error makes no net, and
/// ucudnnGetVertexNetErrorString gives the details: the function, the operation, and the values that are accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateVertexNet(
    net: *mut ucudnnVertexNet_t,
    description: *const ucudnnVertexNetDescription_t,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { nets::create(net, description, cudnn::device) })
}

/// Destroys a net. Its batches run no more; they are destroyed as ever, before or behind it.
///
/// CUDNN_STATUS_BAD_PARAM: net is no net, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyVertexNet(net: ucudnnVertexNet_t) -> cudnnStatus_t {
    REFUSALS.answered(|| nets::destroy(net))
}

/// Makes input graphs: copies, checks and levels them.
///
/// CUDNN_STATUS_BAD_PARAM: a number is out of range, or a vertex is its own descendant.
/// CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: there is not so much memory. An error makes no graphs, and
/// ucudnnGetVertexNetErrorString names the graph and the vertex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateGraphs(
    graphs: *mut ucudnnGraphs_t,
    description: *const ucudnnGraphsDescription_t,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { sets::create(graphs, description) })
}

/// Gets what a set of graphs has: graphs, vertices, slots, the levels of the highest graph, and rows of inputs.
///
/// CUDNN_STATUS_BAD_PARAM: graphs is none, or was destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetGraphsSizes(
    graphs: ucudnnGraphs_t,
    sizes: *mut ucudnnGraphBatchSizes_t,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { sets::sizes(graphs, sizes) })
}

/// Destroys graphs. Batches that were set from them stay as they are.
///
/// CUDNN_STATUS_BAD_PARAM: graphs is none, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyGraphs(graphs: ucudnnGraphs_t) -> cudnnStatus_t {
    REFUSALS.answered(|| sets::destroy(graphs))
}

/// Makes memory for batches up to the net's maxima.
///
/// CUDNN_STATUS_BAD_PARAM: net is none. CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED or
/// CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: there is not so much memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateGraphBatch(
    batch: *mut ucudnnGraphBatch_t,
    net: ucudnnVertexNet_t,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { batches::create(batch, net) })
}

/// Destroys a batch. None of its runs may be under way any more.
///
/// CUDNN_STATUS_BAD_PARAM: batch is none, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyGraphBatch(batch: ucudnnGraphBatch_t) -> cudnnStatus_t {
    REFUSALS.answered(|| batches::destroy(batch))
}

/// Makes a batch of these graphs, ids[0 ... count - 1], in this order; one may stand there several times. Allocates
/// nothing once each of the graphs was in the batch. On a device, the batch is copied in the stream's order: runs on the
/// stream before it still have the old batch. The first batch of its size may compile the kernels that run it, for a second
/// or two. stream is unused for a net on the host.
///
/// CUDNN_STATUS_BAD_PARAM: the count or an id is out of range, the net has no function for a vertex, or the batch
/// exceeds the net's maxima. CUDNN_STATUS_NOT_SUPPORTED: the stream is being captured. The batch then is as it was.
/// CUDNN_STATUS_EXECUTION_FAILED: it was not copied to the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetGraphBatch(
    batch: ucudnnGraphBatch_t,
    graphs: ucudnnGraphs_t,
    ids: *const c_longlong,
    count: c_longlong,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { batches::set(batch, graphs, ids, count, stream) })
}

/// Gets what a batch has. All is 0 before it was set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetGraphBatchSizes(
    batch: ucudnnGraphBatch_t,
    sizes: *mut ucudnnGraphBatchSizes_t,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { batches::sizes(batch, sizes) })
}

/// Gets the sizes of workspace and reserve in bytes that runs of a batch need; with a null batch, those of any batch
/// within the net's maxima.
///
/// CUDNN_STATUS_BAD_PARAM: net or batch is none, or the batch is another net's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetMemorySize(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    workspaceSizeInBytes: *mut usize,
    reserveSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { nets::memory_sizes(net, batch, workspaceSizeInBytes, reserveSizeInBytes) })
}

/// Runs a batch forward. Allocates nothing of its own: the library of matrix products allocates memory to pack matrices
/// into, and with several hostThreads their queue allocates now and then. Runs of different batches may be under way at
/// once, each with its own workspace, reserve and results; those of one batch follow each other. stream is unused for a
/// net on the host.
///
/// On a device, the run is launched on the stream, allocates nothing and waits for nothing. The memory of parameters,
/// inputs and results is the device's. An index that is out of range reads zeros, and adds to nothing. On a stream that
/// is being captured, the net is one with isStatic (else CUDNN_STATUS_NOT_SUPPORTED) that ran before in the same way.
/// Replays read the batch where ucudnnSetGraphBatch copied it, in their stream's order.
///
/// CUDNN_STATUS_BAD_PARAM: the batch is another net's, or was not set; an index or a label is out of range; the net was
/// made without what the run needs; or a result overlaps other data. CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the
/// workspace or the reserve is too small. After any of these errors nothing has been written, except into the workspace.
/// CUDNN_STATUS_EXECUTION_FAILED: a launch failed, and the results are undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetForward(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { runs::run(net, batch, arguments, Asked::Forward, stream) })
}

/// Runs a batch backward, behind its run forward with the same parameters, inputs and reserve, and the same graphs in the
/// batch. The net was made with isTraining. The reserve may lie elsewhere by then, byte for byte the same. On the host, a
/// reserve of no such run is CUDNN_STATUS_BAD_PARAM; on a device nothing waits to look at it, and gradients are wrong. For
/// the rest see ucudnnRunVertexNetForward.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetBackward(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { runs::run(net, batch, arguments, Asked::Backward, stream) })
}

/// Runs a step of training: forward, the loss, backward, and gradient descent, which writes the parameters
/// (ucudnnRunVertexNetOptimizerStep has other rules). The net was made with a loss. On a device, the labels and the place
/// for the loss are the device's, and labels that are no classes are not in the loss. For the rest see
/// ucudnnRunVertexNetForward.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetStep(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { runs::run(net, batch, arguments, Asked::Step(std::ptr::null()), stream) })
}

/// Runs a step of training as ucudnnRunVertexNetStep does, with an optimizer in place of gradient descent; null for that.
/// All elements of all parameters change, those of an embedding whose rows the batch does not have too.
///
/// CUDNN_STATUS_BAD_PARAM: there is no such rule, or a number is out of its range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetOptimizerStep(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    optimizer: *const ucudnnOptimizer_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    REFUSALS.answered(|| unsafe { runs::run(net, batch, arguments, Asked::Step(optimizer), stream) })
}

/// Gets the canonical text of a net: its sizes and its functions. Writes at most textSizeInBytes bytes to text, the
/// last of them 0, and the number of bytes that the whole text needs to neededSizeInBytes; text may be null if
/// textSizeInBytes is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetText(
    net: ucudnnVertexNet_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    unsafe { write_answer((text, textSizeInBytes, neededSizeInBytes), || nets::text(net)) }
}

/// Gets the executor of a net as text: "host" and its threads; or "batched", and how many groups of passes are one kernel
/// for few rows; before that "persistent" and its blocks forward and backward, if one launch each way may run all levels.
/// For the buffer see ucudnnGetVertexNetText.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetConfiguration(
    net: ucudnnVertexNet_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    unsafe { write_answer((text, textSizeInBytes, neededSizeInBytes), || nets::configuration(net)) }
}

/// Gets the reason of the calling thread's last failure in a function for vertex nets, graphs and batches. Writes at
/// most textSizeInBytes bytes to text, the last of them 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetErrorString(text: *mut c_char, textSizeInBytes: usize) {
    // SAFETY: the program promises the buffer.
    unsafe { REFUSALS.write_last(text, textSizeInBytes) };
}
