//! The RNN API, from cuDNN 9.19.0: recurrent networks, their data and their dropout.

use std::ffi::c_int;

/// A recurrent network: cell, biases, directions, layers, types and sizes.
pub struct cudnnRNNStruct(());
/// A batch of sequences: type, layout, extents, the length of each sequence and the padding's fill value.
pub struct cudnnRNNDataStruct(());
/// A dropout probability and the state of its random numbers.
pub struct cudnnDropoutStruct(());

pub type cudnnRNNDescriptor_t = *mut cudnnRNNStruct;
pub type cudnnRNNDataDescriptor_t = *mut cudnnRNNDataStruct;
pub type cudnnDropoutDescriptor_t = *mut cudnnDropoutStruct;

pub type cudnnRNNAlgo_t = c_int;
pub const CUDNN_RNN_ALGO_STANDARD: cudnnRNNAlgo_t = 0;
pub const CUDNN_RNN_ALGO_PERSIST_STATIC: cudnnRNNAlgo_t = 1;
pub const CUDNN_RNN_ALGO_PERSIST_DYNAMIC: cudnnRNNAlgo_t = 2;
pub const CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H: cudnnRNNAlgo_t = 3;
pub const CUDNN_RNN_ALGO_COUNT: cudnnRNNAlgo_t = 4;

pub type cudnnForwardMode_t = c_int;
pub const CUDNN_FWD_MODE_INFERENCE: cudnnForwardMode_t = 0;
pub const CUDNN_FWD_MODE_TRAINING: cudnnForwardMode_t = 1;

/// What becomes of the weights' gradients that are there already: they are added to, or overwritten.
pub type cudnnWgradMode_t = c_int;
pub const CUDNN_WGRAD_MODE_ADD: cudnnWgradMode_t = 0;
pub const CUDNN_WGRAD_MODE_SET: cudnnWgradMode_t = 1;

/// The cell. W multiplies the input and R the previous hidden state; b and d are their biases, and σ is the logistic
/// function. ReLU and tanh apply their function to Wx + b + Rh + d. The others have gates, in the order of their
/// matrices: LSTM i, f, g, o; GRU r, z, n with n = tanh(Wx + b + r∘(Rh + d)).
pub type cudnnRNNMode_t = c_int;
pub const CUDNN_RNN_RELU: cudnnRNNMode_t = 0;
pub const CUDNN_RNN_TANH: cudnnRNNMode_t = 1;
pub const CUDNN_LSTM: cudnnRNNMode_t = 2;
pub const CUDNN_GRU: cudnnRNNMode_t = 3;

pub type cudnnRNNBiasMode_t = c_int;
pub const CUDNN_RNN_NO_BIAS: cudnnRNNBiasMode_t = 0;
pub const CUDNN_RNN_SINGLE_INP_BIAS: cudnnRNNBiasMode_t = 1;
pub const CUDNN_RNN_DOUBLE_BIAS: cudnnRNNBiasMode_t = 2;
pub const CUDNN_RNN_SINGLE_REC_BIAS: cudnnRNNBiasMode_t = 3;

pub type cudnnDirectionMode_t = c_int;
pub const CUDNN_UNIDIRECTIONAL: cudnnDirectionMode_t = 0;
pub const CUDNN_BIDIRECTIONAL: cudnnDirectionMode_t = 1;

/// The first layer's treatment of its input: multiplied by a matrix, or taken unchanged.
pub type cudnnRNNInputMode_t = c_int;
pub const CUDNN_LINEAR_INPUT: cudnnRNNInputMode_t = 0;
pub const CUDNN_SKIP_INPUT: cudnnRNNInputMode_t = 1;

/// Clipping of LSTM's cell state.
pub type cudnnRNNClipMode_t = c_int;
pub const CUDNN_RNN_CLIP_NONE: cudnnRNNClipMode_t = 0;
pub const CUDNN_RNN_CLIP_MINMAX: cudnnRNNClipMode_t = 1;

/// Unpacked: rows of equal length with padding, `[time, batch, vector]` or `[batch, time, vector]`. Packed: the longest
/// sequence first, and each time step holds only the sequences that have not ended.
pub type cudnnRNNDataLayout_t = c_int;
pub const CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED: cudnnRNNDataLayout_t = 0;
pub const CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED: cudnnRNNDataLayout_t = 1;
pub const CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED: cudnnRNNDataLayout_t = 2;

/// The bits of `auxFlags`: data with padding is accepted or not.
pub const CUDNN_RNN_PADDED_IO_DISABLED: u32 = 0;
pub const CUDNN_RNN_PADDED_IO_ENABLED: u32 = 1;
