//! Operations: the nodes of an operation graph.

use super::convolution::Geometry;
use super::tensor::Tensor;
use super::*;
use crate::convolution::Direction;

macro_rules! convolution_kind {
    ($kind:ident: $direction:ident, $x:ident $w:ident $y:ident $conv:ident $alpha:ident $beta:ident) => {
        pub const $kind: Kind = Kind {
            attributes: &[
                Attribute::one($x, DESCRIPTOR),
                Attribute::one($w, DESCRIPTOR),
                Attribute::one($y, DESCRIPTOR),
                Attribute::one($conv, DESCRIPTOR),
                Attribute::one($alpha, SCALE).or_real(1.0),
                Attribute::one($beta, SCALE).or_real(0.0),
            ],
            finalize: |descriptor| Convolution::read(descriptor, &Names::$direction)?.check(),
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

/// What a direction calls its attributes.
struct Names {
    direction: Direction,
    x: cudnnBackendAttributeName_t,
    w: cudnnBackendAttributeName_t,
    y: cudnnBackendAttributeName_t,
    geometry: cudnnBackendAttributeName_t,
    alpha: cudnnBackendAttributeName_t,
    beta: cudnnBackendAttributeName_t,
}

convolution_kind! { FORWARD: Forward,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA
}
convolution_kind! { BACKWARD_DATA: BackwardData,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA
}
convolution_kind! { BACKWARD_FILTER: BackwardFilter,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA
}

pub const POINTWISE: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, DESCRIPTOR),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, DESCRIPTOR),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, DESCRIPTOR),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, DESCRIPTOR),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, SCALE).or_real(1.0).set_alone(),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, SCALE).or_real(1.0).set_alone(),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, DESCRIPTOR),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, DESCRIPTOR),
        Attribute::one(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, DESCRIPTOR),
    ],
    finalize: check_pointwise,
};

/// y = alpha · (w ∗ x) + beta · y, or one of its derivatives; `x`, `w` and `y` stand for dx, dw and dy too.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// Which of the three is computed.
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
    /// Scales what the result held before.
    pub beta: f64,
}

/// y = mode(alpha1 · x, alpha2 · b).
#[derive(Clone, Debug)]
pub struct Pointwise {
    /// Which function, what it is computed in, and its parameters.
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
    /// What a finalized descriptor of an operation says; CUDNN_STATUS_NOT_SUPPORTED for a pointwise operation that needs
    /// more than two operands, or is a derivative.
    pub fn of(descriptor: &Descriptor) -> Result<Self> {
        let names = match descriptor.kind() {
            CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => &Names::Forward,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => &Names::BackwardData,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => &Names::BackwardFilter,
            _ => return Ok(Self::Pointwise(Box::new(Pointwise::read(descriptor)?))),
        };
        Ok(Self::Convolution(Box::new(Convolution::read(descriptor, names)?)))
    }

    /// Whether descriptors of a kind are operations.
    pub fn is(kind: cudnnBackendDescriptorType_t) -> bool {
        let first = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
        (first..=CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR).contains(&kind)
    }
}

impl Convolution {
    fn read(descriptor: &Descriptor, names: &Names) -> Result<Self> {
        let tensor = |name, what| {
            descriptor.finalized(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what).map(|tensor| Tensor::of(tensor))
        };
        let geometry = descriptor.finalized(names.geometry, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "the convolution")?;
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

    /// Groups, which follow from the channels of input and filter.
    pub fn groups(&self) -> i64 {
        self.x.dims[1] / self.w.dims[1]
    }

    fn check(&self) -> Result {
        let (x, w, y) = (&self.x.dims, &self.w.dims, &self.y.dims);
        let rank = self.geometry.spatial + 2;
        require([x, w, y].iter().all(|dims| dims.len() == rank), "tensors have two dimensions more than are spatial")?;
        require([x, w, y].iter().all(|dims| dims.iter().all(|&dim| dim > 0)), "dimensions are positive")?;
        require(y[0] == x[0], "input and output have as many images")?;
        require(x[1] % w[1] == 0, "input channels are filter channels times groups")?;
        require(w[0] % self.groups() == 0, "the groups share out the output channels")?;
        require(y[1] == w[0], "output channels are the filter's")?;
        let fits = (0..rank - 2).all(|i| self.geometry.output_extent(x[i + 2], w[i + 2], i) == Some(y[i + 2]));
        require(fits, "the output has the extents that follow from the input")
    }
}

impl Pointwise {
    fn read(descriptor: &Descriptor) -> Result<Self> {
        let tensor = |name, what| {
            descriptor.finalized(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what).map(|tensor| Tensor::of(tensor))
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
        let function = descriptor.finalized(
            CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
            CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
            "the pointwise operation's descriptor",
        )?;
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

/// The ranks of the tensors that a mode needs are equal; whether extents go together is the graph's affair.
fn check_pointwise(descriptor: &mut Descriptor) -> Result {
    let function = descriptor.finalized(
        CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
        CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
        "the pointwise operation's descriptor",
    )?;
    let mode = function.enumerator(CUDNN_ATTR_POINTWISE_MODE);
    let rank = |name| {
        let dims = |tensor: &Arc<Descriptor>| tensor.integers(CUDNN_ATTR_TENSOR_DIMENSIONS).len();
        descriptor.descriptors(name).first().map_or(0, dims)
    };
    let x = rank(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    if (CUDNN_POINTWISE_RELU_BWD..=CUDNN_POINTWISE_GELU_APPROX_TANH_BWD).contains(&mode) {
        require(rank(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC) == x, "dx and x have as many dimensions")?;
        return require(rank(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC) == x, "dy and x have as many dimensions");
    }
    require(rank(CUDNN_ATTR_OPERATION_POINTWISE_YDESC) == x, "x and y have as many dimensions")?;
    let binary = (CUDNN_POINTWISE_ADD..=CUDNN_POINTWISE_SUB).contains(&mode) && mode != CUDNN_POINTWISE_SQRT;
    require(!binary || rank(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == x, "x and b have as many dimensions")
}
