//! The contents of cuDNN's descriptors as plain values, and the rules for setting them. No pointers and no FFI here.
//!
//! The rules, and a descriptor's state after a refused call, are those of cuDNN 9.19; `tests/real_cudnn` compares
//! the two libraries. Dimensions and strides are in elements, outermost first: n, c, then d, h, w.

mod convolution;
mod dropout;
mod filter;
mod pointwise;
mod rnn;
mod rnn_data;
mod tensor;

pub use convolution::{ConvolutionDescriptor, SPATIAL_MAX};
pub use dropout::DropoutDescriptor;
pub use filter::FilterDescriptor;
pub use pointwise::{ActivationDescriptor, OpTensorDescriptor};
pub use rnn::{Clipping, RnnDescriptor, RnnSettings};
pub use rnn_data::RnnDataDescriptor;
pub use tensor::TensorDescriptor;

use crate::error::{Result, require, support};
use cudnn_abi::*;

/// The most dimensions of a tensor or filter.
pub const DIM_MAX: usize = CUDNN_DIM_MAX as usize;

/// Checks a dimension count from C before any array of that length is read.
pub fn checked_rank(count: i32, least: usize, most: usize) -> Result<usize> {
    let count = usize::try_from(count).unwrap_or(0);
    require(count >= least, "enough dimensions")?;
    support(count <= most, "not too many dimensions")?;
    Ok(count)
}

/// Bytes of one element of a type that descriptors accept; a vector (INT8x4 and so on) counts as one element.
fn element_size(data_type: cudnnDataType_t) -> Option<usize> {
    match data_type {
        CUDNN_DATA_INT8 | CUDNN_DATA_UINT8 => Some(1),
        CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 => Some(2),
        CUDNN_DATA_FLOAT | CUDNN_DATA_INT32 | CUDNN_DATA_INT8x4 | CUDNN_DATA_UINT8x4 => Some(4),
        CUDNN_DATA_DOUBLE => Some(8),
        CUDNN_DATA_INT8x32 => Some(32),
        _ => None,
    }
}

/// Checks a pair of format and type. CUDNN_TENSOR_NCHW_VECT_C, which cuDNN accepts with vector types, is not supported.
fn check_format(format: cudnnTensorFormat_t, data_type: cudnnDataType_t) -> Result {
    require(element_size(data_type).is_some(), "dataType is one that descriptors take")?;
    if format == CUDNN_TENSOR_NCHW_VECT_C {
        let vector = matches!(data_type, CUDNN_DATA_INT8x4 | CUDNN_DATA_UINT8x4 | CUDNN_DATA_INT8x32);
        require(vector, "CUDNN_TENSOR_NCHW_VECT_C goes with a vector type")?;
        return support(false, "format is NCHW or NHWC");
    }
    require(matches!(format, CUDNN_TENSOR_NCHW | CUDNN_TENSOR_NHWC), "format is a cudnnTensorFormat_t")
}

/// Strides of a packed tensor. Products wrap at 32 bits, as cuDNN's do: the setters then refuse most such strides.
fn packed_strides(format: cudnnTensorFormat_t, dims: &[i32]) -> [i32; DIM_MAX] {
    let mut strides = [0; DIM_MAX];
    let mut step = 1i32;
    if format == CUDNN_TENSOR_NHWC && dims.len() > 1 {
        strides[1] = 1;
        step = dims[1];
        for i in (2..dims.len()).rev() {
            strides[i] = step;
            step = step.wrapping_mul(dims[i]);
        }
        strides[0] = step;
    } else {
        for i in (0..dims.len()).rev() {
            strides[i] = step;
            step = step.wrapping_mul(dims[i]);
        }
    }
    strides
}
