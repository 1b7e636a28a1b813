//! Runs batches.

use std::ffi::c_void;

use cudnn_abi::*;
use guest::refusal::Refusal;
use vertex::host::Rule;

use super::arrays::Call;
use super::given::{bad, check};
use super::objects::{Batches, NETS, Runs, batch_of, find};
use super::types::*;
use super::{device, host};

/// What a caller asks to be run.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// A run forward.
    Forward,
    /// A run backward.
    Backward,
    /// A step of training, by an optimizer, or null for gradient descent.
    Step(*const ucudnnOptimizer_t),
}

/// Runs a batch in the memory that the arguments name.
pub unsafe fn run(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    asked: Asked,
    stream: *mut c_void,
) -> Result<(), Refusal> {
    let net = find(&NETS, net.addr(), "net", "net")?;
    let batch = batch_of(&net, batch)?;
    check(arguments, "arguments")?;
    // SAFETY: neither null nor misaligned, and the caller promises the arguments.
    let given = unsafe { &*arguments };
    let call = match (asked, net.loss_push) {
        (Asked::Forward, _) => Call::Forward,
        (Asked::Backward, _) if !net.is_training() => {
            return Err(bad("the net was made without isTraining"));
        }
        (Asked::Backward, _) => Call::Backward,
        (Asked::Step(optimizer), Some(push)) if optimizer.is_null() => Call::Step(push, None),
        (Asked::Step(optimizer), Some(push)) => {
            check(optimizer, "optimizer")?;
            // SAFETY: neither null nor misaligned, and the caller promises the optimizer.
            let optimizer = unsafe { &*optimizer };
            Call::Step(push, Some((rule_of(optimizer)?, optimizer)))
        }
        (Asked::Step(_), None) => return Err(bad("the net was made without a loss")),
    };
    let step = if let Call::Step(push, _) = call { Some(push) } else { None };
    let of_batch = batch.batch.lock();
    let Batches { batch, on_device, graphs } = &*of_batch;
    if *graphs == 0 {
        return Err(bad("the batch was not set yet"));
    }
    match (&net.runs, on_device) {
        (Runs::OnDevice(its), Some(arrays)) => {
            let _entered = net.enter()?;
            let bytes = net.memory_on_device(its, Some(batch), step);
            // SAFETY: the caller promises the memory that the arguments name.
            unsafe { device::run(its, batch, arrays, given, bytes, call, stream) }
        }
        (Runs::OnHost(executor, kind), _) => {
            let memory = net.memory_on_host(executor, *kind, Some(batch), step);
            // SAFETY: the caller promises the memory that the arguments name.
            unsafe { host::run(*kind, executor, (batch, *graphs), given, memory, call) }
        }
        (Runs::OnDevice(_), None) => Err(Refusal::new(CUDNN_STATUS_INTERNAL_ERROR, "a batch without a device")),
    }
}

/// The rule of an optimizer, checked.
fn rule_of(optimizer: &ucudnnOptimizer_t) -> Result<Rule, Refusal> {
    let ucudnnOptimizer_t { rule, momentum, beta1, beta2, epsilon, .. } = *optimizer;
    let rule = match rule {
        UCUDNN_OPTIMIZER_MOMENTUM => Rule::Momentum { momentum, is_nesterov: false },
        UCUDNN_OPTIMIZER_NESTEROV => Rule::Momentum { momentum, is_nesterov: true },
        UCUDNN_OPTIMIZER_ADAM => Rule::Adam { betas: [beta1, beta2], epsilon, is_decoupled: false },
        UCUDNN_OPTIMIZER_ADAMW => Rule::Adam { betas: [beta1, beta2], epsilon, is_decoupled: true },
        _ => return Err(bad(format!("the optimizer's rule is {rule}; 0 to {UCUDNN_OPTIMIZER_ADAMW} are accepted"))),
    };
    rule.check().map_err(bad)?;
    Ok(rule)
}
