//! Our own engines for operation graphs, as candidates beside cuDNN's: single convolutions over images in NCHW.

use cudnn_abi::*;

use crate::engines::{self, Correlation, ENGINES, FilterGradient, Numerics, Row};
use crate::problem::graph::{EngineConfiguration, Factor, Knob, Problem, Route, Tensor};
use cudnn::convolution::Direction;
use gpu::Element;

/// The alignment that our GPU kernels need of addresses, in bytes.
const ALIGNMENT: i64 = 16;

/// Returns the configuration of a row's engine with these knobs.
pub fn configuration(row: &Row, knobs: Vec<Knob>) -> EngineConfiguration {
    // cuDNN notes tensor cores on its own engines in the same way, for TF32 too. Engines as exact as without tensor
    // cores get no note, so that every class admits them.
    let is_noted = row.numerics == Numerics::OnTensorCores;
    let numerics = is_noted.then_some(CUDNN_NUMERICAL_NOTE_TENSOR_CORE).into_iter().collect();
    let behavior = [CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION].into_iter().collect();
    let engine = EngineConfiguration::new(row.number, knobs, numerics, behavior);
    EngineConfiguration { route: Route::Ours, ..engine }
}

/// Makes one of our engines ready, see [`our_candidates`](super::our_candidates). `Err` if it does not compute the
/// problem.
pub fn plan(problem: &Problem, engine: &EngineConfiguration) -> Result<Box<dyn engines::Plan>, cudnnStatus_t> {
    let row = ENGINES.iter().find(|row| row.number == engine.engine).ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
    let problem = read(problem, row.is_exact()).ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
    (row.plan)(cudnn::device(), &problem, engine.knobs).map_err(engines::unavailable)
}

/// Reads a problem for our GPU kernels. `None` if it is more than a convolution over images in NCHW.
pub fn read(problem: &Problem, is_exact: bool) -> Option<engines::Problem> {
    let convolution = problem.convolution();
    let [x, w, y] = [convolution.x, convolution.w, convolution.y].map(|place| &problem.tensors[place]);
    let is_stored = |tensor: &Tensor| {
        tensor.data_type == x.data_type
            && !tensor.is_virtual
            && !tensor.is_by_value
            && tensor.channels_first().is_some()
            && tensor.alignment % ALIGNMENT == 0
    };
    let [stride, dilation, pre, post] =
        [&convolution.stride, &convolution.dilation, &convolution.pre_padding, &convolution.post_padding];
    let alike = |values: &[i64]| values.first().copied().filter(|first| values.iter().all(|value| value == first));
    let is_ours = problem.operations.len() == 1
        && convolution.mode == CUDNN_CROSS_CORRELATION
        && convolution.compute_type == CUDNN_DATA_FLOAT
        && [x, w, y].into_iter().all(is_stored)
        && [x.dims[0], w.dims[0], w.dims[1]] == [y.dims[0], y.dims[1], x.dims[1]]
        && dilation.iter().all(|dilation| *dilation == 1)
        && pre == post
        && (!is_exact || x.data_type == CUDNN_DATA_FLOAT)
        && [convolution.alpha, convolution.beta]
            .iter()
            .all(|factor| *factor == Factor::new(factor.value() as f32 as f64));
    if !is_ours {
        return None;
    }
    if covers_image(problem) {
        return folded(problem, is_exact);
    }
    if x.dims.len() != 4 {
        return None;
    }
    let element = Element::of(x.data_type)?;
    let size = |value: i64| usize::try_from(value).ok();
    let spatial = |tensor: &Tensor| Some([size(tensor.dims[2])?, size(tensor.dims[3])?]);
    let [images, k, c] = [size(x.dims[0])?, size(w.dims[0])?, size(w.dims[1])?];
    let [x_pixels, y_pixels, filter] = [spatial(x)?, spatial(y)?, spatial(w)?];
    let (stride, padding) = (size(alike(stride)?)?, size(alike(pre)?)?);
    // Checks that y has the size that follows from x.
    let is_whole = |axis: usize| {
        let padded = padding.checked_mul(2).and_then(|both| x_pixels[axis].checked_add(both));
        let beyond = padded.and_then(|padded| padded.checked_sub(filter[axis]));
        beyond.is_some_and(|beyond| y_pixels[axis] == beyond / stride.max(1) + 1)
    };
    let [rows, columns] = filter;
    let correlation = |is_gradient: bool| {
        let reaches = rows.checked_sub(padding + 1)?;
        let (padding, depth, m) = if is_gradient { (reaches, k, c) } else { (padding, c, k) };
        let [from, to] = if is_gradient { [y_pixels, x_pixels] } else { [x_pixels, y_pixels] };
        let correlation = Correlation {
            element,
            is_exact,
            is_gradient,
            images,
            depth,
            rows: m,
            from,
            to,
            filter: rows,
            stride,
            padding,
        };
        (rows == columns && is_whole(0) && is_whole(1)).then_some(engines::Problem::Correlation(correlation))
    };
    match convolution.direction {
        Direction::Forward => correlation(false),
        Direction::BackwardData => correlation(true),
        Direction::BackwardFilter => Some(engines::Problem::FilterGradient(FilterGradient {
            element,
            is_exact,
            images,
            k,
            c,
            x: x_pixels,
            dy: y_pixels,
            filter,
            stride,
            padding,
        })),
    }
}

/// Returns whether the filter covers the whole image, and has more than one place: each image is one row of a product.
pub fn covers_image(problem: &Problem) -> bool {
    let convolution = problem.convolution();
    let [x, w, y] = [convolution.x, convolution.w, convolution.y].map(|place| problem.tensors[place].dims.get(2..));
    let is_none = |padding: &[i64]| padding.iter().all(|zeros| *zeros == 0);
    x == w
        && w.is_some_and(|filter| filter.iter().any(|places| *places > 1))
        && y.is_some_and(|places| places.iter().all(|places| *places == 1))
        && is_none(&convolution.pre_padding)
        && is_none(&convolution.post_padding)
}

/// Reads a problem whose filter covers the image: the image's places are channels of an image of one place. Packed tensors
/// lie in memory as they would then.
fn folded(problem: &Problem, is_exact: bool) -> Option<engines::Problem> {
    let convolution = problem.convolution();
    let [x, w] = [convolution.x, convolution.w].map(|place| &problem.tensors[place]);
    let element = Element::of(x.data_type)?;
    let product = |dims: &[i64]| {
        let sizes = dims.iter().map(|&dim| usize::try_from(dim).ok());
        sizes.into_iter().try_fold(1_usize, |product, size| product.checked_mul(size?))
    };
    let [images, outputs, inputs] = [product(&x.dims[..1])?, product(&w.dims[..1])?, product(&w.dims[1..])?];
    let one = [1, 1];
    let correlation = |is_gradient: bool| {
        let [depth, rows] = if is_gradient { [outputs, inputs] } else { [inputs, outputs] };
        let (filter, stride, padding) = (1, 1, 0);
        let (from, to) = (one, one);
        let of = Correlation { element, is_exact, is_gradient, images, depth, rows, from, to, filter, stride, padding };
        engines::Problem::Correlation(of)
    };
    Some(match convolution.direction {
        Direction::Forward => correlation(false),
        Direction::BackwardData => correlation(true),
        Direction::BackwardFilter => engines::Problem::FilterGradient(FilterGradient {
            element,
            is_exact,
            images,
            k: outputs,
            c: inputs,
            x: one,
            dy: one,
            filter: one,
            stride: 1,
            padding: 0,
        }),
    })
}
