//! Gradients of recurrent networks, after `cudnnRNNForward` in training with the same descriptors and reserve.

use super::boundary::refer;
use super::rnn_call::{Call, KEEPS, by_type, check_aligned, given, wanted};
use crate::clock;
use crate::descriptor::RnnDataDescriptor;
use crate::error::{Result, require, support};
use crate::rnn::{self, DataOperands, Stored, WeightOperands};
use cudnn_abi::*;
use std::ffi::c_void;
use std::slice;

/// Computes `dx`, and `dhx` and `dcx` if they are not null. Null `dhy` and `dcy` are zeros, as null `hx` and `cx` are.
/// Padding of `dy` is not read. cuDNN's reference does not say what padding of `dx` becomes: here it is 0. The lengths
/// are the descriptors': `devSeqLengths` is ignored.
///
/// The call uses up the reserve: it leaves there what `cudnnRNNBackwardWeights_v8` reads, and cannot run again on it.
/// As in cuDNN, `hDesc` is not looked at if `dhy` and `dhx` are null, and `cDesc` if `dcy` and `dcx` are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardData_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    devSeqLengths: *const i32,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    dy: *const c_void,
    xDesc: cudnnRNNDataDescriptor_t,
    dx: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    dhy: *const c_void,
    dhx: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    dcy: *const c_void,
    dcx: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let _ = devSeqLengths;
    export!(cudnnRNNBackwardData_v8, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let call = Call::new(handle, rnnDesc, (xDesc, yDesc), true)?;
            if !dhy.is_null() || !dhx.is_null() {
                call.check_h(hDesc)?;
            }
            if !dcy.is_null() || !dcx.is_null() {
                call.check_c(cDesc)?;
            }
            require(!y.is_null() && !dy.is_null() && !dx.is_null(), "data are not null")?;
            call.check_spaces(weightSpace, weightSpaceSize, workSpace, workSpaceSize, reserveSpace, reserveSpaceSize)?;
            let pointers = DataPointers {
                inputs: [y, dy, weightSpace],
                states: [hx, cx],
                last: [dhy, dcy],
                dx,
                first: [dhx, dcx],
                spaces: [workSpace, reserveSpace],
            };
            by_type!(call.backward_data(&pointers))
        }
    })
}

/// Adds the weights' gradients to `dweightSpace`, in the weight space's layout. Reads what `cudnnRNNBackwardData_v8`
/// left in the reserve, which stays as it is. A null `hx` is zeros, and `hDesc` is not looked at then.
///
/// As in cuDNN 9.19, CUDNN_WGRAD_MODE_SET is CUDNN_STATUS_NOT_SUPPORTED, whatever the arguments but `xDesc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardWeights_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    addGrad: cudnnWgradMode_t,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    weightSpaceSize: usize,
    dweightSpace: *mut c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let _ = devSeqLengths;
    export!(cudnnRNNBackwardWeights_v8, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            refer::<RnnDataDescriptor>(xDesc)?;
            support(addGrad != CUDNN_WGRAD_MODE_SET, "gradients of weights are added")?;
            require(addGrad == CUDNN_WGRAD_MODE_ADD, "addGrad is a cudnnWgradMode_t")?;
            let call = Call::new(handle, rnnDesc, (xDesc, yDesc), true)?;
            if !hx.is_null() {
                call.check_h(hDesc)?;
            }
            require(!x.is_null() && !y.is_null(), "data are not null")?;
            call.check_spaces(dweightSpace, weightSpaceSize, workSpace, workSpaceSize, reserveSpace, reserveSpaceSize)?;
            let pointers =
                WeightPointers { inputs: [x, hx, y], dweights: dweightSpace, spaces: [workSpace, reserveSpace] };
            by_type!(call.backward_weights(&pointers))
        }
    })
}

struct DataPointers {
    /// y, dy and the weights.
    inputs: [*const c_void; 3],
    /// hx and cx.
    states: [*const c_void; 2],
    /// dhy and dcy.
    last: [*const c_void; 2],
    dx: *mut c_void,
    /// dhx and dcx.
    first: [*mut c_void; 2],
    spaces: [*mut c_void; 2],
}

struct WeightPointers {
    /// x, hx and y.
    inputs: [*const c_void; 3],
    dweights: *mut c_void,
    spaces: [*mut c_void; 2],
}

impl Call<'_> {
    /// # Safety
    /// `S` is the data's type. Pointers are null or valid for the descriptors' sizes, and results overlap nothing
    /// except, perhaps, the last states' gradients.
    unsafe fn backward_data<S: Stored>(&self, p: &DataPointers) -> Result {
        let [y, dy, weights] = p.inputs;
        let [dhx, dcx] = p.first;
        check_aligned::<S>(&[&p.inputs[..], &p.states, &p.last, &[p.dx.cast_const(), dhx, dcx]].concat())?;
        let (network, sequences) = (&self.network, self.sequences());
        let (rows, [h_len, c_len]) = (sequences.memory_rows(), self.state_lens());
        // SAFETY: the caller promises valid pointers; alignment was checked; states that may be results too are copied.
        unsafe {
            let [states, last] = [p.states, p.last].map(|[h, c]| (given(h, h_len), given(c, c_len)));
            let operands = DataOperands::<S> {
                y: slice::from_raw_parts(y.cast(), rows * network.output()),
                dy: slice::from_raw_parts(dy.cast(), rows * network.output()),
                weights: slice::from_raw_parts(weights.cast(), self.weight_len()),
                hx: states.0.as_deref(),
                cx: states.1.as_deref(),
                dhy: last.0.as_deref(),
                dcy: last.1.as_deref(),
                dx: slice::from_raw_parts_mut(p.dx.cast(), rows * network.input),
                dhx: wanted(dhx, h_len),
                dcx: wanted(dcx, c_len),
            };
            let [workspace, reserve] = p.spaces;
            let (workspace, reserve) = (self.workspace(workspace), self.reserve(reserve));
            rnn::backward_data(network, &sequences, operands, self.has_dropout(), workspace, reserve, *KEEPS);
        }
        clock::count(|| rows as f64 * self.weight_len() as f64);
        Ok(())
    }

    /// # Safety
    /// As for `backward_data`, without overlaps.
    unsafe fn backward_weights<S: Stored>(&self, p: &WeightPointers) -> Result {
        let [x, hx, y] = p.inputs;
        check_aligned::<S>(&[x, hx, y, p.dweights])?;
        let (network, sequences) = (&self.network, self.sequences());
        let rows = sequences.memory_rows();
        // SAFETY: the caller promises valid pointers; alignment was checked.
        unsafe {
            let hx = given(hx, self.state_lens()[0]);
            let operands = WeightOperands::<S> {
                x: slice::from_raw_parts(x.cast(), rows * network.input),
                hx: hx.as_deref(),
                y: slice::from_raw_parts(y.cast(), rows * network.output()),
                dweights: slice::from_raw_parts_mut(p.dweights.cast(), self.weight_len()),
            };
            let [workspace, reserve] = p.spaces;
            let (workspace, reserve) = (self.workspace(workspace), self.reserve(reserve));
            rnn::backward_weights(network, &sequences, operands, self.has_dropout(), workspace, reserve);
        }
        clock::count(|| rows as f64 * self.weight_len() as f64);
        Ok(())
    }
}
