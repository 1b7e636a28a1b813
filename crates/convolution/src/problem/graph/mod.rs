//! A kernel of the graph API: an operation graph around one convolution, as plain values.

mod batch;
mod channels_last;
mod class;
mod engine;
mod execution_plan;
mod legacy;
mod operation_graph;
mod text;

use cudnn_abi::*;

pub use batch::WORKSPACE_ALIGNMENT;
pub use channels_last::{Matrices, Sampling};
pub use class::Class;
pub use engine::{EngineConfiguration, Knob, Notes, OUR_ENGINES, Route};
pub use execution_plan::ExecutionPlan;
pub use operation_graph::OperationGraph;

use cudnn::convolution::Direction;

/// One tensor of a graph. Dimensions and strides in elements, images first, then channels and the spatial extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Of an element.
    pub data_type: cudnnDataType_t,
    /// As many as there are strides.
    pub dims: Vec<i64>,
    /// From one element to the next along each dimension.
    pub strides: Vec<i64>,
    /// What its address is a multiple of, in bytes.
    pub alignment: i64,
    /// Only passed on within the graph: it has no memory.
    pub is_virtual: bool,
    /// Its one value lies in the host's memory.
    pub is_by_value: bool,
    /// Its first dimension is the mini-batch; else it is the same for all images.
    pub is_batched: bool,
}

/// A factor or a bound of an operation, told apart by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor(u64);

impl Factor {
    /// 1
    pub const ONE: Self = Self(1.0_f64.to_bits());
    /// 0
    pub const ZERO: Self = Self(0);

    /// From its value.
    pub const fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    /// Its value.
    pub const fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// y = alpha · (w ∗ x) + beta · y, or one of its derivatives. `x`, `w` and `y` are places in [`Kernel::tensors`]; they
/// stand for dx, dw and dy too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Which of the convolution's derivatives it computes.
    pub direction: Direction,
    /// The input of Forward.
    pub x: usize,
    /// The filter.
    pub w: usize,
    /// The output of Forward.
    pub y: usize,
    /// What products are summed in.
    pub compute_type: cudnnDataType_t,
    /// Whether the filter is flipped.
    pub mode: cudnnConvolutionMode_t,
    /// Zeros before each spatial dimension.
    pub pre_padding: Vec<i64>,
    /// Zeros behind each spatial dimension.
    pub post_padding: Vec<i64>,
    /// Of the filter over each spatial dimension.
    pub stride: Vec<i64>,
    /// How far apart the filter's elements are.
    pub dilation: Vec<i64>,
    /// Scales the result.
    pub alpha: Factor,
    /// Scales what the result held before.
    pub beta: Factor,
}

/// An operation on each element: y = mode(alpha1 · x, alpha2 · b, t), or a derivative dx of one from dy. Places are of
/// [`Kernel::tensors`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointwise {
    /// Which operation.
    pub mode: cudnnPointwiseMode_t,
    /// What it is computed in.
    pub compute_type: cudnnDataType_t,
    /// `CUDNN_ATTR_OPERATION_POINTWISE_{X,B,T,Y,DX,DY}DESC` and the tensor of each that is set, in the names' order.
    pub operands: Vec<(cudnnBackendAttributeName_t, usize)>,
    /// Scales x.
    pub alpha1: Factor,
    /// Scales b.
    pub alpha2: Factor,
    /// What else its `CUDNN_BACKEND_POINTWISE_DESCRIPTOR` was given: clips, slopes and the like, in the names' order.
    /// Each is set as a double, but for `CUDNN_ATTR_POINTWISE_NAN_PROPAGATION`.
    pub parameters: Vec<(cudnnBackendAttributeName_t, Factor)>,
}

/// One operation of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The only one of its kind in the graph.
    Convolution(Convolution),
    /// Before or behind it.
    Pointwise(Pointwise),
}

/// An operation graph: one convolution, alone or with pointwise operations. Equal kernels cost the same, so it is what
/// plans are kept by. What the program calls its tensors (their unique ids) has no part in it: here they are numbered
/// by their places, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// In the order in which the operations first name them.
    pub tensors: Vec<Tensor>,
    /// In the program's order.
    pub operations: Vec<Operation>,
}
