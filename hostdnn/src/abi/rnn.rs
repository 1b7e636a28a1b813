//! Running recurrent networks. All algorithms compute the same: `algo` is kept and never refused here, even where cuDNN
//! reports that its persistent kernels do not fit.

use super::boundary::{context, refer, write};
use super::rnn_weights::weight_bytes;
use crate::clock;
use crate::descriptor::{RnnDataDescriptor, RnnDescriptor, TensorDescriptor};
use crate::error::{Error, Result, require};
use crate::rnn::{self, Dropout, Layout, Network, Operands, STATES_BYTES, Sequences, Stored};
use cudnn_abi::*;
use half::{bf16, f16};
use std::ffi::c_void;
use std::slice;

/// Bytes for sequences of `xDesc`'s number and length. Null results are skipped. Inference needs no reserve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: cudnnForwardMode_t,
    xDesc: cudnnRNNDataDescriptor_t,
    workSpaceSize: *mut usize,
    reserveSpaceSize: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetRNNTempSpaceSizes, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer::<RnnDescriptor>(rnnDesc)?;
            let x = refer::<RnnDataDescriptor>(xDesc)?;
            let training = is_training(fwdMode)?;
            let network = network(descriptor)?;
            check_input(descriptor, x)?;
            let [workspace, reserve] = temp_bytes(descriptor, &network, x, training)?;
            for (to, size) in [(workSpaceSize, workspace), (reserveSpaceSize, reserve)] {
                if !to.is_null() {
                    write(to, size)?;
                }
            }
        }
        Ok(())
    })
}

/// The lengths are the descriptors': `devSeqLengths` is ignored. A sequence of length 0 ends in its initial state.
/// Training computes as inference does and writes a reserve. It also applies dropout between layers if the RNN's
/// dropout descriptor says so, with the states from when the RNN descriptor was set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNForward(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: cudnnForwardMode_t,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    hy: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    cy: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let _ = devSeqLengths;
    export!(cudnnRNNForward, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer::<RnnDescriptor>(rnnDesc)?;
            let (x_data, y_data) = (refer::<RnnDataDescriptor>(xDesc)?, refer::<RnnDataDescriptor>(yDesc)?);
            let training = is_training(fwdMode)?;
            let network = network(descriptor)?;
            check_data(descriptor, &network, x_data, y_data)?;
            let states = [network.pseudo_layers(), x_data.lengths().len()];
            if !hx.is_null() || !hy.is_null() {
                check_state(refer(hDesc)?, [states[0], states[1], network.projection])?;
            }
            if !cx.is_null() || !cy.is_null() {
                check_state(refer(cDesc)?, [states[0], states[1], network.hidden])?;
            }
            require(!x.is_null() && !y.is_null() && !weightSpace.is_null(), "data and weights are not null")?;
            require(weightSpaceSize >= weight_bytes(descriptor, &network)?, "the weight space is large enough")?;
            let [workspace, reserve] = temp_bytes(descriptor, &network, x_data, training)?;
            require(!workSpace.is_null() && workSpaceSize >= workspace, "the workspace is large enough")?;
            require(
                reserve == 0 || (!reserveSpace.is_null() && reserveSpaceSize >= reserve),
                "the reserve is large enough",
            )?;
            let call = Call {
                dropout: if training { dropout(descriptor, &network)? } else { None },
                network,
                x_data,
                y_data,
                pointers: Pointers { x, y, hx, hy, cx, cy, weightSpace, workSpace, reserveSpace },
                training,
            };
            match x_data.data_type() {
                CUDNN_DATA_FLOAT => call.run::<f32>(),
                CUDNN_DATA_DOUBLE => call.run::<f64>(),
                CUDNN_DATA_HALF => call.run::<f16>(),
                _ => call.run::<bf16>(),
            }
        }
    })
}

fn is_training(mode: cudnnForwardMode_t) -> Result<bool> {
    let known = matches!(mode, CUDNN_FWD_MODE_INFERENCE | CUDNN_FWD_MODE_TRAINING);
    require(known, "fwdMode is a cudnnForwardMode_t")?;
    Ok(mode == CUDNN_FWD_MODE_TRAINING)
}

fn network(descriptor: &RnnDescriptor) -> Result<Network> {
    let unset = || Error::new(CUDNN_STATUS_BAD_PARAM, "violated: the RNN descriptor is set");
    let network = descriptor.network().ok_or_else(unset)?;
    weight_bytes(descriptor, &network)?;
    Ok(network)
}

/// Bytes of workspace and reserve. The workspace includes room to align it, whatever its address.
fn temp_bytes(d: &RnnDescriptor, network: &Network, x: &RnnDataDescriptor, training: bool) -> Result<[usize; 2]> {
    let number = if d.settings()?.data_type == CUDNN_DATA_DOUBLE { size_of::<f64>() } else { size_of::<f32>() };
    let (steps, batch) = (x.extents()[0] as usize, x.lengths().len());
    let workspace = rnn::workspace_len(network, steps, batch, training);
    let reserve = if training { rnn::reserve_len(network, steps, batch) } else { Some(0) };
    match (workspace, reserve) {
        (Some(workspace), Some(0)) => Ok([(workspace + 1) * number, 0]),
        (Some(workspace), Some(reserve)) => Ok([(workspace + 1) * number, (reserve + 1) * number]),
        _ => Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED, "more temporary numbers than memory has addresses for")),
    }
}

