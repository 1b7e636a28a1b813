//! The answers to calls of batch normalization in training.

use std::cell::Cell;

use cudnn_abi::*;

use super::boundary::guarded;
use super::overrides::Answer;
use cudnn::arguments::{BatchNormBackward, BatchNormBackwardEx, BatchNormForward, BatchNormForwardEx};
use norm::call::{BackwardCall, ForwardCall};
use norm::run::{Call, answer};

/// # Safety
/// As for [`Answer::answer`].
unsafe fn guard(call: &impl Call) -> cudnnStatus_t {
    let status = Cell::new(None);
    // SAFETY: the program keeps cuDNN's rules; cuDNN runs the call only if nothing was launched for it before the panic.
    guarded(|| unsafe { answer(call, &status) }, || status.get().unwrap_or_else(|| unsafe { call.by_cudnn() }))
}

macro_rules! answer_as {
    ($($arguments:ident: $call:ident;)*) => {$(
        impl Answer for $arguments {
            unsafe fn answer(&self) -> cudnnStatus_t {
                // SAFETY: the caller promises the arguments of a call.
                unsafe { guard(&$call::from(*self)) }
            }
        }
    )*};
}

answer_as! {
    BatchNormForward: ForwardCall;
    BatchNormForwardEx: ForwardCall;
    BatchNormBackward: BackwardCall;
    BatchNormBackwardEx: BackwardCall;
}
