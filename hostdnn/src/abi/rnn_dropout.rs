//! Dropout descriptors, whose states RNNs and the dropout of single tensors draw from.

use super::boundary::{context, create, destroy, refer, refer_mut, write};
use crate::descriptor::DropoutDescriptor;
use crate::error::{Error, Result, require};
use crate::rnn::{STATES_BYTES, seed};
use cudnn_abi::*;
use std::ffi::{c_float, c_ulonglong, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateDropoutDescriptor(dropoutDesc: *mut cudnnDropoutDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateDropoutDescriptor, { unsafe { create::<DropoutDescriptor>(dropoutDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyDropoutDescriptor(dropoutDesc: cudnnDropoutDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyDropoutDescriptor, { unsafe { destroy::<DropoutDescriptor>(dropoutDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetStatesSize(handle: cudnnHandle_t, sizeInBytes: *mut usize) -> cudnnStatus_t {
    export!(cudnnDropoutGetStatesSize, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            write(sizeInBytes, STATES_BYTES)
        }
    })
}

/// Fills the states from the seed; without states, keeps the existing ones unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: c_float,
    states: *mut c_void,
    stateSizeInBytes: usize,
    seed: c_ulonglong,
) -> cudnnStatus_t {
    export!(cudnnSetDropoutDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; states are null or as long as the size says.
        unsafe {
            context(handle)?;
            let descriptor = refer_mut::<DropoutDescriptor>(dropoutDesc)?;
            check_size(states, stateSizeInBytes)?;
            let states = if states.is_null() {
                descriptor.states
            } else {
                states.cast::<[u8; STATES_BYTES]>().write(self::seed(seed));
                states as usize
            };
            *descriptor = DropoutDescriptor { probability: dropout, states, seed };
        }
        Ok(())
    })
}

/// Continues with states that were filled before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRestoreDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: c_float,
    states: *mut c_void,
    stateSizeInBytes: usize,
    seed: c_ulonglong,
) -> cudnnStatus_t {
    export!(cudnnRestoreDropoutDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer_mut::<DropoutDescriptor>(dropoutDesc)?;
            check_size(states, stateSizeInBytes)?;
            *descriptor = DropoutDescriptor { probability: dropout, states: states as usize, seed };
        }
        Ok(())
    })
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: *mut c_float,
    states: *mut *mut c_void,
    seed: *mut c_ulonglong,
) -> cudnnStatus_t {
    export!(cudnnGetDropoutDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer::<DropoutDescriptor>(dropoutDesc)?;
            write(dropout, descriptor.probability)?;
            write(states, descriptor.states as *mut c_void)?;
            write(seed, descriptor.seed)
        }
    })
}
