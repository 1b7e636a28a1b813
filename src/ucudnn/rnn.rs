//! Recurrent networks on this library's kernels, called directly.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;

use cudnn_abi::*;

use super::descriptions::write_text;
use super::refusals::{Refusals, null};
use guest::handles::Handles;
use guest::refusal::Refusal;
use recurrent::direct::{self, Arguments, Description};
use recurrent::network::memory::Memory;

/// The cell of a recurrent network. W and R are its matrices, b_W and b_R its biases. s is the logistic function;
/// the operator * multiplies element by element.
pub type ucudnnRnnCell_t = c_int;
/// h' = max(W x + b_W + R h + b_R, 0).
pub const UCUDNN_RNN_RELU: ucudnnRnnCell_t = CUDNN_RNN_RELU;
/// h' = tanh(W x + b_W + R h + b_R).
pub const UCUDNN_RNN_TANH: ucudnnRnnCell_t = CUDNN_RNN_TANH;
/// Gates i, f, g, o, each W x + b_W + R h + b_R: c' = s(f) * c + s(i) * tanh(g), h' = s(o) * tanh(c').
pub const UCUDNN_RNN_LSTM: ucudnnRnnCell_t = CUDNN_LSTM;
/// The GRU of cuDNN and PyTorch: gates r, z, n, with n = tanh(W x + b_W + s(r) * (R h + b_R)) and
/// h' = (1 - s(z)) * n + s(z) * h.
pub const UCUDNN_RNN_GRU: ucudnnRnnCell_t = CUDNN_GRU;
/// The canonical GRU, which cuDNN lacks: like UCUDNN_RNN_GRU, with n = tanh(W x + b_W + R (s(r) * h) + b_R).
pub const UCUDNN_RNN_CANONICAL_GRU: ucudnnRnnCell_t = 16;

/// A network with the kernels that run it on one device.
pub struct ucudnnRnnStruct(());
/// A network from ucudnnCreateRnn, valid until ucudnnDestroyRnn.
pub type ucudnnRnn_t = *mut ucudnnRnnStruct;

/// The description of a network. Unused fields are 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnRnnDescription_t {
    /// A ucudnnRnnCell_t.
    pub cell: ucudnnRnnCell_t,
    /// The type of data, states and weights: CUDNN_DATA_FLOAT, CUDNN_DATA_HALF or CUDNN_DATA_BFLOAT16. Sums are float.
    pub dataType: cudnnDataType_t,
    /// Not 0: products of floats may be rounded to TF32 first.
    pub allowTf32: c_int,
    /// Not 0: the network has biases.
    pub hasBiases: c_int,
    /// Elements of an input vector.
    pub inputSize: c_int,
    /// Elements of a hidden state, H.
    pub hiddenSize: c_int,
    /// The number of layers. Each layer after the first takes the output of the layer before it.
    pub layers: c_int,
    /// 1, or 2 for forwards and backwards. With 2, the next layer takes both outputs, concatenated.
    pub directions: c_int,
    /// The largest batch of a run. Kernels are chosen for it.
    pub maxBatch: c_int,
    /// The most time steps of a run.
    pub maxSteps: c_int,
    /// A text from ucudnnGetRnnConfiguration, or null. With null, the UCUDNN_RNN_TOP_K configurations that a
    /// performance model ranks best are timed on the device, and the fastest is used.
    pub configuration: *const c_char,
}

