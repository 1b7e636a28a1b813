//! Runs a convolution call under Workspace Division: by its layer's plan in the layer's segment, or by the fallback.

use std::cell::Cell;

use cudnn_abi::*;

use crate::division::layers::{Key, addresses};
use crate::division::network::{self, Network};
use crate::division::problem::{LayerPlan, LayerProblem};
use crate::exec::Failure;
use crate::legacy::answer;
use crate::legacy::call::Call;
use crate::problem::Problem;
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::{Descriptors, Workspace};
use cudnn::policies::Policies;
use gpu::{Device, Stream};
use guest::determinism;

/// Runs a call in its layer's segment, or by the fallback.
///
/// # Safety
/// The problem is the call's.
pub unsafe fn run(
    call: &Call,
    problem: &Problem,
    only: bool,
    policies: &Policies,
    spent: &Cell<bool>,
) -> cudnnStatus_t {
    if network::plans() {
        return call.by_cudnn();
    }
    let device = cudnn::device();
    // A captured call may be replayed at any time, beside any other work, so it gets no segment.
    if let Some(stream) = call.handle.stream()
        && !device.is_capturing(stream)
    {
        let key = Key {
            problem: LayerProblem::Convolution(*problem),
            algorithm: Some(call.algorithm),
            only,
            filter: call.operands.w.addr(),
            lane: network::lane(device, stream),
            name: policies.layer,
        };
        let network = Network::of(device);
        let chosen = || Some(chosen(call, problem.math_type));
        // Times divide the workspace among layers, so a program that asks for determinism gets no segments.
        let is_divided = !determinism::is_asked();
        let layer = is_divided.then(|| network.enter(&key, addresses(&call.descriptors), policies, chosen));
        let launch = |plan: &LayerPlan, workspace: Workspace| match plan {
            // SAFETY: the plan is of the layer's problem, which is the call's; the segment is this layer's alone.
            LayerPlan::Convolution(plan) => unsafe { call.run_parts(plan, workspace, spent, |_, _| ()) },
            LayerPlan::Graph(_) => Err(Failure { status: CUDNN_STATUS_INTERNAL_ERROR, result_modified: false }),
        };
        if let Some(status) = layer.and_then(|layer| network.in_segment(layer, &key, stream, launch)) {
            return status;
        }
        if only && let Some(status) = run_in_passing(call, device, stream) {
            return status;
        }
    }
    call.run_fallback()
}

/// Runs a call that accepts only the requested algorithm, and for which we reported less workspace than that algorithm
/// needs. The fallback cannot replace it, so the call gets memory of its own. `None` if the reported workspace is
/// enough, or there is no memory.
fn run_in_passing(call: &Call, device: Device, stream: Stream) -> Option<cudnnStatus_t> {
    let promise = answer::promise(&call.descriptors, call.algorithm, call.workspace.size)?;
    if promise.undivided <= call.workspace.size {
        return None;
    }
    let buffer = device.allocate(promise.undivided)?;
    let workspace = Workspace { data: buffer.data(), size: promise.undivided };
    // SAFETY: the workspace is the buffer's, which lives until the stream has been synchronized.
    let status = unsafe { call.by_cudnn_in(workspace) };
    device.synchronize(stream);
    Some(status)
}

/// Returns cuDNN's entry for the requested algorithm, under the math type of the call's descriptors. If cuDNN has none,
/// the entry says that the algorithm is not supported.
fn chosen(call: &Call, math_type: cudnnMathType_t) -> AlgoPerf {
    let offered = call.descriptors.get_algorithms(call.handle).unwrap_or_default();
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
