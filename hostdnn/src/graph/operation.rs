//! Operations: the nodes of an operation graph.

use super::convolution::Geometry;
use super::tensor::{Tensor, supported};
use super::*;
use crate::convolution::Direction;

/// The kind of a direction's operation. cuDNN's answers differ between the directions: whether alpha's and beta's
/// elements are counted before their type is checked; the statuses for alpha and beta of a wrong type, for x of one,
/// for no x, for an unknown attribute; how descriptors are read; and which factor's type alpha is read as.
macro_rules! convolution_kind {
    ($kind:ident: $direction:ident, factors of $scale:ident $($counted_first:ident)?, answering $scale_type:ident $x_type:ident $no_x:ident $unknown:ident, $asked:expr,
     alpha as $typed_by:ident, $x:ident $w:ident $y:ident $conv:ident $alpha:ident $beta:ident) => {
        pub const $kind: Kind = Kind {
            attributes: &[
                descriptor($x, $asked).answering($x_type, NOT_SUPPORTED).answering_few($no_x),
                descriptor($w, $asked),
                descriptor($y, $asked),
                descriptor($conv, $asked),
                factor_of_convolution($alpha, $scale, $scale_type)$(.$counted_first())?.typed_by($typed_by).or_real(1.0),
                factor_of_convolution($beta, $scale, $scale_type)$(.$counted_first())?.or_real(0.0),
            ],
            finalize: |descriptor| Convolution::read(descriptor, &Names::$direction)?.check(),
            unknown_set: $unknown,
            ..Kind::USUAL
        };

        impl Names {
            #[allow(non_upper_case_globals)] // the direction's own name
            const $direction: Self = Self {
                direction: Direction::$direction,
                x: $x,
                w: $w,
                y: $y,
                geometry: $conv,
                alpha: $alpha,
                beta: $beta,
            };
        }
    };
}

/// A tensor or convolution of a convolution's operation; `listing` is how it is read.
const fn descriptor(name: cudnnBackendAttributeName_t, listing: Listing) -> Attribute {
    let status = match listing {
        Listing::Asked(_, status) => status,
        _ => BAD_PARAM,
    };
    let one = Attribute::one(name, DESCRIPTOR).answering(BAD_PARAM, NOT_SUPPORTED).answering_few(BAD_PARAM);
    one.read_as(DESCRIPTOR, status).listing(listing)
}

/// The names of a direction's attributes.
struct Names {
    direction: Direction,
    x: cudnnBackendAttributeName_t,
    w: cudnnBackendAttributeName_t,
    y: cudnnBackendAttributeName_t,
    geometry: cudnnBackendAttributeName_t,
    alpha: cudnnBackendAttributeName_t,
    beta: cudnnBackendAttributeName_t,
}

/// The types that forward's factors may be set as: 4 bytes are read as a float, whatever their type.
const SCALE_BITS: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT, CUDNN_TYPE_INT32];

convolution_kind! { FORWARD: Forward, factors of SCALE_BITS,
    answering BAD_PARAM BAD_PARAM BAD_PARAM BAD_PARAM, Listing::Asked(1, CUDNN_STATUS_NOT_INITIALIZED),
    alpha as CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA
}
convolution_kind! { BACKWARD_DATA: BackwardData, factors of SCALE counted_first,
    answering NOT_SUPPORTED BAD_PARAM BAD_PARAM BAD_PARAM, Listing::Asked(i64::MAX, BAD_PARAM),
    alpha as CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA
}
convolution_kind! { BACKWARD_FILTER: BackwardFilter, factors of SCALE,
    answering BAD_PARAM ATTRIBUTE_TYPE NOT_SUPPORTED NOT_SUPPORTED, Listing::Asked(i64::MAX, BAD_PARAM),
    alpha as CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA
}

