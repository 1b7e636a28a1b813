//! Running recurrent networks. All algorithms compute the same: `algo` is kept and never refused here, even where cuDNN
//! reports that its persistent kernels do not fit.

use super::boundary::{context, refer, write};
use super::entries::*;
use super::rnn_call::{
    Call, KEEPS, by_type, check_aligned, check_input, given, is_training, network, temp_bytes, wanted,
};
use super::rnn_dropout::check_probability;
use crate::clock;
use crate::descriptor::{RnnDataDescriptor, RnnDescriptor};
use crate::error::{Result, require};
use crate::rnn::{self, Dropout, Operands, STATES_BYTES, Stored};
use cudnn_abi::*;
use std::slice;

/// Bytes for sequences of `x_descriptor`'s number and length. Null results are skipped. Inference needs no reserve; the
/// workspace for training is for forward and both backward calls.
impl Answer for cudnnGetRNNTempSpaceSizes {
    unsafe fn answer(self) -> Result {
        let Self { handle, descriptor, mode, x_descriptor, workspace_size, reserve_size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer::<RnnDescriptor>(descriptor)?;
            let x = refer::<RnnDataDescriptor>(x_descriptor)?;
            let training = is_training(mode)?;
            let network = network(descriptor)?;
            check_input(descriptor, x)?;
            let [workspace, reserve] = temp_bytes(descriptor, &network, x, training)?;
            for (to, size) in [(workspace_size, workspace), (reserve_size, reserve)] {
                if !to.is_null() {
                    write(to, size)?;
                }
            }
        }
        Ok(())
    }
}

/// The lengths are the descriptors': `device_lengths` is ignored. A sequence of length 0 ends in its initial state.
/// Training computes as inference does and writes a reserve, for the backward calls. It also applies dropout between
/// layers if the RNN's dropout descriptor says so, with the states from when the RNN descriptor was set: each pseudo
/// layer above the first layer has a mask of its own, drawn as `cudnnDropoutForward` draws one for its input.
impl Answer for cudnnRNNForward {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let training = is_training(self.mode)?;
            let call = Call::new(self.handle, self.descriptor, (self.x_descriptor, self.y_descriptor), training)?;
            if !self.hx.is_null() || !self.hy.is_null() {
                call.check_h(self.h_descriptor)?;
            }
            if !self.cx.is_null() || !self.cy.is_null() {
                call.check_c(self.c_descriptor)?;
            }
            require(!self.x.is_null() && !self.y.is_null(), "data are not null")?;
            call.check_spaces(
                (self.weight_space, self.weight_space_size),
                (self.workspace, self.workspace_size),
                (self.reserve, self.reserve_size),
            )?;
            let dropout = if training { dropout(&call)? } else { None };
            by_type!(call.forward(&self, dropout))
        }
    }
}

/// The probability and the states' address, if dropout applies.
fn dropout(call: &Call) -> Result<Option<(f32, usize)>> {
    if !call.has_dropout() {
        return Ok(None);
    }
    let dropout = call.descriptor.settings()?.dropout;
    check_probability(dropout.probability)?;
    require(dropout.states != 0, "dropout has states")?;
    Ok(Some((dropout.probability, dropout.states)))
}

impl Call<'_> {
    /// # Safety
    /// `S` is the data's type. Pointers are null or valid for the descriptors' sizes, and results overlap nothing
    /// except, perhaps, the initial states.
    unsafe fn forward<S: Stored>(&self, p: &cudnnRNNForward, dropout: Option<(f32, usize)>) -> Result {
        check_aligned::<S>(&[p.x, p.y, p.hx, p.hy, p.cx, p.cy, p.weight_space])?;
        let (network, sequences) = (&self.network, self.sequences());
        let (rows, [h_len, c_len]) = (sequences.memory_rows(), self.state_lens());
        // SAFETY: the caller promises valid pointers; alignment was checked; states that may be results too are copied.
        unsafe {
            let (hx, cx) = (given(p.hx, h_len), given(p.cx, c_len));
            let operands = Operands::<S> {
                x: slice::from_raw_parts(p.x.cast(), rows * network.input),
                weights: slice::from_raw_parts(p.weight_space.cast(), self.weight_len()),
                hx: hx.as_deref(),
                cx: cx.as_deref(),
                y: slice::from_raw_parts_mut(p.y.cast(), rows * network.output()),
                padding_fill: self.y.padding_fill().as_ptr().cast::<S>().read_unaligned(),
                hy: wanted(p.hy, h_len),
                cy: wanted(p.cy, c_len),
            };
            let dropout = dropout.map(|(probability, states)| Dropout {
                probability,
                states: &mut *(states as *mut [u8; STATES_BYTES]),
            });
            let reserve = self.training.then(|| self.reserve(p.reserve));
            rnn::forward(network, &sequences, operands, dropout, self.workspace(p.workspace), reserve, *KEEPS);
        }
        // Each row meets each weight once.
        clock::count(|| rows as f64 * self.weight_len() as f64);
        Ok(())
    }
}