fn check_input(descriptor: &RnnDescriptor, x: &RnnDataDescriptor) -> Result {
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

/// The probability and the states' address, if dropout applies.
fn dropout(descriptor: &RnnDescriptor, network: &Network) -> Result<Option<(f32, usize)>> {
    let dropout = descriptor.settings()?.dropout;
    if network.layers == 1 || dropout.probability == 0.0 {
        return Ok(None);
    }
    require((0.0..=1.0).contains(&dropout.probability), "dropout has a probability")?;
    require(dropout.states != 0, "dropout has states")?;
    Ok(Some((dropout.probability, dropout.states)))
}

struct Pointers {
    x: *const c_void,
    y: *mut c_void,
    hx: *const c_void,
    hy: *mut c_void,
    cx: *const c_void,
    cy: *mut c_void,
    weightSpace: *const c_void,
    workSpace: *mut c_void,
    reserveSpace: *mut c_void,
}

/// A call that has passed all checks.
struct Call<'a> {
    network: Network,
    x_data: &'a RnnDataDescriptor,
    y_data: &'a RnnDataDescriptor,
    pointers: Pointers,
    training: bool,
    dropout: Option<(f32, usize)>,
}

impl Call<'_> {
    /// # Safety
    /// `S` is the data's type. Pointers are null or valid for the descriptors' sizes, and results overlap nothing
    /// except, perhaps, the initial states.
    unsafe fn run<S: Stored>(&self) -> Result {
        let Self { network, x_data, pointers: p, .. } = self;
        let aligned = [p.x, p.y, p.hx, p.hy, p.cx, p.cy, p.weightSpace];
        require(aligned.iter().all(|&p| p.cast::<S>().is_aligned()), "data are aligned to their type")?;
        let layout = match x_data.layout() {
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED => Layout::SequenceMajor,
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED => Layout::Packed,
            _ => Layout::BatchMajor,
        };
        let (steps, batch) = (x_data.extents()[0] as usize, x_data.lengths().len());
        let lengths = x_data.lengths().iter().map(|&length| length as usize).collect();
        let sequences = Sequences::new(layout, steps, lengths);
        let (rows, states) = (sequences.memory_rows(), network.pseudo_layers() * batch);
        let (h_len, c_len) = (states * network.projection, states * network.hidden);
        let workspace_len = rnn::workspace_len(network, steps, batch, self.training).unwrap_or(0);
        let reserve_len = rnn::reserve_len(network, steps, batch).unwrap_or(0);
        // SAFETY: the caller promises valid pointers; alignment was checked; states that may be results too are copied.
        unsafe {
            let initial = |from: *const c_void, len| {
                (!from.is_null()).then(|| slice::from_raw_parts(from.cast::<S>(), len).to_vec())
            };
            let (hx, cx) = (initial(p.hx, h_len), initial(p.cx, if network.has_cell_state() { c_len } else { 0 }));
            let last = |to: *mut c_void, len| (!to.is_null()).then(|| slice::from_raw_parts_mut(to.cast::<S>(), len));
            let operands = Operands {
                x: slice::from_raw_parts(p.x.cast(), rows * network.input),
                weights: slice::from_raw_parts(p.weightSpace.cast(), network.weight_count().unwrap_or(0)),
                hx: hx.as_deref(),
                cx: cx.as_deref(),
                y: slice::from_raw_parts_mut(p.y.cast(), rows * network.output()),
                padding_fill: self.y_data.padding_fill().as_ptr().cast::<S>().read_unaligned(),
                hy: last(p.hy, h_len),
                cy: last(p.cy, if network.has_cell_state() { c_len } else { 0 }),
            };
            let dropout = self.dropout.map(|(probability, states)| Dropout {
                probability,
                states: &mut *(states as *mut [u8; STATES_BYTES]),
            });
            let workspace = numbers::<S>(p.workSpace, workspace_len);
            let reserve = self.training.then(|| numbers::<S>(p.reserveSpace, reserve_len));
            rnn::forward(network, &sequences, operands, dropout, workspace, reserve);
        }
        // Each row meets each weight once.
        clock::count(|| rows as f64 * network.weight_count().unwrap_or(0) as f64);
        Ok(())
    }
}

/// The numbers in a temporary space, from its first aligned byte.
///
/// # Safety
/// The space is valid for `len` + 1 numbers, and nobody else uses it.
unsafe fn numbers<'a, S: Stored>(space: *mut c_void, len: usize) -> &'a mut [S::Number] {
    let number = size_of::<S::Number>();
    // SAFETY: the caller promises `len` + 1 numbers; the extra one is room to align the first.
    unsafe {
        let first = space.byte_add(space.addr().next_multiple_of(number) - space.addr());
        slice::from_raw_parts_mut(first.cast(), len)
    }
}
