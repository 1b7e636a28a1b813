//! Runs batches.

use std::ffi::c_void;

use cudnn_abi::*;
use guest::refusal::Refusal;

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
    /// A step of training.
    Step,
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
        (Asked::Step, Some(push)) => Call::Step(push),
        (Asked::Step, None) => return Err(bad("the net was made without a loss")),
    };
    let step = if let Call::Step(push) = call { Some(push) } else { None };
    let of_batch = batch.batch.lock();
    let Batches { batch, on_device, graphs } = &*of_batch;
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
