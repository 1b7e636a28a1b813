//! The answers to calls of batch normalization.

use std::cell::Cell;

use cudnn_abi::*;

use super::boundary::guarded;
use super::overrides::Answer;
use cudnn::arguments::{
    BatchNormBackward, BatchNormBackwardEx, BatchNormForward, BatchNormForwardEx, BatchNormInference, Promised,
};
use norm::calls::{BackwardCall, CudnnCall, ForwardCall, InferenceCall};
use norm::run::answer;

/// After a panic cuDNN runs the call, unless something was launched for it.
fn guard(call: &impl CudnnCall) -> cudnnStatus_t {
    let status = Cell::new(None);
    guarded(|| answer(call, &status), || status.get().unwrap_or_else(|| call.by_cudnn()))
}

macro_rules! answer_as {
    ($($arguments:ident: $call:ident;)*) => {$(
        impl Answer for Promised<$arguments> {
            fn answer(&self) -> cudnnStatus_t {
                guard(&$call::from(*self))
            }
        }
    )*};
}

answer_as! {
    BatchNormForward: ForwardCall;
    BatchNormForwardEx: ForwardCall;
    BatchNormBackward: BackwardCall;
    BatchNormBackwardEx: BackwardCall;
    BatchNormInference: InferenceCall;
}
