//! A convolution problem: one convolution as plain values, of the legacy API or as an operation graph of the graph API, and
//! its text form (`spec`).

pub mod algorithm;
pub mod any;
mod descriptors;
pub mod graph;
mod spec;
mod subject;

use std::ffi::c_int;
use std::fmt;

use cudnn::calls;
use cudnn::convolution::{Descriptors, Direction};
use cudnn::names::{TYPES, list, named};
use cudnn::tensor::{ASKED_RANK, ASKED_SPATIAL_RANK, MAX_RANK, Tensor, element_size, in_use};
use cudnn_abi::*;

pub use algorithm::{Algorithm, Class};
pub use any::AnyProblem;
pub use descriptors::OwnedDescriptors;

/// A convolution problem: direction, tensors, filter and parameters. Equal problems cost the same, so plans are stored
/// by problem. `x` and `y` are Forward's input and output in every direction: BackwardData writes `x` (dx), and
/// BackwardFilter writes `w` (dw).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The derivative of the convolution to compute.
    pub direction: Direction,
    /// Dimensions in use: 4, or 5 for 3-D convolutions.
    pub rank: u8,
    /// Forward's input.
    pub x: Tensor,
    /// The type of a filter's element.
    pub w_type: cudnnDataType_t,
    /// The filter's layout.
    pub w_format: cudnnTensorFormat_t,
    /// Output channels, input channels of one group, and the filter's spatial extent.
    pub w_dims: [c_int; MAX_RANK],
    /// Forward's output.
    pub y: Tensor,
    /// Zeros on either side of each spatial dimension.
    pub pad: [c_int; MAX_RANK - 2],
    /// The filter's step along each spatial dimension.
    pub stride: [c_int; MAX_RANK - 2],
    /// The distance between neighbouring filter elements along each spatial dimension.
    pub dilation: [c_int; MAX_RANK - 2],
    /// Convolution (the filter is flipped) or cross-correlation.
    pub mode: cudnnConvolutionMode_t,
    /// The type in which products are summed.
    pub compute_type: cudnnDataType_t,
    /// The arithmetic that the descriptor allows.
    pub math_type: cudnnMathType_t,
    /// The number of groups of channels.
    pub groups: c_int,
}

impl Problem {
    /// Reads a call's descriptors. Returns `None` for a convolution that we do not plan (unknown rank or type, null or
    /// unset descriptor); such a call passes through unchanged.
    pub fn read(descriptors: &Descriptors) -> Option<Self> {
        let (direction, w, convolution) = (descriptors.direction(), descriptors.w(), descriptors.convolution());
        if w.is_null() || convolution.is_null() {
            return None;
        }
        // SAFETY: both descriptors are null or live.
        let ((rank, x), (y_rank, y)) = unsafe { (Tensor::read(descriptors.x())?, Tensor::read(descriptors.y())?) };

        let (mut w_type, mut w_format, mut w_rank, mut w_dims) = (0, 0, 0, [0; ASKED_RANK]);
        // SAFETY: the descriptor is live, because it is not null; the array holds the CUDNN_DIM_MAX values requested.
        let status = unsafe {
            calls::cudnnGetFilterNdDescriptor(
                w,
                CUDNN_DIM_MAX,
                &mut w_type,
                &mut w_format,
                &mut w_rank,
                w_dims.as_mut_ptr(),
            )
        };
        if status != CUDNN_STATUS_SUCCESS {
            return None;
        }

        let (mut spatial, mut mode, mut compute_type) = (0, 0, 0);
        let [mut pad, mut stride, mut dilation] = [[0; ASKED_SPATIAL_RANK]; 3];
        let (mut math_type, mut groups) = (0, 1);
        // SAFETY: the descriptor is live, because it is not null; the arrays hold ASKED_SPATIAL_RANK values.
        let known = unsafe {
            calls::cudnnGetConvolutionNdDescriptor(
                convolution,
                ASKED_SPATIAL_RANK as c_int,
                &mut spatial,
                pad.as_mut_ptr(),
                stride.as_mut_ptr(),
                dilation.as_mut_ptr(),
                &mut mode,
                &mut compute_type,
            ) == CUDNN_STATUS_SUCCESS
                && calls::cudnnGetConvolutionMathType(convolution, &mut math_type) == CUDNN_STATUS_SUCCESS
                && calls::cudnnGetConvolutionGroupCount(convolution, &mut groups) == CUDNN_STATUS_SUCCESS
        };
        let planned = [x.data_type, w_type, y.data_type].into_iter().all(|t| element_size(t).is_some());
        if !known || !planned || y_rank != rank || w_rank as usize != rank || spatial as usize != rank - 2 {
            return None;
        }
        let spatial = rank - 2;
        Some(Self {
            direction,
            rank: rank as u8,
            x,
            w_type,
            w_format,
            w_dims: in_use(&w_dims, rank),
            y,
            pad: in_use(&pad, spatial),
            stride: in_use(&stride, spatial),
            dilation: in_use(&dilation, spatial),
            mode,
            compute_type,
            math_type,
            groups,
        })
    }

