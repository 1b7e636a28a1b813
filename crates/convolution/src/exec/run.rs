//! The micro-batch loop.

use cudnn_abi::*;

use crate::exec::operands::{Constant, Scaling, scaling_type};
use crate::exec::plan::{Part, Plan};
use crate::exec::sums::Sums;
use crate::problem::Kernel;
use crate::problem::algorithm::Algorithm;
use cudnn::convolution::{Descriptors, Direction, Epilogue, Operands, Workspace};
use cudnn::owned::OwnedTensor;
use cudnn::tensor::Tensor;

/// A plan that stopped before its end.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// What cuDNN answered.
    pub status: cudnnStatus_t,
    /// Whether micro-batches that ran before have changed the result in a way that running the whole
    /// convolution anew would not undo: the result was to be added to.
    pub result_spent: bool,
}

/// One that stopped before it began.
impl From<cudnnStatus_t> for Failure {
    fn from(status: cudnnStatus_t) -> Self {
        Self { status, result_spent: false }
    }
}

/// Runs a plan on the handle's stream; `after` is called as each micro-batch has been launched, with
/// its size and algorithm.
///
/// Micro-batches of F and BD write different images and keep beta as given. BF's add up: the first
/// takes the caller's beta, the others 1, or they are summed in float (see [`Plan`]).
///
/// # Safety
/// The operands are those of a call of the plan's kernel, and the workspace is memory of the device of
/// at least [`Plan::workspace`] bytes.
pub unsafe fn run(
    plan: &Plan,
    handle: cudnnHandle_t,
    operands: &Operands,
    workspace: Workspace,
    mut after: impl FnMut(usize, Algorithm),
) -> Result<(), Failure> {
    debug_assert!(workspace.size >= plan.workspace(), "a plan was given less workspace than it needs");
    let scaling = scaling_type(&plan.kernel);
    let sums = plan.kernel.direction == Direction::BackwardFilter;
    let mut first = 0;
    for part in &plan.parts {
        let descriptors = part.descriptors.raw();
        // SAFETY: as ours.
        let z = unsafe { ZImages::of(operands.epilogue.as_ref(), plan, part, &descriptors) }
            .map_err(|status| plan.failure(status, operands, first))?;
        for _ in 0..part.count {
            guest::settings::fault_point(if first == 0 { "run" } else { "run-midway" });
            let mut micro = operands.starting_at([plan.kernel.x.image_stride(), plan.kernel.y.image_stride()], first);
            if let (Some(epilogue), Some(z)) = (&mut micro.epilogue, &z) {
                z.place(epilogue, first);
            }
            if sums && first > 0 {
                micro.beta = scaling.constant(Constant::One);
            }
            // SAFETY: images `first..first + batch` of the caller's tensors; the workspace is the
            // caller's, and as large as the algorithm needs.
            let status = unsafe {
                match &plan.sums {
                    Some(sums) => add_up(sums, handle, part, &descriptors, micro, workspace, first == 0),
                    None => descriptors.convolve(handle, part.algorithm.id, &micro, workspace),
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
        // SAFETY: the sum is complete, in the caller's workspace.
        Some(sums) => match unsafe { sums.round(handle, workspace.data, operands.beta, operands.w) } {
            CUDNN_STATUS_SUCCESS => Ok(()),
            status => Err(Failure { status, result_spent: false }),
        },
        None => Ok(()),
    }
}

impl Plan {
    fn failure(&self, status: cudnnStatus_t, operands: &Operands, first: usize) -> Failure {
        // SAFETY: the operands are the caller's.
        let adds = unsafe { adds_to_result(&self.kernel, operands) };
        Failure { status, result_spent: first > 0 && adds && self.sums.is_none() }
    }
}

/// The summand z of a fused call, cut along the batch as y is.
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
        // SAFETY: as ours.
        let Some((rank, z)) = (unsafe { Tensor::read(epilogue.z_descriptor) }) else {
            return Err(CUDNN_STATUS_BAD_PARAM);
        };
        Ok(Some(if z == plan.kernel.y {
            Self { descriptor: descriptors.y, stride: z.image_stride(), _owned: None }
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

/// Runs a part into the partial result, and adds that to the sum.
///
/// # Safety
/// As for [`run`].
unsafe fn add_up(
    sums: &Sums,
    handle: cudnnHandle_t,
    part: &Part,
    descriptors: &Descriptors,
    micro: Operands,
    workspace: Workspace,
    is_first: bool,
) -> cudnnStatus_t {
    // The caller's alpha belongs to each part: what it scales down may not fit the filter's type else.
    let zero = Scaling::Float.constant(Constant::Zero);
    let partial = sums.partial(workspace.data);
    let micro = Operands { beta: zero, ..micro.with_result(Direction::BackwardFilter, partial) };
    let own = Workspace { data: workspace.data, size: sums.own_bytes() };
    // SAFETY: as ours; the two buffers lie behind the algorithm's own workspace.
    match unsafe { descriptors.convolve(handle, part.algorithm.id, &micro, own) } {
        // SAFETY: as ours.
        CUDNN_STATUS_SUCCESS => unsafe { sums.add(handle, workspace.data, is_first) },
        status => status,
    }
}

/// Whether running the kernel anew would not give the same: the result is also an operand.
///
/// # Safety
/// The operands are a call's of the kernel.
pub unsafe fn adds_to_result(kernel: &Kernel, operands: &Operands) -> bool {
    let (scale, is_operand) = match &operands.epilogue {
        Some(epilogue) => (epilogue.alpha2, epilogue.z == operands.y.cast_const()),
        None => (operands.beta, true),
    };
    // SAFETY: as ours.
    is_operand && unsafe { scaling_type(kernel).read(scale) != 0.0 }
}

/// Whether the summand of a fused call can be cut along the batch as the result is. What cuDNN would
/// refuse cannot: cut to a micro-batch's size it would seem to fit.
///
/// # Safety
/// The epilogue's descriptors are null or cuDNN's.
pub unsafe fn divides(kernel: &Kernel, epilogue: &Epilogue, alignment: usize) -> bool {
    // SAFETY: as ours.
    let z = unsafe { Tensor::read(epilogue.z_descriptor) };
    z.is_some_and(|(_, z)| z == kernel.y || (z.dims == kernel.y.dims && z.image_stride().is_multiple_of(alignment)))
}
