//! Recurrent networks on this library's kernels, by a direct call.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::slice;

use cudnn_abi::*;

use super::descriptions::write_text;
use crate::boundary::guarded;
use recurrent::direct::{self, Arguments, Description, Refusal, handles};
use recurrent::memory::Memory;

/// The cell of a recurrent network. W and R are its matrices, b_W and b_R its biases; s is the logistic
/// function, and * multiplies element by element.
pub type ucudnnRnnCell_t = c_int;
/// h' = max(W x + b_W + R h + b_R, 0).
pub const UCUDNN_RNN_RELU: ucudnnRnnCell_t = CUDNN_RNN_RELU;
/// h' = tanh(W x + b_W + R h + b_R).
pub const UCUDNN_RNN_TANH: ucudnnRnnCell_t = CUDNN_RNN_TANH;
/// Gates i, f, g, o, each of W x + b_W + R h + b_R: c' = s(f) * c + s(i) * tanh(g), h' = s(o) * tanh(c').
pub const UCUDNN_RNN_LSTM: ucudnnRnnCell_t = CUDNN_LSTM;
/// cuDNN's and PyTorch's: gates r, z, n, with n = tanh(W x + b_W + s(r) * (R h + b_R)) and
/// h' = (1 - s(z)) * n + s(z) * h.
pub const UCUDNN_RNN_GRU: ucudnnRnnCell_t = CUDNN_GRU;
/// The canonical one, which cuDNN does not have: as UCUDNN_RNN_GRU, with n = tanh(W x + b_W + R (s(r) * h) + b_R).
pub const UCUDNN_RNN_CANONICAL_GRU: ucudnnRnnCell_t = 16;

/// A network with the kernels that run it, on one device.
pub struct ucudnnRnnStruct(());
/// Made by ucudnnCreateRnn, and valid until ucudnnDestroyRnn.
pub type ucudnnRnn_t = *mut ucudnnRnnStruct;

/// What a network is made from. Fields that are not used are 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnRnnDescription_t {
    /// One of ucudnnRnnCell_t.
    pub cell: ucudnnRnnCell_t,
    /// Of data, states and weights: CUDNN_DATA_FLOAT, CUDNN_DATA_HALF or CUDNN_DATA_BFLOAT16. Sums are float.
    pub dataType: cudnnDataType_t,
    /// Not 0: floats may be rounded to TF32 where they are multiplied.
    pub allowTf32: c_int,
    /// Not 0: there are biases.
    pub hasBiases: c_int,
    /// Elements of an input vector.
    pub inputSize: c_int,
    /// Elements of a hidden state, H.
    pub hiddenSize: c_int,
    /// Each but the first takes the output of the one before it.
    pub layers: c_int,
    /// 1, or 2: forwards and backwards, and the next layer takes both outputs, one behind the other.
    pub directions: c_int,
    /// The largest batch that a run may bring. Kernels are chosen for it.
    pub maxBatch: c_int,
    /// The most time steps that a run may bring.
    pub maxSteps: c_int,
    /// Null: the fastest of those that a performance model ranks best (UCUDNN_RNN_TOP_K of them), by their
    /// times on the device. Else what ucudnnGetRnnConfiguration wrote.
    pub configuration: *const c_char,
}

/// What a run is handed: memory of the network's device, but for `lengths`. Results overlap nothing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnRnnArguments_t {
    /// With nothing between them: of each layer, and in it of each direction, W [gates][H][elements of the
    /// layer's input] and R [gates][H][H]; and behind all of these, where there are biases, of each layer and
    /// direction b_W [gates][H] and b_R [gates][H]. Gates are in the order in which ucudnnRnnCell_t names them.
    pub weights: *const c_void,
    /// [steps][batch][inputSize], or as the layout says.
    pub x: *const c_void,
    /// [steps][batch][directions * H], likewise. What is behind a sequence's end is 0.
    pub y: *mut c_void,
    /// First states: [layers * directions][batch][H], or null for zeros.
    pub hx: *const c_void,
    /// First c, likewise; of UCUDNN_RNN_LSTM alone.
    pub cx: *const c_void,
    /// Last states, likewise; null where they are not wanted.
    pub hy: *mut c_void,
    /// Last c, likewise; of UCUDNN_RNN_LSTM alone.
    pub cy: *mut c_void,
    /// How x and y lie. 0 is CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED.
    pub layout: cudnnRNNDataLayout_t,
    /// Sequences.
    pub batch: c_int,
    /// Time steps of the longest sequence, or more where sequences are not packed.
    pub steps: c_int,
    /// Steps of each sequence: [batch] numbers from 0 to steps in the program's own memory, which may change
    /// once the call has returned. Null: all have as many as there are. Packed sequences are sorted, the
    /// longest first, which has all steps, and none is empty.
    pub lengths: *const c_int,
    /// What ucudnnGetRnnWorkspaceSize says, or more. What it holds means nothing before and after a run.
    pub workspace: *mut c_void,
    /// The bytes of workspace that there are.
    pub workspaceSizeInBytes: usize,
}

thread_local! {
    /// Why the thread's last call here failed.
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The status of a function's body; what it refuses is kept for `ucudnnGetRnnErrorString`.
fn answered(body: impl FnOnce() -> Result<(), Refusal>) -> cudnnStatus_t {
    let body = || match body() {
        Ok(()) => CUDNN_STATUS_SUCCESS,
        Err(Refusal { status, why }) => {
            keep(why);
            status
        }
    };
    guarded(body, || {
        keep("a failure inside ucudnn; nothing was run".into());
        CUDNN_STATUS_INTERNAL_ERROR
    })
}

/// A thread that is about to end keeps nothing any more.
fn keep(why: String) {
    let _ = WHY.try_with(|place| *place.borrow_mut() = why);
}

fn null(name: &str) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, format!("{name} is null"))
}

