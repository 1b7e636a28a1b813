//! A subject that can be timed: how tuning runs it, in memory of our own or of the program's.

use std::ffi::c_void;

use cudnn_abi::*;

use super::search::Candidate;
use super::subject::Subject;
use cudnn::convolution::Workspace;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};

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

    /// The same problem with about half of its data, though it has one image: less of the image, or fewer results. `None` if
    /// it cannot be cut.
    fn halved(&self) -> Option<Self> {
        None
    }

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