/// Alpha or beta of a convolution's operation.
const fn factor_of_convolution(
    name: cudnnBackendAttributeName_t,
    types: &'static [cudnnBackendAttributeType_t],
    set_type: cudnnStatus_t,
) -> Attribute {
    Attribute::one(name, types).answering(set_type, BAD_PARAM).read_as(SCALE, BAD_PARAM)
}

/// A tensor or function of a pointwise operation.
const fn operand(name: cudnnBackendAttributeName_t) -> Attribute {
    let operand = Attribute::one(name, DESCRIPTOR).answering(BAD_PARAM, BAD_PARAM).null(Null::Unset);
    operand.unreadable(NOT_SUPPORTED)
}

const fn factor(name: cudnnBackendAttributeName_t) -> Attribute {
    Attribute::one(name, SCALE).answering(BAD_PARAM, BAD_PARAM).unreadable(NOT_SUPPORTED).or_real(1.0)
}

pub const POINTWISE: Kind = Kind {
    attributes: &[
        operand(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
        operand(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
        operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
        operand(CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
        factor(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1),
        factor(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2),
        operand(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC),
        operand(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
        operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
    ],
    finalize: check_pointwise,
    unknown_get: NOT_SUPPORTED,
    ..Kind::USUAL
};

/// The statuses for a missing descriptor, and for one that is not finalized.
const STATUSES: (cudnnStatus_t, cudnnStatus_t) = (BAD_PARAM, BAD_PARAM);

/// y = alpha · (w ∗ x) + beta · y, or one of its derivatives; `x`, `w` and `y` stand for dx, dw and dy too.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// The direction, which says which of the three is computed.
    pub direction: Direction,
    /// The input of Forward.
    pub x: Tensor,
    /// The filter.
    pub w: Tensor,
    /// The output of Forward.
    pub y: Tensor,
    /// Padding, strides, dilation.
    pub geometry: Geometry,
    /// Scales the result.
    pub alpha: f64,
    /// Scales the result's previous contents.
    pub beta: f64,
}

/// y = mode(alpha1 · x, alpha2 · b).
#[derive(Clone, Debug)]
pub struct Pointwise {
    /// The function, its computing type, and its parameters.
    pub function: Arc<Descriptor>,
    /// Its first operand.
    pub x: Tensor,
    /// Its second, if it has one.
    pub b: Option<Tensor>,
    /// Its result.
    pub y: Tensor,
    /// Scales x.
    pub alpha1: f64,
    /// Scales b.
    pub alpha2: f64,
}

/// One node of an operation graph.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A convolution of any direction.
    Convolution(Box<Convolution>),
    /// A function of each element.
    Pointwise(Box<Pointwise>),
}

impl Operation {
    /// The operation of a finalized descriptor; CUDNN_STATUS_NOT_SUPPORTED for a pointwise operation that needs more
    /// than two operands, or is a derivative.
    pub fn of(descriptor: &Descriptor) -> Result<Self> {
        let names = match descriptor.kind() {
            CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => &Names::Forward,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => &Names::BackwardData,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => &Names::BackwardFilter,
            _ => return Ok(Self::Pointwise(Box::new(Pointwise::read(descriptor)?))),
        };
        Ok(Self::Convolution(Box::new(Convolution::read(descriptor, names)?)))
    }

    /// Returns whether this kind of descriptor is an operation.
    pub fn is(kind: cudnnBackendDescriptorType_t) -> bool {
        let first = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
        (first..=CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR).contains(&kind)
    }
}

impl Convolution {
    fn read(descriptor: &Descriptor, names: &Names) -> Result<Self> {
        let tensor = |name, what| {
            descriptor.finalized(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what, STATUSES).map(|tensor| Tensor::of(tensor))
        };
        let geometry =
            descriptor.finalized(names.geometry, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "the convolution", STATUSES)?;
        Ok(Self {
            direction: names.direction,
            x: tensor(names.x, "x (or dx)")?,
            w: tensor(names.w, "w (or dw)")?,
            y: tensor(names.y, "y (or dy)")?,
            geometry: Geometry::of(geometry),
            alpha: descriptor.real(names.alpha),
            beta: descriptor.real(names.beta),
        })
    }

    /// Groups, from the channels of input and filter.
    pub fn groups(&self) -> i64 {
        self.x.dims[1] / self.w.dims[1]
    }

    fn check(&self) -> Result {
        let (x, w, y) = (&self.x.dims, &self.w.dims, &self.y.dims);
        let rank = self.geometry.spatial + 2;
        require([x, w, y].iter().all(|dims| dims.len() == rank), "tensors have two dimensions more than are spatial")?;
        require([x, w, y].iter().all(|dims| dims.iter().all(|&dim| dim > 0)), "dimensions are positive")?;
        require(self.w.has_no_gaps(), "the filter has no gaps")?;
        let apart = [&self.x, &self.y].iter().all(|tensor| !tensor.has_overlapping_strides());
        require(apart, "the strides of input and output do not overlap")?;
        require(y[0] == x[0], "input and output have as many images")?;
        require(x[1] % w[1] == 0, "input channels are filter channels times groups")?;
        require(w[0] % self.groups() == 0, "the groups share out the output channels")?;
        require(y[1] == w[0], "output channels are the filter's")?;
        let fits = (0..rank - 2).all(|i| self.geometry.output_extent(x[i + 2], w[i + 2], i) == Some(y[i + 2]));
        require(fits, "the output has the extents that follow from the input")?;
        let status = CUDNN_STATUS_NOT_INITIALIZED; // as in cuDNN
        supported(self.geometry.spatial <= 3, status, "convolutions in at most three dimensions")
    }
}

impl Pointwise {
    fn read(descriptor: &Descriptor) -> Result<Self> {
        let tensor = |name, what| {
            descriptor.finalized(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what, STATUSES).map(|tensor| Tensor::of(tensor))
        };
        let others = [
            CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_DYDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        ];
        if others.iter().any(|&name| !descriptor.descriptors(name).is_empty()) {
            let reason = "supported are pointwise operations that compute y from x and b";
            return Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, reason));
        }
        let b = CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
        let function = function_of(descriptor).filter(|function| function.kind() == CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        let missing = || Error::new(BAD_PARAM, "the pointwise operation's descriptor is missing");
        let function = function.ok_or_else(missing)?;
        Ok(Self {
            function: function.clone(),
            x: tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, "x")?,
            b: if descriptor.descriptors(b).is_empty() { None } else { Some(tensor(b, "b")?) },
            y: tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, "y")?,
            alpha1: descriptor.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1),
            alpha2: descriptor.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2),
        })
    }
}

