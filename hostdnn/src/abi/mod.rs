//! The functions that C calls, with cuDNN's names and signatures, and nothing else: each checks its arguments, calls
//! the safe core, and turns the outcome into a status by the one macro in `boundary`. The header in `include/` is made
//! from this folder and `cudnn-abi`.
//!
//! # Safety
//! Every function has cuDNN's contract: its pointers are null or valid for their use. Null where cuDNN needs a value
//! is CUDNN_STATUS_BAD_PARAM, even where cuDNN itself would crash.
#![allow(clippy::missing_safety_doc)] // the section above holds for all of them
#![allow(clippy::too_many_arguments)] // the signatures are cuDNN's
#![allow(missing_docs)] // the names are cuDNN's; its reference documents them

#[macro_use]
mod boundary;

mod batch_norm;
mod batch_norm_backward;
mod batch_norm_forward;
mod batch_norm_sizes;
mod bias;
mod convolution;
mod convolution_backward;
mod convolution_descriptor;
mod convolution_forward;
mod device;
mod dropout;
mod emulator;
mod filter_descriptor;
mod graph;
mod library;
mod pointwise;
mod pointwise_descriptor;
mod rnn;
mod rnn_backward;
mod rnn_call;
mod rnn_data_descriptor;
mod rnn_descriptor;
mod rnn_dropout;
mod rnn_weights;
mod tensor_descriptor;

pub use batch_norm_backward::*;
pub use batch_norm_forward::*;
pub use batch_norm_sizes::*;
pub use bias::*;
pub use convolution_backward::*;
pub use convolution_descriptor::*;
pub use convolution_forward::*;
pub use device::*;
pub use dropout::*;
pub use emulator::*;
pub use filter_descriptor::*;
pub use graph::*;
pub use library::*;
pub use pointwise::*;
pub use pointwise_descriptor::*;
pub use rnn::*;
pub use rnn_backward::*;
pub use rnn_data_descriptor::*;
pub use rnn_descriptor::*;
pub use rnn_dropout::*;
pub use rnn_weights::*;
pub use tensor_descriptor::*;
