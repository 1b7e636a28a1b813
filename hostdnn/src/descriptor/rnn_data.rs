//! RNN data descriptors.

use super::element_size;
use crate::error::{Result, require, support};
use cudnn_abi::*;

/// The most time steps.
const STEPS_MAX: i32 = u16::MAX as i32;

/// A batch of sequences. Unset, it has no extents; a refused call changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RnnDataDescriptor {
    data_type: cudnnDataType_t,
    layout: cudnnRNNDataLayout_t,
    /// Time steps, sequences, elements of a vector.
    extents: [i32; 3],
    lengths: Vec<i32>,
    /// An element of the data's type, in its first bytes.
    padding_fill: [u8; 8],
}

impl RnnDataDescriptor {
    /// Checks everything except the lengths. `extents` are time steps, sequences, elements of a vector.
    pub fn check(data_type: cudnnDataType_t, layout: cudnnRNNDataLayout_t, extents: [i32; 3]) -> Result {
        require(data_type >= 0, "dataType is a cudnnDataType_t")?;
        support(Self::element_size(data_type).is_some(), "dataType is float, double, half or bfloat16")?;
        let layouts = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED..=CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
        require(layouts.contains(&layout), "layout is a cudnnRNNDataLayout_t")?;
        require(extents.iter().all(|&extent| extent > 0), "extents are positive")?;
        support(extents[0] <= STEPS_MAX, "fewer than 65,536 time steps")
    }

    /// Sets all; `lengths` has an entry for each sequence. `padding_fill` holds an element in its first bytes.
    pub fn set(
        &mut self,
        data_type: cudnnDataType_t,
        layout: cudnnRNNDataLayout_t,
        extents: [i32; 3],
        lengths: &[i32],
        padding_fill: [u8; 8],
    ) -> Result {
        Self::check(data_type, layout, extents)?;
        let steps = extents[0];
        require(lengths.iter().all(|length| (0..=steps).contains(length)), "lengths are 0 to maxSeqLength")?;
        if layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED {
            require(lengths.is_sorted_by(|a, b| a >= b), "packed sequences begin with the longest")?;
            require(lengths.first() == Some(&steps), "the longest packed sequence has maxSeqLength steps")?;
            require(lengths.last() != Some(&0), "packed sequences are not empty")?;
        }
        *self = Self { data_type, layout, extents, lengths: lengths.to_vec(), padding_fill };
        Ok(())
    }

    /// Bytes of an element of a type that RNNs accept.
    pub fn element_size(data_type: cudnnDataType_t) -> Option<usize> {
        let taken = matches!(data_type, CUDNN_DATA_FLOAT | CUDNN_DATA_DOUBLE | CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16);
        element_size(data_type).filter(|_| taken)
    }

    /// The element type.
    pub fn data_type(&self) -> cudnnDataType_t {
        self.data_type
    }

    /// The layout.
    pub fn layout(&self) -> cudnnRNNDataLayout_t {
        self.layout
    }

    /// Time steps, sequences, elements of a vector.
    pub fn extents(&self) -> [i32; 3] {
        self.extents
    }

    /// Each sequence's length.
    pub fn lengths(&self) -> &[i32] {
        &self.lengths
    }

    /// An element of the data's type, in its first bytes.
    pub fn padding_fill(&self) -> &[u8; 8] {
        &self.padding_fill
    }
}