/// The tensors that a pointwise mode is a function of.
enum Operands {
    X,
    XAndB,
    /// x and an axis.
    Axis,
    /// x, b, and t, which selects between them.
    Selected,
    /// x and dy; the result is dx.
    Derivative,
}

/// `None` for a mode that cuDNN does not have.
fn operands_of(mode: cudnnPointwiseMode_t) -> Option<Operands> {
    Some(match mode {
        CUDNN_POINTWISE_SQRT
        | CUDNN_POINTWISE_ABS..=CUDNN_POINTWISE_RECIPROCAL
        | CUDNN_POINTWISE_RELU_FWD..=CUDNN_POINTWISE_GELU_APPROX_TANH_FWD
        | CUDNN_POINTWISE_LOGICAL_NOT => Operands::X,
        CUDNN_POINTWISE_ADD..=CUDNN_POINTWISE_SUB
        | CUDNN_POINTWISE_ATAN2
        | CUDNN_POINTWISE_CMP_EQ..=CUDNN_POINTWISE_CMP_LE
        | CUDNN_POINTWISE_LOGICAL_AND..=CUDNN_POINTWISE_LOGICAL_OR => Operands::XAndB,
        CUDNN_POINTWISE_RELU_BWD..=CUDNN_POINTWISE_GELU_APPROX_TANH_BWD => Operands::Derivative,
        CUDNN_POINTWISE_GEN_INDEX => Operands::Axis,
        CUDNN_POINTWISE_BINARY_SELECT => Operands::Selected,
        _ => return None,
    })
}

