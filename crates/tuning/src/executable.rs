//! A subject that can be timed: what tuning needs to run it in memory of its own or of the program's.

use std::ffi::c_void;

use cudnn_abi::*;

use super::search::Candidate;
use super::subject::Subject;
use cudnn::convolution::Workspace;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};

/// A numerical class, and what may be timed in it.
pub type Offered<K> = (<K as Subject>::Class, Vec<Candidate<<K as Subject>::Algorithm>>);

/// A subject whose configurations can be made ready and run.
///
/// A search makes plans on several threads at once, each with a handle of its own, and runs a plan on the thread and
/// the handle that it was made for alone. Making one is not timed.
pub trait Executable: Subject {
    /// A configuration, or one part of a division, that is ready to run.
    type Plan;
    /// Where its tensors lie in one execution.
    type Operands: Copy;

    /// The tensors that need the device's memory: the bytes that each takes, and the type of its elements, which are
    /// filled with random numbers.
    fn tensors(&self) -> Vec<(usize, cudnnDataType_t)>;

    /// The operands of an execution that overwrites its results, with each of [`Self::tensors`] at one of these
    /// addresses.
    fn operands(&self, tensors: &[*mut c_void]) -> Self::Operands;

    /// What may be timed: the numerical class, by itself that of cuDNN's own first choice for the mini-batch, and in it
    /// the candidates of the sizes of a policy at which it can be cut. Those come first that a search should see before
    /// its budget is spent. `Err` says why there are none.
    ///
    /// # Safety
    /// The handle is cuDNN's, of the calling thread's device, and in no other use.
    unsafe fn candidates(
        &self,
        handle: cudnnHandle_t,
        class: Option<Self::Class>,
        sizes: BatchSizePolicy,
    ) -> Result<Offered<Self>, String>;

    /// Makes a configuration of the mini-batch ready. `Err` is cuDNN's status.
    ///
    /// # Safety
    /// As for [`Self::candidates`].
    unsafe fn plan(
        &self,
        handle: cudnnHandle_t,
        configuration: Configuration<Self::Algorithm>,
    ) -> Result<Self::Plan, cudnnStatus_t>;

    /// Makes one micro-batch ready as a division of the mini-batch runs it, sums included; it is of the first images.
    ///
    /// # Safety
    /// As for [`Self::candidates`].
    unsafe fn micro_batch(
        &self,
        handle: cudnnHandle_t,
        micro: MicroConfiguration<Self::Algorithm>,
    ) -> Result<Self::Plan, cudnnStatus_t>;

    /// Runs a plan once on the handle's stream, without waiting for it. `Err` is cuDNN's status, or
    /// CUDNN_STATUS_EXECUTION_FAILED where the workspace is smaller than the plan needs.
    ///
    /// # Safety
    /// The handle is the one that the plan was made for; the operands are memory of its device as the tensors that they
    /// were made of, or larger ones.
    unsafe fn run(
        plan: &Self::Plan,
        handle: cudnnHandle_t,
        operands: &Self::Operands,
        workspace: Workspace,
    ) -> Result<(), cudnnStatus_t>;
}
