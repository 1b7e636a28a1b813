//! Runs a batch on a device.

use std::ffi::c_void;

use cudnn_abi::*;
use guest::refusal::Refusal;
use vertex::batch::Batch;

use super::arrays::{Call, Sizes, checked};
use super::given::bad;
use super::types::ucudnnVertexNetArguments_t;
use crate::{Bytes, DeviceBatch, Gradients, Inputs, Net, Optimizer, Step};

/// Launches a run.
///
/// # Safety
/// As for [`super::host::run`], until the run has ended on the stream, in memory of the net's device.
pub unsafe fn run(
    net: &Net,
    batch: &Batch,
    arrays: &DeviceBatch,
    given: &ucudnnVertexNetArguments_t,
    bytes: Bytes,
    call: Call<'_>,
    stream: *mut c_void,
) -> Result<(), Refusal> {
    let (element, workspace, reserve) = (net.element().bytes(), bytes.workspace, bytes.reserve);
    let (rows, vertices) = match net.is_static() {
        true => (batch.maxima().vertices, batch.maxima().vertices),
        false => (batch.pulled_rows(), batch.vertices()),
    };
    let sizes = Sizes { element, sum: size_of::<f32>(), rows, vertices, workspace, reserve, alignment: 256 };
    // SAFETY: the caller promises the arrays of pointers.
    let its = unsafe { checked(net.net().declaration(), given, sizes, call) }?;
    if matches!(call, Call::Step(..)) {
        vertex::host::check_rates(given.learningRate.into(), given.weightDecay.into()).map_err(bad)?;
    }
    let is_captured = net.device().is_capturing(stream);
    if is_captured && !net.is_static() {
        let why = "the stream is being captured, and the net was made without isStatic: the run would have this batch's \
                   structure at each replay";
        return Err(Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why));
    }
    let failed = |why: String| Refusal::new(CUDNN_STATUS_EXECUTION_FAILED, why);
    if !is_captured && !arrays.is_there_on(stream) {
        return Err(failed("the batch was not copied to the device".into()));
    }
    let inputs = Inputs {
        parameters: its.parameters,
        pulls: its.pulls,
        pushes: its.pushes,
        workspace: given.workspace,
        reserve: given.reserve,
    };
    let gradients = Gradients {
        pushes: its.push_gradients,
        pulls: its.pull_gradients,
        parameters: its.parameter_gradients,
        accumulates: given.accumulatesGradients != 0,
        are_in_float: false,
    };
    // SAFETY: the caller's promise.
    let launched = unsafe {
        match call {
            Call::Forward => net.forward(batch, arrays, inputs, stream),
            Call::Backward => net.backward(batch, arrays, inputs, gradients, stream),
            Call::Step(push, optimizer) => {
                let (labels, loss) = (given.labels, given.loss);
                let (learning_rate, weight_decay) = (given.learningRate, given.weightDecay);
                let [first, second] = its.moments;
                let optimizer =
                    optimizer.map(|(rule, given)| Optimizer { rule, first, second, powers: given.betaPowers });
                let step = Step { push, labels, loss, learning_rate, weight_decay, optimizer };
                net.step(batch, arrays, inputs, step, stream)
            }
        }
    };
    launched.map_err(|why| failed(why.to_string()))
}