/// The arguments of a run: memory of the network's device, except lengths. Results must not overlap anything.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnRnnArguments_t {
    /// Packed without gaps. First, for each layer and each of its directions: W [gates][H][elements of the layer's
    /// input] and R [gates][H][H]. Then, if there are biases, for each layer and each of its directions: b_W [gates][H]
    /// and b_R [gates][H]. Gates are in the order of ucudnnRnnCell_t.
    pub weights: *const c_void,
    /// The input: [steps][batch][inputSize], or as the layout says.
    pub x: *const c_void,
    /// The output: [steps][batch][directions * H], or as the layout says. The output after a sequence's end is 0.
    pub y: *mut c_void,
    /// First states: [layers * directions][batch][H], or null for zeros.
    pub hx: *const c_void,
    /// First c: [layers * directions][batch][H], or null for zeros; only for UCUDNN_RNN_LSTM.
    pub cx: *const c_void,
    /// Last states: [layers * directions][batch][H], or null if not wanted.
    pub hy: *mut c_void,
    /// Last c: [layers * directions][batch][H], or null if not wanted; only for UCUDNN_RNN_LSTM.
    pub cy: *mut c_void,
    /// The layout of x and y. 0 is CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED.
    pub layout: cudnnRNNDataLayout_t,
    /// The number of sequences.
    pub batch: c_int,
    /// Time steps of the longest sequence; may be more if sequences are not packed.
    pub steps: c_int,
    /// Steps of each sequence: [batch] numbers from 0 to steps in host memory, which the program may change once the
    /// call returns. Null: every sequence has all steps. Packed sequences are sorted, longest first; the first has all
    /// steps, and none is empty.
    pub lengths: *const c_int,
    /// Memory of at least ucudnnGetRnnWorkspaceSize bytes. Its contents mean nothing before and after a run.
    pub workspace: *mut c_void,
    /// The size of the workspace in bytes.
    pub workspaceSizeInBytes: usize,
}

thread_local! {
    /// The reason of the thread's last failure here.
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

static REFUSALS: Refusals = Refusals::new(&WHY);
static RNNS: Handles<direct::Rnn> = Handles::new();

fn find(rnn: ucudnnRnn_t) -> Result<Arc<direct::Rnn>, Refusal> {
    let unknown = || Refusal::new(CUDNN_STATUS_BAD_PARAM, "rnn is no network, or it was destroyed");
    if rnn.is_null() { Err(null("rnn")) } else { RNNS.find(rnn.addr()).ok_or_else(unknown) }
}

/// Makes a network for the calling thread's current device: compiles kernels, which may take some seconds, and times
/// them in memory that it frees again. The compiler runs on threads of its own, one for each processor, which have ended
/// when the call returns. The calling thread must not be capturing a stream.
///
/// Needs CUDA's driver and NVRTC, but not cuDNN; uses cublasLt if it finds it.
///
/// CUDNN_STATUS_BAD_PARAM: a field has a value that is not accepted. CUDNN_STATUS_NOT_SUPPORTED: no kernel runs the
/// network here. CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. An error makes no
/// network, and ucudnnGetRnnErrorString gives the details.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateRnn(
    rnn: *mut ucudnnRnn_t,
    description: *const ucudnnRnnDescription_t,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        if rnn.is_null() {
            return Err(null("rnn"));
        }
        // SAFETY: null, or the caller promises a description.
        let given = unsafe { description.as_ref() }.ok_or_else(|| null("description"))?;
        // SAFETY: not null, and the caller promises a C string.
        let text = (!given.configuration.is_null()).then(|| unsafe { CStr::from_ptr(given.configuration) });
        let no_text = |_| Refusal::new(CUDNN_STATUS_BAD_PARAM, "configuration is no UTF-8");
        let made = direct::Rnn::new(&Description {
            cell: given.cell,
            data_type: given.dataType,
            allows_tf32: given.allowTf32 != 0,
            has_biases: given.hasBiases != 0,
            input: given.inputSize,
            hidden: given.hiddenSize,
            layers: given.layers,
            directions: given.directions,
            most_batch: given.maxBatch,
            most_steps: given.maxSteps,
            configuration: text.map(CStr::to_str).transpose().map_err(no_text)?,
        })?;
        // SAFETY: not null, and the caller promises a place for the network.
        unsafe { rnn.write(ptr::without_provenance_mut(RNNS.keep(made))) };
        Ok(())
    })
}

