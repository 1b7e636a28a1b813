//! Dropout descriptors, whose states RNNs and the dropout of single tensors draw from.

use super::boundary::{context, refer, refer_mut, write};
use super::entries::*;
use crate::descriptor::DropoutDescriptor;
use crate::error::{Error, Result, require};
use crate::rnn::{STATES_BYTES, seed};
use cudnn_abi::*;
use std::ffi::c_void;

impl Answer for cudnnDropoutGetStatesSize {
    unsafe fn answer(self) -> Result {
        let Self { handle, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            write(size, STATES_BYTES)
        }
    }
}

/// Fills the states from the seed; without states, keeps the existing ones unchanged.
impl Answer for cudnnSetDropoutDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, handle, probability, states, states_size, seed } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; states are null or as long as the size says.
        unsafe {
            context(handle)?;
            let descriptor = refer_mut::<DropoutDescriptor>(descriptor)?;
            check_size(states, states_size)?;
            let states = if states.is_null() {
                descriptor.states
            } else {
                states.cast::<[u8; STATES_BYTES]>().write(self::seed(seed));
                states as usize
            };
            *descriptor = DropoutDescriptor { probability, states, seed };
        }
        Ok(())
    }
}

/// Continues with states that were filled before.
impl Answer for cudnnRestoreDropoutDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, handle, probability, states, states_size, seed } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer_mut::<DropoutDescriptor>(descriptor)?;
            check_size(states, states_size)?;
            *descriptor = DropoutDescriptor { probability, states: states as usize, seed };
        }
        Ok(())
    }
}

/// No probability is refused before it is used.
pub(super) fn check_probability(probability: f32) -> Result {
    require((0.0..=1.0).contains(&probability), "dropout has a probability")
}

fn check_size(states: *const c_void, size: usize) -> Result {
    if states.is_null() || size >= STATES_BYTES {
        return Ok(());
    }
    Err(Error::new(CUDNN_STATUS_INVALID_VALUE, format!("states take {STATES_BYTES} bytes and not {size}")))
}

impl Answer for cudnnGetDropoutDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, handle, probability, states, seed } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer::<DropoutDescriptor>(descriptor)?;
            write(probability, descriptor.probability)?;
            write(states, descriptor.states as *mut c_void)?;
            write(seed, descriptor.seed)
        }
    }
}