fn find(rnn: ucudnnRnn_t) -> Result<std::sync::Arc<direct::Rnn>, Refusal> {
    let unknown = || Refusal::new(CUDNN_STATUS_BAD_PARAM, "rnn is no network, or it was destroyed");
    if rnn.is_null() { Err(null("rnn")) } else { handles::find(rnn.addr()).ok_or_else(unknown) }
}

/// Makes a network for the calling thread's current device: compiles kernels for it, which may take some
/// seconds, and times them in memory that is freed again. Not while the calling thread captures a stream.
///
/// cuDNN is not needed; CUDA's driver and NVRTC are, and cublasLt is used where it is found.
///
/// CUDNN_STATUS_BAD_PARAM: a field has a value that is not accepted. CUDNN_STATUS_NOT_SUPPORTED: no kernel
/// runs it here. CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. No network is
/// made then; ucudnnGetRnnErrorString tells more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateRnn(
    rnn: *mut ucudnnRnn_t,
    description: *const ucudnnRnnDescription_t,
) -> cudnnStatus_t {
    answered(|| {
        if rnn.is_null() {
            return Err(null("rnn"));
        }
        // SAFETY: null, or the caller's.
        let given = unsafe { description.as_ref() }.ok_or_else(|| null("description"))?;
        // SAFETY: null, or a C string of the caller's.
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
        // SAFETY: not null, and the caller's.
        unsafe { rnn.write(ptr::without_provenance_mut(handles::keep(made))) };
        Ok(())
    })
}

/// Destroys a network, of which no run is under way any more, on the host or on the device.
///
/// CUDNN_STATUS_BAD_PARAM: it is none, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyRnn(rnn: ucudnnRnn_t) -> cudnnStatus_t {
    answered(|| {
        find(rnn)?;
        handles::remove(rnn.addr());
        Ok(())
    })
}

unsafe fn size_of_rnn(rnn: ucudnnRnn_t, bytes: *mut usize, read: fn(&direct::Rnn) -> usize) -> cudnnStatus_t {
    answered(|| {
        if bytes.is_null() {
            return Err(null("bytes"));
        }
        let size = read(&*find(rnn)?);
        // SAFETY: not null, and the caller's.
        unsafe { bytes.write(size) };
        Ok(())
    })
}

/// The bytes of a network's weights.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnWeightSize(rnn: ucudnnRnn_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: as ours.
    unsafe { size_of_rnn(rnn, bytes, direct::Rnn::weight_bytes) }
}

/// The bytes of workspace that each run takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnWorkspaceSize(rnn: ucudnnRnn_t, bytes: *mut usize) -> cudnnStatus_t {
    // SAFETY: as ours.
    unsafe { size_of_rnn(rnn, bytes, direct::Rnn::workspace_size) }
}

/// Tells by a text such as "grid u8 b4 t256 l32 r128" for what the network's kernels were compiled.
///
/// Writes at most textSizeInBytes bytes into the caller's text, the last of them 0 (text may be null
/// if that is 0), and the bytes that the whole text takes into neededSizeInBytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnConfiguration(
    rnn: ucudnnRnn_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    answered(|| {
        let rnn = find(rnn)?;
        // SAFETY: as ours.
        let is_written = unsafe { write_text((text, textSizeInBytes, neededSizeInBytes), rnn.configuration()) };
        if is_written { Ok(()) } else { Err(null("text or neededSizeInBytes")) }
    })
}

/// Runs a network in the stream's order. The calling thread's current device is the network's, and the stream
/// one of that device. Nothing waits for the device, no memory of it is allocated, and the run may be captured
/// into a CUDA graph, which keeps its own copy of `lengths`; the network may be destroyed before the graph.
/// Runs of one network may be under way at once, each with its own workspace and results.
///
/// CUDNN_STATUS_BAD_PARAM: the network, a size, a length or the layout is not accepted, or a result overlaps
/// other data. CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND: the batch or the steps are more than the network was made
/// for. CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: data are not aligned to their type.
/// CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the workspace is too small.
/// CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH: the device is another. Nothing is written then.
/// CUDNN_STATUS_EXECUTION_FAILED: a launch failed; results are not to be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunRnn(
    rnn: ucudnnRnn_t,
    arguments: *const ucudnnRnnArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    answered(|| {
        let rnn = find(rnn)?;
        // SAFETY: null, or the caller's.
        let given = unsafe { arguments.as_ref() }.ok_or_else(|| null("arguments"))?;
        let count = usize::try_from(given.batch).unwrap_or(0);
        // SAFETY: null, or as many numbers of the caller's.
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
        // SAFETY: as ours.
        unsafe { rnn.run(&arguments, stream) }
    })
}

/// Why the calling thread's last failed call of these functions for recurrent networks failed: what was wrong,
/// and what is accepted. Writes at most textSizeInBytes bytes, the last of them 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetRnnErrorString(text: *mut c_char, textSizeInBytes: usize) {
    let mut needed = 0;
    let read = || {
        let why = WHY.try_with(|why| why.borrow().clone()).unwrap_or_default();
        // SAFETY: as ours.
        unsafe { write_text((text, textSizeInBytes, &mut needed), &why) };
        CUDNN_STATUS_SUCCESS
    };
    guarded(read, || CUDNN_STATUS_INTERNAL_ERROR);
}
