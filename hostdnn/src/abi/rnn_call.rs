//! What the RNN calls that compute have in common: their checks, and the program's memory.

use super::boundary::{context, refer};
use super::rnn_weights::weight_bytes;
use crate::descriptor::{RnnDataDescriptor, RnnDescriptor, TensorDescriptor};
use crate::error::{Error, Result, require};
use crate::rnn::{self, Keeps, Layout, Network, Sequences, Stored};
use cudnn_abi::*;
use std::ffi::c_void;
use std::slice;
use std::sync::LazyLock;

/// Calls a method that is generic over the type of the data.
macro_rules! by_type {
    ($call:ident.$method:ident($($argument:expr),*)) => {
        match $call.x.data_type() {
            CUDNN_DATA_FLOAT => $call.$method::<f32>($($argument),*),
            CUDNN_DATA_DOUBLE => $call.$method::<f64>($($argument),*),
            CUDNN_DATA_HALF => $call.$method::<half::f16>($($argument),*),
            _ => $call.$method::<half::bf16>($($argument),*),
        }
    };
}
pub(super) use by_type;

/// What reserves keep: `HOSTDNN_RNN_RESERVE` is `numbers`, which is also the default, or `elements`.
pub static KEEPS: LazyLock<Keeps> = LazyLock::new(|| match std::env::var("HOSTDNN_RNN_RESERVE").as_deref() {
    Ok("elements") => Keeps::Elements,
    Err(_) | Ok("numbers") => Keeps::Numbers,
    Ok(text) => {
        eprintln!(
            "hostdnn: HOSTDNN_RNN_RESERVE={text:?} is not understood: it takes numbers or elements; it is numbers"
        );
        Keeps::Numbers
    }
});

/// The descriptors of a call, which go with each other.
pub struct Call<'a> {
    pub descriptor: &'a RnnDescriptor,
    pub network: Network,
    pub x: &'a RnnDataDescriptor,
    pub y: &'a RnnDataDescriptor,
    pub training: bool,
}

impl<'a> Call<'a> {
    /// # Safety
    /// Each pointer is null or valid by cuDNN's contract.
    pub unsafe fn new(
        handle: cudnnHandle_t,
        rnn: cudnnRNNDescriptor_t,
        (x, y): (cudnnRNNDataDescriptor_t, cudnnRNNDataDescriptor_t),
        training: bool,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let (descriptor, x, y) = unsafe {
            context(handle)?;
            (refer::<RnnDescriptor>(rnn)?, refer::<RnnDataDescriptor>(x)?, refer::<RnnDataDescriptor>(y)?)
        };
        let network = network(descriptor)?;
        check_data(descriptor, &network, x, y)?;
        Ok(Self { descriptor, network, x, y, training })
    }

    /// Checks the descriptor of hidden states.
    ///
    /// # Safety
    /// It is null or valid by cuDNN's contract.
    pub unsafe fn check_h(&self, h: cudnnTensorDescriptor_t) -> Result {
        // SAFETY: the caller's promise.
        check_state(unsafe { refer(h) }?, [self.network.pseudo_layers(), self.batch(), self.network.projection])
    }

    /// Checks the descriptor of cell states.
    ///
    /// # Safety
    /// It is null or valid by cuDNN's contract.
    pub unsafe fn check_c(&self, c: cudnnTensorDescriptor_t) -> Result {
        // SAFETY: the caller's promise.
        check_state(unsafe { refer(c) }?, [self.network.pseudo_layers(), self.batch(), self.network.hidden])
    }

    /// Checks the weight space, the workspace and the reserve, each with its size.
    pub fn check_spaces(
        &self,
        (weights, weight_size): (*const c_void, usize),
        (workspace, workspace_size): (*mut c_void, usize),
        (reserve, reserve_size): (*mut c_void, usize),
    ) -> Result {
        require(!weights.is_null(), "weights are not null")?;
        require(weight_size >= weight_bytes(self.descriptor, &self.network)?, "the weight space is large enough")?;
        let [workspace_least, reserve_least] = temp_bytes(self.descriptor, &self.network, self.x, self.training)?;
        require(!workspace.is_null() && workspace_size >= workspace_least, "the workspace is large enough")?;
        let suffices = reserve_least == 0 || (!reserve.is_null() && reserve_size >= reserve_least);
        require(suffices, "the reserve is large enough")
    }

