//! Dropout of a single tensor. RNNs drop the inputs of their layers by the same draws: one for each element, in order.

use super::boundary::{context, refer, write};
use super::entries::*;
use super::rnn_call::by_type;
use super::rnn_dropout::check_probability;
use crate::descriptor::{DropoutDescriptor, RnnDataDescriptor, TensorDescriptor};
use crate::error::{Result, require, support};
use crate::rnn::{Dropout, STATES_BYTES, Stored};
use cudnn_abi::*;
use std::ffi::c_void;
use std::slice;

/// Bytes of the reserve of a tensor's dropout: a bit for each element, in whole words of 4 bytes.
impl Answer for cudnnDropoutGetReserveSpaceSize {
    unsafe fn answer(self) -> Result {
        let Self { x_descriptor, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(size, reserve_bytes(refer(x_descriptor)?)) }
    }
}

/// Drops elements of `x`, scales the others so that the mean stays, and notes in the reserve which were dropped. Draws
/// from the descriptor's states. `x` may be `y` if their descriptors lay them out alike.
impl Answer for cudnnDropoutForward {
    unsafe fn answer(self) -> Result {
        let Self { handle, dropout, x_descriptor, x, y_descriptor, y, reserve, reserve_size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let reserve = (reserve, reserve_size);
            let call = Call::new(handle, dropout, (x_descriptor, x), (y_descriptor, y), reserve, true)?;
            call.draw();
            by_type!(call.scale())
        }
    }
}

/// Drops the elements of `dy` that `cudnnDropoutForward` noted in the reserve, and scales the others alike.
impl Answer for cudnnDropoutBackward {
    unsafe fn answer(self) -> Result {
        let Self { handle, dropout, dy_descriptor, dy, dx_descriptor, dx, reserve, reserve_size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let reserve = (reserve, reserve_size);
            let call = Call::new(handle, dropout, (dy_descriptor, dy), (dx_descriptor, dx), reserve, false)?;
            by_type!(call.scale())
        }
    }
}

/// A call whose arguments go with each other.
struct Call<'a> {
    dropout: DropoutDescriptor,
    x: &'a TensorDescriptor,
    y: &'a TensorDescriptor,
    from: *const c_void,
    to: *mut c_void,
    reserve: *mut c_void,
}

impl Call<'_> {
    /// # Safety
    /// Each pointer is null or valid by cuDNN's contract.
    unsafe fn new(
        handle: cudnnHandle_t,
        dropout: cudnnDropoutDescriptor_t,
        (x, from): (cudnnTensorDescriptor_t, *const c_void),
        (y, to): (cudnnTensorDescriptor_t, *mut c_void),
        (reserve, reserve_size): (*mut c_void, usize),
        draws: bool,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let (dropout, x, y) = unsafe {
            context(handle)?;
            (*refer::<DropoutDescriptor>(dropout)?, refer::<TensorDescriptor>(x)?, refer::<TensorDescriptor>(y)?)
        };
        require(!from.is_null() && !to.is_null() && !reserve.is_null(), "data and the reserve are not null")?;
        require(x.data_type() == y.data_type(), "the tensors have one type")?;
        require(count(x) == count(y), "the tensors have the same number of elements")?;
        require(reserve_size >= reserve_bytes(x), "the reserve is large enough")?;
        require(dropout.states != 0 || !draws, "dropout has states")?;
        let ordered = |tensor: &TensorDescriptor| tensor.is_injective() && !tensor.is_reversed();
        require(ordered(x) && ordered(y), "each element has its own place, and no stride is negative")?;
        // cuDNN drops no bfloat16 here, but in its recurrent networks.
        let bytes = RnnDataDescriptor::element_size(x.data_type()).filter(|_| x.data_type() != CUDNN_DATA_BFLOAT16);
        support(bytes.is_some(), "elements are float, double or half")?;
        let alike = count(x) == 1 || x.strides() == y.strides() || (is_packed(x) && is_packed(y));
        require(from != to.cast_const() || alike, "tensors in the same memory are laid out alike")?;
        let aligned = [from, to.cast_const()].iter().all(|data| data.addr().is_multiple_of(bytes.unwrap_or(1)));
        require(aligned, "data are aligned to their type")?;
        check_probability(dropout.probability)?;
        Ok(Self { dropout, x, y, from, to, reserve })
    }

    /// # Safety
    /// The reserve is valid for the checked size, and so are the states.
    unsafe fn draw(&self) {
        let DropoutDescriptor { probability, states, .. } = self.dropout;
        // SAFETY: the caller's promise.
        unsafe {
            let reserve = slice::from_raw_parts_mut(self.reserve.cast::<u8>(), reserve_bytes(self.x));
            let mut dropout = Dropout { probability, states: &mut *(states as *mut [u8; STATES_BYTES]) };
            reserve.fill(0);
            for element in 0..count(self.x) {
                reserve[element / 8] |= u8::from(dropout.keeps()) << (element % 8);
            }
        }
    }

    /// # Safety
    /// `S` is the data's type; the tensors are valid for their descriptors, and the reserve for the checked size.
    unsafe fn scale<S: Stored>(&self) -> Result {
        let scale = Dropout::scale::<S::Number>(self.dropout.probability);
        // SAFETY: the caller's promise.
        unsafe {
            let reserve = slice::from_raw_parts(self.reserve.cast::<u8>(), reserve_bytes(self.x));
            let value = |element: usize| {
                let kept = reserve[element / 8] >> (element % 8) & 1 == 1;
                let from = self.from.cast::<S>().add(offset(self.x, element)).read();
                S::store(if kept { from.load() * scale } else { S::Number::default() })
            };
            // All before the first is written: in the same memory, elements may have other places.
            let values: Vec<S> = (0..count(self.x)).map(value).collect();
            for (element, value) in values.into_iter().enumerate() {
                self.to.cast::<S>().add(offset(self.y, element)).write(value);
            }
        }
        Ok(())
    }
}

/// Elements; 1 without dimensions, as in cuDNN.
fn count(tensor: &TensorDescriptor) -> usize {
    tensor.dims().iter().map(|&dim| dim as usize).product()
}

fn reserve_bytes(tensor: &TensorDescriptor) -> usize {
    count(tensor).div_ceil(32) * 4
}

/// Where an element lies. Elements count as if the tensor were packed.
fn offset(tensor: &TensorDescriptor, element: usize) -> usize {
    let mut rest = element;
    let axes = tensor.dims().iter().zip(tensor.strides()).rev();
    axes.map(|(&dim, &stride)| {
        let index = rest % dim as usize;
        rest /= dim as usize;
        index * stride as usize
    })
    .sum()
}

/// Returns whether there are no gaps, by the strides of dimensions of 1 too.
fn is_packed(tensor: &TensorDescriptor) -> bool {
    let spans = tensor.dims().iter().zip(tensor.strides()).map(|(&dim, &stride)| dim as usize * stride as usize);
    spans.max().unwrap_or(1) == count(tensor)
}
