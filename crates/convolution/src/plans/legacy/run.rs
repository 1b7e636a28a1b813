//! The micro-batch loop.

use cudnn_abi::*;

use super::plan::{Part, Plan};
use crate::exec::{Constant, Failure, Scaling, Sums, scaling_type};
use crate::problem::Problem;
use crate::problem::algorithm::Algorithm;
use cudnn::convolution::{Descriptors, Direction, Epilogue, Operands, Workspace};
use cudnn::owned::OwnedTensor;
use cudnn::tensor::Tensor;

/// Runs a plan on the handle's stream. Calls `after` with the size and algorithm of each micro-batch once it is
/// launched.
///
/// Micro-batches of F and BD write different images and keep the caller's beta. Micro-batches of BF add up: the first
/// takes the caller's beta and the others take 1, or all are summed in float (see [`Plan`]).
///
/// # Safety
/// The operands are those of a call of the plan's convolution problem. The workspace is device memory of at least
/// [`Plan::workspace`] bytes.
pub unsafe fn run(
    plan: &Plan,
    handle: cudnnHandle_t,
    operands: &Operands,
    workspace: Workspace,
    mut after: impl FnMut(usize, Algorithm),
) -> Result<(), Failure> {
    debug_assert!(workspace.size >= plan.workspace(), "a plan was given less workspace than it needs");
    let scaling = scaling_type(&plan.problem);
    let sums = plan.problem.direction == Direction::BackwardFilter;
    let mut first = 0;
    for part in &plan.parts {
        let descriptors = part.descriptors.raw();
        // SAFETY: the caller promises the operands of a cuDNN call, whose epilogue has null or live descriptors.
        let z = unsafe { ZImages::of(operands.epilogue.as_ref(), plan, part, &descriptors) }
            .map_err(|status| plan.failure(status, operands, first))?;
        for _ in 0..part.count {
            guest::settings::fault_point(if first == 0 { "run" } else { "run-midway" });
            let mut micro = operands.starting_at([plan.problem.x.image_stride(), plan.problem.y.image_stride()], first);
            if let (Some(epilogue), Some(z)) = (&mut micro.epilogue, &z) {
                z.place(epilogue, first);
            }
            if sums && first > 0 {
                micro.beta = scaling.constant(Constant::One);
            }
            // SAFETY: the caller promises tensors of all the plan's images, `first..first + batch` among them, and a
            // workspace as large as the plan needs, which covers this algorithm's.
            let status = unsafe {
                match &plan.sums {
                    Some(sums) => add_up(sums, handle, part, micro, workspace, first == 0),
                    None => part.convolve(handle, &micro, workspace),
                }
            };
            if status != CUDNN_STATUS_SUCCESS {
                return Err(plan.failure(status, operands, first));
            }
            first += part.batch;
            after(part.batch, part.algorithm);
        }
    }
    match &plan.sums {
        // SAFETY: all parts have added to the sum, and the caller's workspace is as long as the plan needs.
        Some(sums) => match unsafe { sums.round(handle, workspace.data, operands.beta, operands.w) } {
            CUDNN_STATUS_SUCCESS => Ok(()),
            status => Err(Failure { status, result_modified: false }),
        },
        None => Ok(()),
    }
}

impl Plan {
    fn failure(&self, status: cudnnStatus_t, operands: &Operands, first: usize) -> Failure {
        // SAFETY: the caller of `run` promises the operands of a call of this problem.
        let adds = unsafe { adds_to_result(&self.problem, operands) };
        Failure { status, result_modified: first > 0 && adds && self.sums.is_none() }
    }
}

/// The summand z of a fused call, cut along the batch like y.
struct ZImages {
    descriptor: cudnnTensorDescriptor_t,
    stride: usize,
    _owned: Option<OwnedTensor>,
}

impl ZImages {
    /// # Safety
    /// The epilogue's descriptors are null or cuDNN's.
    unsafe fn of(
        epilogue: Option<&Epilogue>,
        plan: &Plan,
        part: &Part,
        descriptors: &Descriptors,
    ) -> Result<Option<Self>, cudnnStatus_t> {
        let Some(epilogue) = epilogue else { return Ok(None) };
        // SAFETY: the caller promises a descriptor that is null or cuDNN's.
        let Some((rank, z)) = (unsafe { Tensor::read(epilogue.z_descriptor) }) else {
            return Err(CUDNN_STATUS_BAD_PARAM);
        };
        Ok(Some(if z == plan.problem.y {
            Self { descriptor: descriptors.y(), stride: z.image_stride(), _owned: None }
        } else {
            let owned = OwnedTensor::new(rank, &z.with_batch(part.batch))?;
            Self { descriptor: owned.raw(), stride: z.image_stride(), _owned: Some(owned) }
        }))
    }

    fn place(&self, epilogue: &mut Epilogue, first: usize) {
        epilogue.z_descriptor = self.descriptor;
        if !epilogue.z.is_null() {
            epilogue.z = epilogue.z.wrapping_byte_add(first * self.stride);
        }
    }
}

/// Runs a part into the partial result, and adds the partial result to the sum.
///
/// # Safety
/// As for [`run`].
unsafe fn add_up(
    sums: &Sums,
    handle: cudnnHandle_t,
    part: &Part,
    micro: Operands,
    workspace: Workspace,
    is_first: bool,
) -> cudnnStatus_t {
    // Each part applies the caller's alpha: without a small alpha the partial result may overflow the filter's type.
    let zero = Scaling::Float.constant(Constant::Zero);
    let partial = sums.partial(workspace.data);
    let micro = Operands { beta: zero, ..micro.with_result(Direction::BackwardFilter, partial) };
    let own = Workspace { data: workspace.data, size: sums.own_bytes() };
    // SAFETY: the caller makes `run`'s promise; the two sum buffers lie behind the algorithm's own workspace.
    match unsafe { part.convolve(handle, &micro, own) } {
        // SAFETY: the caller promises a workspace as long as the plan needs, and `sums` was laid out in that length.
        CUDNN_STATUS_SUCCESS => unsafe { sums.add(handle, workspace.data, is_first) },
        status => status,
    }
}

/// Returns whether the call reads its own result, so that running it again gives another result.
///
/// # Safety
/// The operands belong to a call of this problem.
pub unsafe fn adds_to_result(problem: &Problem, operands: &Operands) -> bool {
    let (scale, is_operand) = match &operands.epilogue {
        Some(epilogue) => (epilogue.alpha2, epilogue.z == operands.y.cast_const()),
        None => (operands.beta, true),
    };
    // SAFETY: the caller promises a call's operands: its factors are null or of the problem's scaling type.
    is_operand && unsafe { scaling_type(problem).read(scale) != 0.0 }
}

/// Returns whether the summand z of a fused call can be cut along the batch like the result. A z of other dimensions
/// than y cannot: cuDNN refuses the whole call, but a z cut to a micro-batch's size might seem to fit.
///
/// # Safety
/// The epilogue's descriptors are null or cuDNN's.
pub unsafe fn divides(problem: &Problem, epilogue: &Epilogue, alignment: usize) -> bool {
    // SAFETY: the caller promises a descriptor that is null or cuDNN's.
    let z = unsafe { Tensor::read(epilogue.z_descriptor) };
    z.is_some_and(|(_, z)| z == problem.y || (z.dims == problem.y.dims && z.image_stride().is_multiple_of(alignment)))
}