    /// B.
    pub fn batch(&self) -> usize {
        self.x.lengths().len()
    }

    pub fn sequences(&self) -> Sequences {
        let layout = match self.x.layout() {
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED => Layout::SequenceMajor,
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED => Layout::Packed,
            _ => Layout::BatchMajor,
        };
        let lengths = self.x.lengths().iter().map(|&length| length as usize).collect();
        Sequences::new(layout, self.x.extents()[0] as usize, lengths)
    }

    /// Elements of all hidden states, and of all cell states: 0 for cells without them.
    pub fn state_lens(&self) -> [usize; 2] {
        let states = self.network.pseudo_layers() * self.batch();
        let hidden = if self.network.has_cell_state() { self.network.hidden } else { 0 };
        [states * self.network.projection, states * hidden]
    }

    /// Elements of the weight space.
    pub fn weight_len(&self) -> usize {
        self.network.weight_count().unwrap_or(0)
    }

    /// Returns whether there is dropout between layers.
    pub fn has_dropout(&self) -> bool {
        has_dropout(self.descriptor, &self.network)
    }

    /// The workspace's numbers.
    ///
    /// # Safety
    /// As [`numbers`], for the size that was checked.
    pub unsafe fn workspace<N>(&self, space: *mut c_void) -> &'a mut [N] {
        let (steps, batch) = (self.x.extents()[0] as usize, self.batch());
        let len = rnn::workspace_len(&self.network, steps, batch, self.training).unwrap_or(0);
        // SAFETY: the caller's promise.
        unsafe { numbers(space, len) }
    }

    /// The reserve's numbers.
    ///
    /// # Safety
    /// As [`numbers`], for the size that was checked.
    pub unsafe fn reserve<N>(&self, space: *mut c_void) -> &'a mut [N] {
        let (steps, batch) = (self.x.extents()[0] as usize, self.batch());
        let len = rnn::reserve_len(&self.network, steps, batch, self.has_dropout()).unwrap_or(0);
        // SAFETY: the caller's promise.
        unsafe { numbers(space, len) }
    }
}

/// The numbers in a temporary space, from its first aligned byte.
///
/// # Safety
/// The space is valid for `len` + 1 numbers, and nobody else uses it.
unsafe fn numbers<'a, N>(space: *mut c_void, len: usize) -> &'a mut [N] {
    let number = size_of::<N>();
    // SAFETY: the caller promises `len` + 1 numbers; the extra one is room to align the first.
    unsafe {
        let first = space.byte_add(space.addr().next_multiple_of(number) - space.addr());
        slice::from_raw_parts_mut(first.cast(), len)
    }
}

/// A copy of states that may be given, in memory that may be a result's too.
///
/// # Safety
/// The pointer is null or aligned and valid for as many reads.
pub unsafe fn given<S: Stored>(from: *const c_void, len: usize) -> Option<Vec<S>> {
    // SAFETY: the caller's promise.
    (!from.is_null()).then(|| unsafe { slice::from_raw_parts(from.cast::<S>(), len) }.to_vec())
}

/// Results that may be asked for.
///
/// # Safety
/// The pointer is null or aligned and valid for as many writes, and nobody else uses the memory.
pub unsafe fn wanted<'a, S: Stored>(to: *mut c_void, len: usize) -> Option<&'a mut [S]> {
    // SAFETY: the caller's promise.
    (!to.is_null()).then(|| unsafe { slice::from_raw_parts_mut(to.cast::<S>(), len) })
}

pub fn check_aligned<S>(pointers: &[*const c_void]) -> Result {
    require(pointers.iter().all(|&p| p.cast::<S>().is_aligned()), "data are aligned to their type")
}

