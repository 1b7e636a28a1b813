//! The RNN API's descriptors as plain values, and the layout of a weight space. In shapes, T is the number of time
//! steps, B of sequences, D of directions and G of the cell's gates; H is the hidden size.

mod dropout;
mod weights;

use std::ptr;

use cudnn_abi::*;

use crate::calls;
use crate::tensor::element_size;
pub use dropout::{Dropout, Masked};
pub use weights::Weights;

/// A GRU that resets h before R_n multiplies it. cuDNN lacks this cell; the number extends cuDNN's enumeration.
pub const CANONICAL_GRU: cudnnRNNMode_t = 16;

/// A recurrent network as plain values, read from its descriptor. All sizes are positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// Selects among cuDNN's own GPU kernels; our kernels have no such choice.
    pub algorithm: cudnnRNNAlgo_t,
    pub cell: cudnnRNNMode_t,
    pub bias: cudnnRNNBiasMode_t,
    pub direction: cudnnDirectionMode_t,
    pub input_mode: cudnnRNNInputMode_t,
    pub data_type: cudnnDataType_t,
    pub math_type: cudnnMathType_t,
    /// Elements of an input vector.
    pub input: usize,
    /// H.
    pub hidden: usize,
    /// P, the elements of a hidden state after projection; H without one.
    pub projection: usize,
    pub layers: usize,
    /// `CUDNN_RNN_PADDED_IO_ENABLED` or 0.
    pub flags: u32,
    /// True if LSTM's cell state is clipped.
    pub is_clipped: bool,
}

impl Network {
    /// Reads a descriptor. Returns `None` if cuDNN refuses or the descriptor is not set.
    ///
    /// # Safety
    /// The caller keeps cuDNN's rules for the descriptor.
    pub unsafe fn read(descriptor: cudnnRNNDescriptor_t) -> Option<Self> {
        // SAFETY: the caller makes the same promise.
        unsafe { Self::read_with_dropout(descriptor) }.map(|(network, _)| network)
    }

    /// Likewise with the dropout descriptor that the network was set with, or null.
    ///
    /// # Safety
    /// As for [`Self::read`].
    pub unsafe fn read_with_dropout(descriptor: cudnnRNNDescriptor_t) -> Option<(Self, cudnnDropoutDescriptor_t)> {
        let [mut algorithm, mut cell, mut bias, mut direction, mut input_mode] = [0; 5];
        let [mut data_type, mut math_precision, mut math_type] = [0; 3];
        let [mut input, mut hidden, mut projection, mut layers] = [0; 4];
        let (mut dropout, mut flags) = (ptr::null_mut(), 0);
        // SAFETY: the caller keeps cuDNN's rules for the descriptor, and each value has a place of its type.
        let status = unsafe {
            calls::cudnnGetRNNDescriptor_v8(
                descriptor,
                &mut algorithm,
                &mut cell,
                &mut bias,
                &mut direction,
                &mut input_mode,
                &mut data_type,
                &mut math_precision,
                &mut math_type,
                &mut input,
                &mut hidden,
                &mut projection,
                &mut layers,
                &mut dropout,
                &mut flags,
            )
        };
        if status != CUDNN_STATUS_SUCCESS {
            return None;
        }
        let (mut clip, mut least, mut greatest) = (CUDNN_RNN_CLIP_NONE, 0.0, 0.0);
        // SAFETY: the caller keeps cuDNN's rules for the descriptor, and each value has a place of its type.
        let status = unsafe { calls::cudnnRNNGetClip_v9(descriptor, &mut clip, &mut least, &mut greatest) };
        let positive = |size: i32| usize::try_from(size).ok().filter(|&size| size > 0);
        (status == CUDNN_STATUS_SUCCESS).then_some(())?;
        let network = Self {
            algorithm,
            cell,
            bias,
            direction,
            input_mode,
            data_type,
            math_type,
            input: positive(input)?,
            hidden: positive(hidden)?,
            projection: positive(projection)?,
            layers: positive(layers)?,
            flags,
            is_clipped: clip != CUDNN_RNN_CLIP_NONE,
        };
        Some((network, dropout))
    }

    /// G, the number of gates; 0 for an unknown cell.
    pub fn gates(&self) -> usize {
        match self.cell {
            CUDNN_RNN_RELU | CUDNN_RNN_TANH => 1,
            CUDNN_GRU | CANONICAL_GRU => 3,
            CUDNN_LSTM => 4,
            _ => 0,
        }
    }

    /// D, the number of directions.
    pub fn directions(&self) -> usize {
        if self.direction == CUDNN_BIDIRECTIONAL { 2 } else { 1 }
    }

    /// The number of pseudo layers, layers · D: the first layer's forward, its backward, the second's forward…
    pub fn pseudo_layers(&self) -> usize {
        self.layers * self.directions()
    }

    /// Returns true if hidden states are projected: h = W_p (o ∘ tanh(c)). Only LSTM's can be.
    pub fn projects(&self) -> bool {
        self.projection != self.hidden
    }

    /// D·P, the elements in each row of a layer's output.
    pub fn output(&self) -> usize {
        self.directions() * self.projection
    }