    /// Images in the mini-batch.
    pub fn batch(&self) -> usize {
        self.x.dims[0] as usize
    }

    /// The same problem with `batch` images.
    pub fn with_batch(mut self, batch: usize) -> Self {
        self.x = self.x.with_batch(batch);
        self.y = self.y.with_batch(batch);
        self
    }

    /// Returns true if micro-batches can compute the problem.
    pub fn splittable(&self) -> bool {
        let output_disjoint = match self.direction {
            Direction::Forward => self.y.disjoint(),
            Direction::BackwardData => self.x.disjoint(),
            Direction::BackwardFilter => true, // the filter is packed
        };
        self.batch() > 1 && self.y.dims[0] == self.x.dims[0] && output_disjoint
    }

    /// Returns true if micro-batches of `size` images start at multiples of `alignment` bytes from their tensors'
    /// starts.
    pub fn aligned(&self, size: usize, alignment: usize) -> bool {
        let starts = |tensor: &Tensor| (size * tensor.image_stride()).is_multiple_of(alignment);
        size >= self.batch() || (starts(&self.x) && starts(&self.y))
    }

    /// Values in the filter.
    pub fn filter_values(&self) -> usize {
        self.w_dims[..usize::from(self.rank)].iter().map(|&d| d as usize).product()
    }

    /// Bytes of the filter.
    pub fn filter_bytes(&self) -> usize {
        self.filter_values() * element_size(self.w_type).unwrap_or(1)
    }

    /// Returns true if partial sums over micro-batches would be rounded to fewer bits than their computation has:
    /// BackwardFilter with a half or bfloat16 filter.
    pub fn sums_in_reduced_precision(&self) -> bool {
        self.direction == Direction::BackwardFilter && matches!(self.w_type, CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16)
    }

    /// The dimensions in use of x, w and y.
    pub fn dims(&self) -> [&[c_int]; 3] {
        let rank = usize::from(self.rank);
        [&self.x.dims[..rank], &self.w_dims[..rank], &self.y.dims[..rank]]
    }

    /// Returns true if x is stored with its channels innermost.
    pub fn channels_last(&self) -> bool {
        self.x.strides[1] == 1 && self.x.dims[1] > 1
    }
}

/// Writes the form used in log lines: `F float 32x64x27x27 * 192x64x5x5 pad 2x2 stride 1x1`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, w, _] = self.dims();
        let spatial = usize::from(self.rank) - 2;
        let data_type = named(TYPES, self.x.data_type);
        write!(f, "{} {data_type} {} * {}", self.direction, list(x), list(w))?;
        write!(f, " pad {} stride {}", list(&self.pad[..spatial]), list(&self.stride[..spatial]))?;
        if self.dilation[..spatial].iter().any(|&d| d != 1) {
            write!(f, " dilation {}", list(&self.dilation[..spatial]))?;
        }
        if self.groups != 1 {
            write!(f, " groups {}", self.groups)?;
        }
        if self.channels_last() {
            f.write_str(" nhwc")?;
        }
        Ok(())
    }
}
