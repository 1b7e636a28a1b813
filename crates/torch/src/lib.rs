//! PyTorch's operators that call no cuDNN, on our kernels: batch normalization in bfloat16, group
//! normalization, and convolutions by channel.
//!
//! libtorch is not linked. Where the process has loaded it, its C functions put our kernels in the operators' places. What
//! our kernels do not take goes to PyTorch's own kernels, by the functions that the dispatcher would have called.
//!
//! | file | contents |
//! | --- | --- |
//! | [`registration`] | putting our kernels in PyTorch's place, once |
//! | `libtorch` | the functions of libtorch |
//! | `dispatcher` | libtorch's dispatcher, and the C++ types of its functions |
//! | `owner` | whose kernel runs an operator: a third library's stays |
//! | `values` | the values on an operator's stack: tensors, optional ones, lists |
//! | `operator` | a call of an operator: who runs it, and what becomes of a panic |
//! | `normalization` | what the operators of batch and of group normalization share |
//! | `batch_norm` | `native_batch_norm` and `native_batch_norm_backward` |
//! | `group_norm` | `native_group_norm` and `native_group_norm_backward` |
//! | [`depthwise`] | `_conv_depthwise2d` and `conv_depthwise3d`, and their gradients |
//! | `warnings` | keeping libtorch's warnings off the terminal |

mod batch_norm;
pub mod depthwise;
mod dispatcher;
mod group_norm;
pub use libtorch::NEEDED;
mod libtorch;
mod normalization;
mod operator;
mod owner;
pub mod registration;
mod values;
mod warnings;
