//! A convolution problem of the graph API: an operation graph around one convolution, as plain values.

mod batch;
mod channels_last;
mod class;
mod engine;
mod execution_plan;
mod legacy;
mod operation_graph;
mod part;
mod text;

use cudnn_abi::*;

pub use batch::WORKSPACE_ALIGNMENT;
pub use channels_last::{Matrices, Sampling};
pub use class::{Class, WINOGRAD};
pub use engine::{EngineConfiguration, Knob, Notes, OUR_ENGINES, Route};
pub use execution_plan::ExecutionPlan;
pub use operation_graph::OperationGraph;

use cudnn::convolution::Direction;

/// One tensor of a graph. Its dimensions are images, channels and the spatial extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// The type of an element.
    pub data_type: cudnnDataType_t,
    /// The dimensions, one for each stride.
    pub dims: Vec<i64>,
    /// Elements between neighbours along each dimension.
    pub strides: Vec<i64>,
    /// The alignment of the tensor's address, in bytes.
    pub alignment: i64,
    /// True for a tensor that only passes between operations and has no memory.
    pub is_virtual: bool,
    /// True if the tensor is one value in host memory.
    pub is_by_value: bool,
    /// True if the first dimension is the mini-batch; otherwise all images share the tensor.
    pub is_batched: bool,
}

/// A factor or a bound of an operation, compared by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor(u64);

impl Factor {
    /// 1.
    pub const ONE: Self = Self(1.0_f64.to_bits());
    /// 0.
    pub const ZERO: Self = Self(0);

    /// The factor of a value.
    pub const fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    /// The factor's value.
    pub const fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// y = alpha · (w ∗ x) + beta · y, or one of its derivatives. `x`, `w` and `y` are places in [`Problem::tensors`] and
/// also stand for dx, dw and dy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The derivative of the convolution to compute.
    pub direction: Direction,
    /// Forward's input.
    pub x: usize,
    /// The filter.
    pub w: usize,
    /// Forward's output.
    pub y: usize,
    /// The type in which products are summed.
    pub compute_type: cudnnDataType_t,
    /// Convolution (the filter is flipped) or cross-correlation.
    pub mode: cudnnConvolutionMode_t,
    /// Zeros before each spatial dimension.
    pub pre_padding: Vec<i64>,
    /// Zeros after each spatial dimension.
    pub post_padding: Vec<i64>,
    /// The filter's step along each spatial dimension.
    pub stride: Vec<i64>,
    /// The distance between neighbouring filter elements.
    pub dilation: Vec<i64>,
    /// Scales the result.
    pub alpha: Factor,
    /// Scales the result's previous values.
    pub beta: Factor,
}

/// An operation on each element: y = mode(alpha1 · x, alpha2 · b, t), or its derivative dx from dy. Places refer to
/// [`Problem::tensors`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointwise {
    /// The operation.
    pub mode: cudnnPointwiseMode_t,
    /// The type of the computation.
    pub compute_type: cudnnDataType_t,
    /// The `CUDNN_ATTR_OPERATION_POINTWISE_{X,B,T,Y,DX,DY}DESC` that are set, with their tensors, in the names' order.
    pub operands: Vec<(cudnnBackendAttributeName_t, usize)>,
    /// Scales x.
    pub alpha1: Factor,
    /// Scales b.
    pub alpha2: Factor,
    /// The other attributes of the `CUDNN_BACKEND_POINTWISE_DESCRIPTOR`, such as clips and slopes, in the names' order.
    /// Each is set as a double, except `CUDNN_ATTR_POINTWISE_NAN_PROPAGATION` and `CUDNN_ATTR_POINTWISE_AXIS`.
    pub parameters: Vec<(cudnnBackendAttributeName_t, Factor)>,
}

/// One operation of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The graph's only convolution.
    Convolution(Convolution),
    /// An operation before or after the convolution.
    Pointwise(Pointwise),
}

impl Problem {
    /// The type of the convolution's input, or of its gradient.
    pub fn data_type(&self) -> cudnnDataType_t {
        self.tensors[self.convolution().x].data_type
    }
}

/// A convolution problem of the graph API: one convolution, alone or with pointwise operations. Equal problems cost the
/// same, so plans are stored by problem. The program's unique ids are not part of it: its tensors are numbered by
/// place, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The tensors, in the order in which operations first name them.
    pub tensors: Vec<Tensor>,
    /// The operations, in the program's order.
    pub operations: Vec<Operation>,
}