pub fn is_training(mode: cudnnForwardMode_t) -> Result<bool> {
    let known = matches!(mode, CUDNN_FWD_MODE_INFERENCE | CUDNN_FWD_MODE_TRAINING);
    require(known, "fwdMode is a cudnnForwardMode_t")?;
    Ok(mode == CUDNN_FWD_MODE_TRAINING)
}

/// The network of a descriptor that is set.
pub fn network(descriptor: &RnnDescriptor) -> Result<Network> {
    let unset = || Error::new(CUDNN_STATUS_BAD_PARAM, "violated: the RNN descriptor is set");
    let network = descriptor.network().ok_or_else(unset)?;
    weight_bytes(descriptor, &network)?;
    Ok(network)
}

fn has_dropout(descriptor: &RnnDescriptor, network: &Network) -> bool {
    network.layers > 1 && descriptor.settings().is_ok_and(|settings| settings.dropout.probability != 0.0)
}

/// Bytes of workspace and reserve. Both include room to align them, whatever their address.
pub fn temp_bytes(d: &RnnDescriptor, network: &Network, x: &RnnDataDescriptor, training: bool) -> Result<[usize; 2]> {
    let number = if d.settings()?.data_type == CUDNN_DATA_DOUBLE { size_of::<f64>() } else { size_of::<f32>() };
    let (steps, batch) = (x.extents()[0] as usize, x.lengths().len());
    let workspace = rnn::workspace_len(network, steps, batch, training);
    let reserve = if training { rnn::reserve_len(network, steps, batch, has_dropout(d, network)) } else { Some(0) };
    match (workspace, reserve) {
        (Some(workspace), Some(0)) => Ok([(workspace + 1) * number, 0]),
        (Some(workspace), Some(reserve)) => Ok([(workspace + 1) * number, (reserve + 1) * number]),
        _ => Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED, "more temporary numbers than memory has addresses for")),
    }
}

pub fn check_input(descriptor: &RnnDescriptor, x: &RnnDataDescriptor) -> Result {
    let settings = descriptor.settings()?;
    require(x.data_type() == settings.data_type, "data are of the RNN's type")?;
    require(x.extents()[2] == settings.sizes[0], "x has vectors of inputSize")
}

fn check_data(descriptor: &RnnDescriptor, network: &Network, x: &RnnDataDescriptor, y: &RnnDataDescriptor) -> Result {
    let settings = descriptor.settings()?;
    check_input(descriptor, x)?;
    let ([steps, batch, _], [y_steps, y_batch, output]) = (x.extents(), y.extents());
    require(x.data_type() == y.data_type(), "x and y have one type")?;
    require(x.layout() == y.layout(), "x and y have one layout")?;
    require((steps, batch) == (y_steps, y_batch) && x.lengths() == y.lengths(), "x and y have the same lengths")?;
    require(output as usize == network.output(), "y has vectors of projSize for each direction")?;
    require(!network.skip_input || network.input == network.hidden, "a skipped input has hiddenSize")?;
    let full = x.lengths().iter().all(|&length| length == steps);
    require(
        match x.layout() {
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED => true,
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED if full => true,
            _ => settings.flags & CUDNN_RNN_PADDED_IO_ENABLED != 0,
        },
        "data with padding goes with CUDNN_RNN_PADDED_IO_ENABLED",
    )
}

/// States are packed; their type is ignored, as in cuDNN.
fn check_state(tensor: &TensorDescriptor, shape: [usize; 3]) -> Result {
    let dims = tensor.dims();
    let equal = dims.len() >= 3 && dims[..3].iter().zip(shape).all(|(&dim, extent)| dim as usize == extent);
    require(equal && dims[3..].iter().all(|&dim| dim == 1), "a state is [layers · directions, batch, size]")?;
    // The stride of a single element does not matter.
    let packed = [dims[1] * dims[2], dims[2], 1];
    let alike = |i: usize| dims[i] == 1 || tensor.strides()[i] == packed[i];
    require((0..3).all(alike), "a state is packed")
}
