//! What a convolution call runs under Workspace Division: its layer's plan in the layer's segment, or what is ready.

use std::cell::Cell;

use cudnn_abi::*;

use crate::division::kernel::{LayerKernel, LayerPlan};
use crate::division::layers::{Key, addresses};
use crate::division::network::{self, Network};
use crate::exec::Failure;
use crate::legacy::answer;
use crate::legacy::call::Call;
use crate::problem::Kernel;
use cudnn::calls;
use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::{Descriptors, Workspace};
use cudnn::policies::Policies;
use gpu::{Device, Stream};

/// Runs a call in its layer's segment, or as it is ready.
///
/// # Safety
/// As for [`Call::run`].
pub unsafe fn run(call: &Call, kernel: &Kernel, only: bool, policies: &Policies, spent: &Cell<bool>) -> cudnnStatus_t {
    if network::plans() {
        // SAFETY: as ours.
        return unsafe { call.run_as_asked() };
    }
    let device = cudnn::device();
    // What is captured may be run again at any time, beside anything: it can have no segment.
    // SAFETY: the program's handle.
    if let Some(stream) = unsafe { calls::stream_of(call.handle) }
        && !device.is_capturing(stream)
    {
        let key = Key {
            kernel: LayerKernel::Convolution(*kernel),
            algorithm: Some(call.algorithm),
            only,
            filter: call.operands.w.addr(),
            lane: network::lane(device, stream),
            name: policies.layer,
        };
        let network = Network::of(device);
        // SAFETY: as ours.
        let chosen = || Some(unsafe { chosen(call, kernel.math_type) });
        let layer = network.enter(&key, addresses(&call.descriptors), policies, chosen);
        let launch = |plan: &LayerPlan, workspace: Workspace| match plan {
            // SAFETY: as ours; the segment is this layer's alone.
            LayerPlan::Convolution(plan) => unsafe { call.run_parts(plan, workspace, spent, |_, _| ()) },
            LayerPlan::Graph(_) => Err(Failure { status: CUDNN_STATUS_INTERNAL_ERROR, result_spent: false }),
        };
        if let Some(status) = network.in_segment(layer, &key, stream, launch) {
            return status;
        }
        // SAFETY: as ours.
        if only && let Some(status) = unsafe { run_in_passing(call, device, stream) } {
            return status;
        }
    }
    // SAFETY: as ours.
    unsafe { call.run_ready() }
}

/// Runs a call that takes no other algorithm than the one asked for, and was told that this one needs
/// less than it does, in memory for this call only: what is ready cannot take its place. `None` if it
/// was not told so, or there is no memory.
///
/// # Safety
/// As for [`Call::run`].
unsafe fn run_in_passing(call: &Call, device: Device, stream: Stream) -> Option<cudnnStatus_t> {
    // SAFETY: as ours.
    let promise = unsafe { answer::promise(&call.descriptors, call.algorithm, call.workspace.size) }?;
    if promise.undivided <= call.workspace.size {
        return None;
    }
    let buffer = device.allocate(promise.undivided)?;
    let workspace = Workspace { data: buffer.data(), size: promise.undivided };
    // SAFETY: as ours, with a workspace as large as the algorithm needs.
    let status = unsafe { Call { workspace, ..*call }.run_as_asked() };
    device.synchronize(stream);
    Some(status)
}

/// What cuDNN says of the algorithm that a call asks for, under the math type of its descriptors; that it
/// is not supported, where it says nothing.
///
/// # Safety
/// As for [`Call::run`].
unsafe fn chosen(call: &Call, math_type: cudnnMathType_t) -> AlgoPerf {
    // SAFETY: as ours.
    let offered = unsafe { call.descriptors.get_algorithms(call.handle) }.unwrap_or_default();
    Descriptors::of_algorithm(&offered, call.algorithm, math_type).unwrap_or(AlgoPerf {
        algo: call.algorithm,
        status: CUDNN_STATUS_NOT_SUPPORTED,
        time: -1.0,
        memory: 0,
        determinism: CUDNN_NON_DETERMINISTIC,
        mathType: math_type,
        reserved: [0; 3],
    })
}
