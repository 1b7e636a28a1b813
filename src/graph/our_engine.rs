//! Engines of ours for operation graphs, offered beside cuDNN's: the gradient of a filter.

use cudnn_abi::*;

use super::offers::Asking;
use crate::cudnn::convolution::Direction;
use crate::cudnn::graph::{EngineConfiguration, Factor, Kernel, Route, Tensor};
use crate::device::Device;
use crate::exec::{BackwardFilter, FilterGradient};

/// The index of the gradient's engine.
const BACKWARD_FILTER: i64 = 0;
/// Its knob: into how many parts the pixels are cut.
const SPLITS: cudnnBackendKnobType_t = 0;
/// What its accesses need of addresses, in bytes.
const ALIGNMENT: i64 = 16;

/// The one for the whole mini-batch within `limit` bytes of workspace on the calling thread's device, if the class admits it.
/// It needs no micro-batches.
///
/// An Inf or NaN in x may also reach places of the filter's gradient that it has no part in, by a product with zero. No class
/// in which NaN is to spread as IEEE 754 has it admits the engine.
pub fn offered(asking: &Asking, limit: usize) -> Option<EngineConfiguration> {
    let gradient = gradient(asking.kernel)?;
    // As NVIDIA's libraries have it.
    if gradient.data_type == CUDNN_DATA_FLOAT && std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|it| it == "0") {
        return None;
    }
    let splits = BackwardFilter::best_splits(Device::current(), &gradient, limit)?;
    // As cuDNN notes of its own, in TF32 too.
    let numerics = [CUDNN_NUMERICAL_NOTE_TENSOR_CORE].into_iter().collect();
    let behavior = [CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION].into_iter().collect();
    let engine = EngineConfiguration::new(BACKWARD_FILTER, vec![(SPLITS, splits as i64)], numerics, behavior);
    let engine = EngineConfiguration { route: Route::Ours, ..engine };
    asking.admits(&engine).then_some(engine)
}

/// What computes a kernel. `Err` where ours does not.
pub fn plan(kernel: &Kernel, engine: &EngineConfiguration) -> Result<BackwardFilter, cudnnStatus_t> {
    let (BACKWARD_FILTER, &[(SPLITS, splits)]) = (engine.engine, engine.knobs) else {
        return Err(CUDNN_STATUS_NOT_SUPPORTED);
    };
    let splits = usize::try_from(splits).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED)?;
    let gradient = gradient(kernel).ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
    BackwardFilter::new(Device::current(), gradient, splits).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED)
}

/// What is computed, if it is nothing but the gradient of a filter over images in NCHW.
fn gradient(kernel: &Kernel) -> Option<FilterGradient> {
    let convolution = kernel.convolution();
    let [x, w, y] = [convolution.x, convolution.w, convolution.y].map(|place| &kernel.tensors[place]);
    let is_stored = |tensor: &Tensor| {
        tensor.data_type == x.data_type
            && !tensor.is_virtual
            && !tensor.is_by_value
            && tensor.dims.len() == 4
            && tensor.channels_first().is_some()
            && tensor.alignment % ALIGNMENT == 0
    };
    let [stride, dilation, pre, post] =
        [&convolution.stride, &convolution.dilation, &convolution.pre_padding, &convolution.post_padding];
    let alike = |values: &[i64]| values.first().copied().filter(|first| values.iter().all(|value| value == first));
    let is_ours = kernel.operations.len() == 1
        && convolution.direction == Direction::BackwardFilter
        && convolution.mode == CUDNN_CROSS_CORRELATION
        && convolution.compute_type == CUDNN_DATA_FLOAT
        && [x, w, y].into_iter().all(is_stored)
        && [x.dims[0], w.dims[0], w.dims[1]] == [y.dims[0], y.dims[1], x.dims[1]]
        && alike(dilation) == Some(1)
        && pre == post
        && [convolution.alpha, convolution.beta]
            .iter()
            .all(|factor| *factor == Factor::new(factor.value() as f32 as f64));
    if !is_ours {
        return None;
    }
    let size = |value: i64| usize::try_from(value).ok();
    let spatial = |tensor: &Tensor| Some([size(tensor.dims[2])?, size(tensor.dims[3])?]);
    Some(FilterGradient {
        data_type: x.data_type,
        images: size(x.dims[0])?,
        k: size(w.dims[0])?,
        c: size(w.dims[1])?,
        x: spatial(x)?,
        dy: spatial(y)?,
        filter: spatial(w)?,
        stride: size(alike(stride)?)?,
        padding: size(alike(pre)?)?,
    })
}
