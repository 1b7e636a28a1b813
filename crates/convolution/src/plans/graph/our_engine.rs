//! Our own engines for operation graphs, as candidates beside cuDNN's: single convolutions over packed tensors, channels
//! first.

#[cfg(test)]
mod tests;

use cudnn_abi::*;

use crate::engines::{self, Convolution, ENGINES, Numerics, Refusal, Row};
use crate::problem::graph::{EngineConfiguration, Factor, Knob, Problem, Route};
use gpu::Element;

/// The alignment that our GPU kernels need of addresses, in bytes.
pub const ALIGNMENT: i64 = 16;

/// Returns the configuration of a row's engine with these knobs.
pub fn configuration(row: &Row, knobs: Vec<Knob>) -> EngineConfiguration {
    // cuDNN notes tensor cores on its own engines in the same way, for TF32 too. Engines as exact as without tensor
    // cores get no note, so that every class admits them.
    let on_tensor_cores = (row.numerics == Numerics::OnTensorCores).then_some(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    // A library's product has no padding whose zeros meet other numbers.
    let is_nan_strict = row.is_product.then_some(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
    let numerics = on_tensor_cores.into_iter().chain(is_nan_strict).collect();
    let behavior = [CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION].into_iter().collect();
    let engine = EngineConfiguration::new(row.number, knobs, numerics, behavior);
    EngineConfiguration { route: Route::Ours, ..engine }
}

/// Makes one of our engines ready, see [`our_candidates`](super::our_candidates). `Err` if it does not compute the
/// problem.
pub fn plan(problem: &Problem, engine: &EngineConfiguration) -> Result<Box<dyn engines::Plan>, cudnnStatus_t> {
    let row = ENGINES.iter().find(|row| row.number == engine.engine).ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
    let of = read(problem, row.is_exact()).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED)?;
    let plan = (row.plan)(cudnn::device(), &of.simplified(), engine.knobs).map_err(engines::unavailable)?;
    // What was added to a part of the result could not be taken back, and another engine would add it again.
    let adds_in_parts = plan.writes_in_parts() && problem.convolution().beta != Factor::ZERO;
    if adds_in_parts { Err(CUDNN_STATUS_NOT_SUPPORTED) } else { Ok(plan) }
}

/// Reads a problem for our engines. `Err` says what none of them takes; an engine may take less.
pub fn read(problem: &Problem, is_exact: bool) -> Result<Convolution, Refusal> {
    let convolution = problem.convolution();
    let [x, w, y] = [convolution.x, convolution.w, convolution.y].map(|place| &problem.tensors[place]);
    let tensors = [x, w, y];
    let parameters = [&convolution.stride, &convolution.dilation, &convolution.pre_padding, &convolution.post_padding];
    let rank = x.dims.len();
    let are_of_rank =
        tensors.iter().all(|it| it.dims.len() == rank) && parameters.iter().all(|values| values.len() + 2 == rank);
    if !are_of_rank {
        return Err(Refusal("tensors of several ranks"));
    }
    let is_read = |factor: &Factor| *factor == Factor::new(factor.value() as f32 as f64);
    Refusal::unless([
        (problem.operations.len() == 1, "fused operations"),
        (convolution.mode == CUDNN_CROSS_CORRELATION, "reversed filters"),
        (convolution.compute_type == CUDNN_DATA_FLOAT, "its type of computing"),
        (tensors.iter().all(|it| it.data_type == x.data_type), "tensors of several types"),
        (!is_exact || x.data_type == CUDNN_DATA_FLOAT, "exact products of a type that is not float"),
        (tensors.iter().all(|it| !it.is_virtual && !it.is_by_value), "tensors that are not in memory"),
        (tensors.iter().all(|it| it.channels_first().is_some()), "tensors that are not packed with channels first"),
        (tensors.iter().all(|it| it.alignment % ALIGNMENT == 0), "tensors that are not aligned to 16 bytes"),
        ([&convolution.alpha, &convolution.beta].into_iter().all(is_read), "factors that are no floats"),
        (rank > 2 && [x.dims[0], w.dims[0]] == [y.dims[0], y.dims[1]], "sizes that do not fit together"),
    ])?;
    let element = Element::of(x.data_type).ok_or(Refusal("its type of data"))?;
    let size = |value: i64| usize::try_from(value).map_err(|_| Refusal("a size that is negative"));
    let three = |values: &[i64], absent: usize| {
        let mut sizes = [absent; 3];
        let first = sizes.len().checked_sub(values.len()).ok_or(Refusal("more than three axes"))?;
        for (to, value) in sizes[first..].iter_mut().zip(values) {
            *to = size(*value)?;
        }
        Ok(sizes)
    };
    let [images, inputs, outputs, of_group] = [x.dims[0], x.dims[1], w.dims[0], w.dims[1]].map(size);
    let (inputs, outputs, of_group) = (inputs?, outputs?, of_group?);
    let groups = inputs.checked_div(of_group).unwrap_or(0);
    if groups * of_group != inputs || groups == 0 || outputs % groups != 0 {
        return Err(Refusal("channels that do not fit together"));
    }
    let read = Convolution {
        element,
        is_exact,
        direction: convolution.direction,
        images: images?,
        inputs,
        outputs,
        groups,
        x: three(&x.dims[2..], 1)?,
        y: three(&y.dims[2..], 1)?,
        filter: three(&w.dims[2..], 1)?,
        stride: three(&convolution.stride, 1)?,
        padding: three(&convolution.pre_padding, 0)?,
        dilation: three(&convolution.dilation, 1)?,
    };
    let post = three(&convolution.post_padding, 0)?;
    // Checks that y has the size that follows from x.
    let is_whole = |axis: usize| {
        let padded = read.x[axis].checked_add(read.padding[axis])?.checked_add(post[axis])?;
        let reach = read.filter[axis].checked_sub(1)?.checked_mul(read.dilation[axis])?;
        let beyond = padded.checked_sub(reach.checked_add(1)?)?;
        (read.y[axis] == beyond.checked_div(read.stride[axis])? + 1).then_some(())
    };
    let is_whole = (0..3).all(|axis| is_whole(axis).is_some());
    if is_whole { Ok(read) } else { Err(Refusal("sizes that do not fit together")) }
}
