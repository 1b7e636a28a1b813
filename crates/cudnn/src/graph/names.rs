//! The names of the same attributes in the three directions' operations.

use cudnn_abi::*;

use crate::convolution::Direction;

/// The names of a direction's operation and its attributes. `x`, `w` and `y` also stand for dx, dw and dy.
pub struct ConvolutionNames {
    /// The direction.
    pub direction: Direction,
    /// The kind of the operation's descriptor.
    pub kind: cudnnBackendDescriptorType_t,
    /// The convolution's parameters.
    pub convolution: cudnnBackendAttributeName_t,
    /// Forward's input.
    pub x: cudnnBackendAttributeName_t,
    /// The filter.
    pub w: cudnnBackendAttributeName_t,
    /// Forward's output.
    pub y: cudnnBackendAttributeName_t,
    /// Scales the result.
    pub alpha: cudnnBackendAttributeName_t,
    /// Scales the result's previous values.
    pub beta: cudnnBackendAttributeName_t,
}

/// One entry per direction.
static NAMES: [ConvolutionNames; 3] = [
    ConvolutionNames {
        direction: Direction::Forward,
        kind: CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        convolution: CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        x: CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        w: CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        y: CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        alpha: CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        beta: CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
    },
    ConvolutionNames {
        direction: Direction::BackwardData,
        kind: CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        convolution: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        x: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        w: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        y: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        alpha: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        beta: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
    },
    ConvolutionNames {
        direction: Direction::BackwardFilter,
        kind: CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        convolution: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        x: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        w: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        y: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        alpha: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        beta: CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    },
];

impl ConvolutionNames {
    /// The names of a direction.
    pub fn of(direction: Direction) -> &'static Self {
        match direction {
            Direction::Forward => &NAMES[0],
            Direction::BackwardData => &NAMES[1],
            Direction::BackwardFilter => &NAMES[2],
        }
    }

    /// The names of an operation's kind; `None` if the kind is not a convolution.
    pub fn of_kind(kind: cudnnBackendDescriptorType_t) -> Option<&'static Self> {
        NAMES.iter().find(|names| names.kind == kind)
    }
}