/// A pointwise operation's function, if it is set.
fn function_of(descriptor: &Descriptor) -> Option<&Arc<Descriptor>> {
    descriptor.descriptors(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).first()
}

/// The mode of a pointwise operation's function.
fn mode(descriptor: &Descriptor) -> cudnnPointwiseMode_t {
    function_of(descriptor).map_or(CUDNN_POINTWISE_ADD, |function| function.enumerator(CUDNN_ATTR_POINTWISE_MODE))
}

/// The ranks of the tensors that a mode needs are equal; an unset tensor has rank 0. The graph checks extents, and
/// modes that cuDNN does not have.
fn check_pointwise(descriptor: &mut Descriptor) -> Result {
    let rank = |name| {
        let dims = |tensor: &Arc<Descriptor>| tensor.integers(CUDNN_ATTR_TENSOR_DIMENSIONS).len();
        descriptor.descriptors(name).first().map_or(0, dims)
    };
    let x = rank(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    let like_x = |name| require(rank(name) == x, "tensors of a pointwise operation have as many dimensions");
    if matches!(mode(descriptor), CUDNN_POINTWISE_RELU_FWD | CUDNN_POINTWISE_RELU_BWD) {
        let clips = function_of(descriptor).map_or([0.0; 2], |function| {
            [CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP].map(|name| function.real(name))
        });
        require(clips[0].is_nan() || clips[1].is_nan() || clips[0] <= clips[1], "ReLU clips below and then above")?;
    }
    match operands_of(mode(descriptor)) {
        None => Ok(()),
        Some(Operands::X) => like_x(CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
        Some(Operands::XAndB) => {
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)?;
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
        }
        Some(Operands::Axis) => {
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)?;
            let axis = function_of(descriptor).map_or(-1, |function| function.integer(CUDNN_ATTR_POINTWISE_AXIS));
            require(axis >= 0, "indices along an axis")
        }
        Some(Operands::Selected) => {
            let t = descriptor.descriptors(CUDNN_ATTR_OPERATION_POINTWISE_TDESC).first();
            require(t.is_some_and(|t| t.is_finalized()), "t is finalized")?;
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)?;
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
        }
        Some(Operands::Derivative) => {
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC)?;
            like_x(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC)
        }
    }
}

/// An operation's tensors: those that it reads, and those that it computes.
pub fn tensors(descriptor: &Descriptor) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    if descriptor.kind() == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR {
        let known = operands_of(mode(descriptor)).is_some();
        supported(known, CUDNN_STATUS_NOT_INITIALIZED, "pointwise modes of cuDNN's")?; // the status is cuDNN's
    }
    let mut tensors = (Vec::new(), Vec::new());
    for attribute in descriptor.of.attributes {
        let Some(set) = descriptor.descriptors(attribute.name).first() else { continue };
        if set.kind() != CUDNN_BACKEND_TENSOR_DESCRIPTOR {
            continue;
        }
        require(set.is_finalized(), "tensors of a graph are finalized")?;
        let computed = matches!(
            attribute.name,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y
                | CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
                | CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW
                | CUDNN_ATTR_OPERATION_POINTWISE_YDESC
                | CUDNN_ATTR_OPERATION_POINTWISE_DXDESC
        );
        let list = if computed { &mut tensors.1 } else { &mut tensors.0 };
        list.push(Tensor::of(set));
    }
    require(!tensors.0.is_empty() && !tensors.1.is_empty(), "operations of a graph have operands and a result")?;
    Ok(tensors)
}
