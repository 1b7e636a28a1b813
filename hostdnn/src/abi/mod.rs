//! The functions that C calls, with cuDNN's names and signatures, and nothing else: each checks its arguments, calls
//! the safe core, and its outcome becomes a status in `boundary`. Those with cuDNN's names come from the table of
//! prototypes in `cudnn-abi`, through `entries`. The header in `include/` is made from that table and this folder.
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
mod convolution_calls;
mod convolution_descriptor;
mod device;
mod dropout;
mod emulator;
mod entries;
mod filter_descriptor;
mod graph;
mod library;
mod objects;
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

pub use device::*;
pub use emulator::*;
pub use entries::*;
pub use library::*;
