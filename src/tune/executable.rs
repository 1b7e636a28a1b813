//! A subject that can be timed: how tuning runs it, in memory of our own or of the program's.

use std::ffi::c_void;

use cudnn_abi::*;

use super::candidates;
use super::search::Candidate;
use super::subject::Subject;
use crate::cudnn::algorithm::{Algorithm, Class};
use crate::cudnn::convolution::{Operands, Workspace};
use crate::cudnn::kernel::Kernel;
use crate::cudnn::owned::OwnedDescriptors;
use crate::device::Device;
use crate::exec::{self, Constant, Plan, scaling_type};
use crate::plan::{BatchSizePolicy, Configuration, MicroConfiguration};
use crate::settings;

/// A numerical class, and the candidates in it.
pub type Offered<K> = (<K as Subject>::Class, Vec<Candidate<<K as Subject>::Algorithm>>);

/// A subject whose configurations can be prepared and run.
///
/// A search makes plans on several threads at once, each with its own handle. A plan runs only on the thread and the
/// handle that it was made for. Making a plan is not timed.
pub trait Executable: Subject {
    /// A configuration, or one part of a division, that is ready to run.
    type Plan;
    /// The addresses of the tensors in one execution.
    type Operands: Copy;

    /// The tensors to allocate on the device: the bytes of each, and the type of its elements, which are filled with
    /// random numbers.
    fn tensors(&self) -> Vec<(usize, cudnnDataType_t)>;

    /// The operands of an execution that overwrites its results; `tensors` are the addresses of [`Self::tensors`], in
    /// order.
    fn operands(&self, tensors: &[*mut c_void]) -> Self::Operands;

    /// Returns the candidates to time and their numerical class: `class`, or if that is `None` the class of cuDNN's own
    /// first choice for the mini-batch. Candidates have those sizes of the policy at which the problem can be cut; the
    /// ones that a search should see before its budget is spent come first. `Err` says why there are none.
    ///
    /// # Safety
    /// The caller promises that `handle` is a live cuDNN handle of the calling thread's device, in no other use.
    unsafe fn candidates(
        &self,
        handle: cudnnHandle_t,
        class: Option<Self::Class>,
        sizes: BatchSizePolicy,
    ) -> Result<Offered<Self>, String>;

    /// Prepares a configuration of the mini-batch. `Err` is cuDNN's status.
    ///
    /// # Safety
    /// The caller makes the promise of [`Self::candidates`].
    unsafe fn plan(
        &self,
        handle: cudnnHandle_t,
        configuration: Configuration<Self::Algorithm>,
    ) -> Result<Self::Plan, cudnnStatus_t>;

    /// Prepares one micro-batch, of the first images, as a division of the mini-batch runs it, sums included.
    ///
    /// # Safety
    /// The caller makes the promise of [`Self::candidates`].
    unsafe fn micro_batch(
        &self,
        handle: cudnnHandle_t,
        micro: MicroConfiguration<Self::Algorithm>,
    ) -> Result<Self::Plan, cudnnStatus_t>;

    /// Runs a plan once on the handle's stream, without waiting for it. `Err` is cuDNN's status, or
    /// CUDNN_STATUS_EXECUTION_FAILED where the workspace is smaller than the plan needs.
    ///
    /// # Safety
    /// The caller promises that `handle` is the one that the plan was made for, and that each operand is memory of its
    /// device at least as large as its tensor.
    unsafe fn run(
        plan: &Self::Plan,
        handle: cudnnHandle_t,
        operands: &Self::Operands,
        workspace: Workspace,
    ) -> Result<(), cudnnStatus_t>;
}

impl Executable for Kernel {
    type Plan = Plan;
    type Operands = Operands;

    fn tensors(&self) -> Vec<(usize, cudnnDataType_t)> {
        let Self { x, w_type, y, .. } = self;
        vec![(x.bytes(), x.data_type), (self.filter_bytes(), *w_type), (y.bytes(), y.data_type)]
    }

    fn operands(&self, tensors: &[*mut c_void]) -> Operands {
        let scaling = scaling_type(self);
        Operands {
            alpha: scaling.constant(Constant::One),
            beta: scaling.constant(Constant::Zero),
            x: tensors[0],
            w: tensors[1],
            y: tensors[2],
            epilogue: None,
        }
    }

    unsafe fn candidates(
        &self,
        handle: cudnnHandle_t,
        class: Option<Class>,
        sizes: BatchSizePolicy,
    ) -> Result<Offered<Self>, String> {
        let refused = |what: &str, status: cudnnStatus_t| format!("cuDNN gives no {what}: status {status}");
        let descriptors =
            OwnedDescriptors::new(self, self.math_type).map_err(|status| refused("descriptors for it", status))?;
        // SAFETY: our descriptors live during the call, and the caller promises a live `handle` (see `# Safety`).
        let offered = unsafe { descriptors.raw().get_algorithms(handle) };
        let offered = offered.map_err(|status| refused("algorithm for it", status))?;
        let own = offered.iter().find(|result| result.status == CUDNN_STATUS_SUCCESS);
        let own = own.ok_or("cuDNN has no algorithm for it")?;
        let class = class.unwrap_or_else(|| Class::of(own, settings::get().numerics));
        let sizes = candidates::sizes(self, sizes, Device::current());
        // SAFETY: the caller promises a live handle of the calling thread's device (see `# Safety`).
        Ok((class, unsafe { candidates::candidates(handle, self, &offered, class, &sizes) }))
    }

    unsafe fn plan(&self, _: cudnnHandle_t, configuration: Configuration<Algorithm>) -> Result<Plan, cudnnStatus_t> {
        Plan::new(self, configuration)
    }

    unsafe fn micro_batch(
        &self,
        _: cudnnHandle_t,
        micro: MicroConfiguration<Algorithm>,
    ) -> Result<Plan, cudnnStatus_t> {
        Plan::micro_batch(self, micro)
    }

    unsafe fn run(
        plan: &Plan,
        handle: cudnnHandle_t,
        operands: &Operands,
        workspace: Workspace,
    ) -> Result<(), cudnnStatus_t> {
        if plan.workspace() > workspace.size {
            return Err(CUDNN_STATUS_EXECUTION_FAILED);
        }
        // SAFETY: the caller promises the handle and the operands (see `# Safety`), and the workspace is large enough.
        unsafe { exec::run(plan, handle, operands, workspace, |_, _| ()) }.map_err(|failure| failure.status)
    }
}
