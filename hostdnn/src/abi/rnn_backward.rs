//! Gradients of recurrent networks, after `cudnnRNNForward` in training with the same descriptors and reserve.

use super::boundary::refer;
use super::entries::*;
use super::rnn_call::{Call, KEEPS, by_type, check_aligned, given, wanted};
use crate::clock;
use crate::descriptor::RnnDataDescriptor;
use crate::error::{Result, require, support};
use crate::rnn::{self, DataOperands, Stored, WeightOperands};
use cudnn_abi::*;
use std::slice;

/// Computes `dx`, and `dhx` and `dcx` if they are not null. Null `dhy` and `dcy` are zeros, as null `hx` and `cx` are.
/// Padding of `dy` is not read. cuDNN's reference does not say what padding of `dx` becomes: here it is 0. The lengths
/// are the descriptors': `device_lengths` is ignored.
///
/// The call uses up the reserve: it leaves there what `cudnnRNNBackwardWeights_v8` reads, and cannot run again on it.
/// As in cuDNN, `h_descriptor` is not looked at if `dhy` and `dhx` are null, and `c_descriptor` if `dcy` and `dcx` are.
impl Answer for cudnnRNNBackwardData_v8 {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let call = Call::new(self.handle, self.descriptor, (self.x_descriptor, self.y_descriptor), true)?;
            if !self.dhy.is_null() || !self.dhx.is_null() {
                call.check_h(self.h_descriptor)?;
            }
            if !self.dcy.is_null() || !self.dcx.is_null() {
                call.check_c(self.c_descriptor)?;
            }
            require(!self.y.is_null() && !self.dy.is_null() && !self.dx.is_null(), "data are not null")?;
            call.check_spaces(
                (self.weight_space, self.weight_space_size),
                (self.workspace, self.workspace_size),
                (self.reserve, self.reserve_size),
            )?;
            by_type!(call.backward_data(&self))
        }
    }
}

/// Adds the weights' gradients to `dweights`, in the weight space's layout. Reads what `cudnnRNNBackwardData_v8`
/// left in the reserve, which stays as it is. A null `hx` is zeros, and `h_descriptor` is not looked at then.
///
/// As in cuDNN 9.19, CUDNN_WGRAD_MODE_SET is CUDNN_STATUS_NOT_SUPPORTED, whatever the arguments but `x_descriptor`.
impl Answer for cudnnRNNBackwardWeights_v8 {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            refer::<RnnDataDescriptor>(self.x_descriptor)?;
            support(self.mode != CUDNN_WGRAD_MODE_SET, "gradients of weights are added")?;
            require(self.mode == CUDNN_WGRAD_MODE_ADD, "addGrad is a cudnnWgradMode_t")?;
            let call = Call::new(self.handle, self.descriptor, (self.x_descriptor, self.y_descriptor), true)?;
            if !self.hx.is_null() {
                call.check_h(self.h_descriptor)?;
            }
            require(!self.x.is_null() && !self.y.is_null(), "data are not null")?;
            call.check_spaces(
                (self.dweights, self.weight_space_size),
                (self.workspace, self.workspace_size),
                (self.reserve, self.reserve_size),
            )?;
            by_type!(call.backward_weights(&self))
        }
    }
}

impl Call<'_> {
    /// # Safety
    /// `S` is the data's type. Pointers are null or valid for the descriptors' sizes, and results overlap nothing
    /// except, perhaps, the last states' gradients.
    unsafe fn backward_data<S: Stored>(&self, p: &cudnnRNNBackwardData_v8) -> Result {
        check_aligned::<S>(&[p.y, p.dy, p.weight_space, p.hx, p.cx, p.dhy, p.dcy, p.dx, p.dhx, p.dcx])?;
        let (network, sequences) = (&self.network, self.sequences());
        let (rows, [h_len, c_len]) = (sequences.memory_rows(), self.state_lens());
        // SAFETY: the caller promises valid pointers; alignment was checked; states that may be results too are copied.
        unsafe {
            let [states, last] = [(p.hx, p.cx), (p.dhy, p.dcy)].map(|(h, c)| (given(h, h_len), given(c, c_len)));
            let operands = DataOperands::<S> {
                y: slice::from_raw_parts(p.y.cast(), rows * network.output()),
                dy: slice::from_raw_parts(p.dy.cast(), rows * network.output()),
                weights: slice::from_raw_parts(p.weight_space.cast(), self.weight_len()),
                hx: states.0.as_deref(),
                cx: states.1.as_deref(),
                dhy: last.0.as_deref(),
                dcy: last.1.as_deref(),
                dx: slice::from_raw_parts_mut(p.dx.cast(), rows * network.input),
                dhx: wanted(p.dhx, h_len),
                dcx: wanted(p.dcx, c_len),
            };
            let (workspace, reserve) = (self.workspace(p.workspace), self.reserve(p.reserve));
            rnn::backward_data(network, &sequences, operands, self.has_dropout(), workspace, reserve, *KEEPS);
        }
        clock::count(|| rows as f64 * self.weight_len() as f64);
        Ok(())
    }

    /// # Safety
    /// As for `backward_data`, without overlaps.
    unsafe fn backward_weights<S: Stored>(&self, p: &cudnnRNNBackwardWeights_v8) -> Result {
        check_aligned::<S>(&[p.x, p.hx, p.y, p.dweights])?;
        let (network, sequences) = (&self.network, self.sequences());
        let rows = sequences.memory_rows();
        // SAFETY: the caller promises valid pointers; alignment was checked.
        unsafe {
            let hx = given(p.hx, self.state_lens()[0]);
            let operands = WeightOperands::<S> {
                x: slice::from_raw_parts(p.x.cast(), rows * network.input),
                hx: hx.as_deref(),
                y: slice::from_raw_parts(p.y.cast(), rows * network.output()),
                dweights: slice::from_raw_parts_mut(p.dweights.cast(), self.weight_len()),
            };
            let (workspace, reserve) = (self.workspace(p.workspace), self.reserve(p.reserve));
            rnn::backward_weights(network, &sequences, operands, self.has_dropout(), workspace, reserve);
        }
        clock::count(|| rows as f64 * self.weight_len() as f64);
        Ok(())
    }
}