/// Destroys a network. None of its runs may be under way any more, on the host or on the device.
///
/// CUDNN_STATUS_BAD_PARAM: rnn is not a network, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyRnn(rnn: ucudnnRnn_t) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        find(rnn)?;
        RNNS.remove(rnn.addr());
        Ok(())
    })
}

unsafe fn size_of_rnn(rnn: ucudnnRnn_t, bytes: *mut usize, read: fn(&direct::Rnn) -> usize) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        if bytes.is_null() {
            return Err(null("bytes"));
        }
        let size = read(&*find(rnn)?);
        // SAFETY: not null, and the caller promises a place for the size.
        unsafe { bytes.write(size) };
        Ok(())
    })
}

/// Gets the size of a network's weights, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnWeightSize(rnn: ucudnnRnn_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: the program promises a place for the size.
    unsafe { size_of_rnn(rnn, bytes, direct::Rnn::weight_bytes) }
}

/// Gets the size of the workspace that each run takes, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnWorkspaceSize(rnn: ucudnnRnn_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: the program promises a place for the size.
    unsafe { size_of_rnn(rnn, bytes, direct::Rnn::workspace_size) }
}

/// Gets the configuration of the network's kernels as text, such as "grid u8 b4 t256 l32 r128".
///
/// Writes at most textSizeInBytes bytes to text, the last of them 0; text may be null if textSizeInBytes is 0. Writes
/// the size of the whole text, in bytes, to neededSizeInBytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnConfiguration(
    rnn: ucudnnRnn_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let rnn = find(rnn)?;
        // SAFETY: the program promises the buffer and the place for its size.
        let is_written = unsafe { write_text((text, textSizeInBytes, neededSizeInBytes), rnn.configuration()) };
        if is_written { Ok(()) } else { Err(null("text or neededSizeInBytes")) }
    })
}

/// Runs a network in the stream's order. The calling thread's current device must be the network's, and the stream one
/// of that device. The call neither waits for the device nor allocates memory on it. A run may be captured into a CUDA
/// graph, which keeps its own copy of lengths; the network may be destroyed before the graph. Several runs of one
/// network may be under way at once, each with its own workspace and results.
///
/// CUDNN_STATUS_BAD_PARAM: the network, a size, a length or the layout is not accepted, or a result overlaps other
/// data. CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND: the batch or the steps exceed the network's maximum.
/// CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: data are not aligned to their type.
/// CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the workspace is too small. CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH: the
/// current device is not the network's. After any of these errors nothing has been written.
/// CUDNN_STATUS_EXECUTION_FAILED: a launch failed, and the results are undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunRnn(
    rnn: ucudnnRnn_t,
    arguments: *const ucudnnRnnArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let rnn = find(rnn)?;
        // SAFETY: null, or the caller promises the arguments.
        let given = unsafe { arguments.as_ref() }.ok_or_else(|| null("arguments"))?;
        let count = usize::try_from(given.batch).unwrap_or(0);
        // SAFETY: not null, and the caller promises `batch` numbers.
        let lengths = (!given.lengths.is_null()).then(|| unsafe { slice::from_raw_parts(given.lengths, count) });
        let memory = Memory {
            x: given.x,
            y: given.y,
            hx: given.hx,
            hy: given.hy,
            cx: given.cx,
            cy: given.cy,
            weight_space: given.weights,
            weight_space_size: rnn.weight_bytes(),
            workspace: given.workspace,
            workspace_size: given.workspaceSizeInBytes,
        };
        let arguments = Arguments { memory, layout: given.layout, batch: given.batch, steps: given.steps, lengths };
        // SAFETY: the program promises the memory that the arguments name, and a stream of the network's device.
        unsafe { rnn.run(&arguments, stream) }
    })
}

/// Gets the reason of the calling thread's last failure in a function for recurrent networks: the error, and the
/// accepted values. Writes at most textSizeInBytes bytes to text, the last of them 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnErrorString(text: *mut c_char, textSizeInBytes: usize) {
    // SAFETY: the program promises the buffer.
    unsafe { REFUSALS.write_last(text, textSizeInBytes) };
}