    /// Elements in each row of a layer's input.
    pub fn layer_input(&self, layer: usize) -> usize {
        if layer == 0 { self.input } else { self.output() }
    }

    /// Elements in each row of every layer's input; `None` if layers differ.
    pub fn input_of_all_layers(&self) -> Option<usize> {
        (self.layers == 1 || self.layer_input(0) == self.layer_input(1)).then_some(self.input)
    }

    /// Bytes of an element.
    pub fn element(&self) -> usize {
        element_size(self.data_type).unwrap_or(1)
    }

    /// Returns true if W has a bias.
    pub fn has_input_bias(&self) -> bool {
        matches!(self.bias, CUDNN_RNN_SINGLE_INP_BIAS | CUDNN_RNN_DOUBLE_BIAS)
    }

    /// Returns true if R has a bias.
    pub fn has_recurrent_bias(&self) -> bool {
        matches!(self.bias, CUDNN_RNN_SINGLE_REC_BIAS | CUDNN_RNN_DOUBLE_BIAS)
    }
}

/// A batch of sequences as plain values, read from its descriptor. All extents are positive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub data_type: cudnnDataType_t,
    pub layout: cudnnRNNDataLayout_t,
    /// T, the number of time steps.
    pub steps: usize,
    /// Elements of a vector.
    pub vector: usize,
    /// The length of each of the B sequences, at most T.
    pub lengths: Vec<i32>,
    /// The element that fills the padding, in its first bytes.
    pub padding_fill: [u8; 8],
}

impl Data {
    /// Reads a descriptor. Returns `None` if cuDNN refuses or the descriptor is not set.
    ///
    /// # Safety
    /// The caller keeps cuDNN's rules for the descriptor.
    pub unsafe fn read(descriptor: cudnnRNNDataDescriptor_t) -> Option<Self> {
        /// The lengths requested by the first call; a batch with more sequences takes a second call.
        const FEW: usize = 64;
        let [mut data_type, mut layout, mut steps, mut batch, mut vector] = [0; 5];
        let (mut lengths, mut padding_fill) = (vec![0; FEW], [0; 8]);
        loop {
            // SAFETY: the caller keeps cuDNN's rules; each value has a place, and `lengths` has the requested size.
            let status = unsafe {
                calls::cudnnGetRNNDataDescriptor(
                    descriptor,
                    &mut data_type,
                    &mut layout,
                    &mut steps,
                    &mut batch,
                    &mut vector,
                    lengths.len() as i32,
                    lengths.as_mut_ptr(),
                    padding_fill.as_mut_ptr().cast(),
                )
            };
            if status != CUDNN_STATUS_SUCCESS {
                return None;
            }
            let count = usize::try_from(batch).ok()?;
            let is_whole = count <= lengths.len();
            lengths.resize(count, 0);
            if is_whole {
                break;
            }
        }
        let positive = |size: i32| usize::try_from(size).ok().filter(|&size| size > 0);
        let (steps, vector) = (positive(steps)?, positive(vector)?);
        let sound = !lengths.is_empty() && lengths.iter().all(|length| (0..=steps as i32).contains(length));
        sound.then_some(Self { data_type, layout, steps, vector, lengths, padding_fill })
    }

    /// B, the number of sequences.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// Returns true if all sequences have T steps.
    pub fn is_full(&self) -> bool {
        self.lengths.iter().all(|&length| length as usize == self.steps)
    }

    /// Returns true if rows follow each other without padding, the longest sequence first.
    pub fn is_packed(&self) -> bool {
        self.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
    }

    /// Rows in memory: the vectors of all steps, padding included.
    pub fn rows(&self) -> usize {
        match self.is_packed() {
            true => self.lengths.iter().map(|&length| length as usize).sum(),
            false => self.steps * self.batch(),
        }
    }
}

/// Returns true if the descriptor describes a packed state of `shape` [layers · D, B, H]. Trailing dimensions of 1 may
/// follow; PyTorch has two of them.
///
/// # Safety
/// The caller keeps cuDNN's rules for the descriptor.
pub unsafe fn is_state(descriptor: cudnnTensorDescriptor_t, shape: [usize; 3]) -> bool {
    let (mut data_type, mut rank) = (0, 0);
    let (mut dims, mut strides) = ([0; CUDNN_DIM_MAX as usize], [0; CUDNN_DIM_MAX as usize]);
    // SAFETY: the caller keeps cuDNN's rules for the descriptor; both arrays hold the CUDNN_DIM_MAX values requested.
    let status = unsafe {
        calls::cudnnGetTensorNdDescriptor(
            descriptor,
            CUDNN_DIM_MAX,
            &mut data_type,
            &mut rank,
            dims.as_mut_ptr(),
            strides.as_mut_ptr(),
        )
    };
    let packed = [shape[1] * shape[2], shape[2], 1];
    let alike = |i: usize| dims[i] as usize == shape[i] && (shape[i] == 1 || strides[i] as usize == packed[i]);
    let rank = usize::try_from(rank).unwrap_or(0).min(dims.len());
    status == CUDNN_STATUS_SUCCESS && rank >= 3 && (0..3).all(alike) && dims[3..rank].iter().all(|&dim| dim == 1)
}
