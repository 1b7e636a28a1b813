//! The calls of cuDNN that our kernels can answer, a file for each: its functions, which of its arguments our kernels take,
//! and the parameters of the kernels.

mod backward;
mod forward;
mod inference;

use std::ffi::CStr;
use std::sync::Arc;

use cudnn_abi::*;

use super::ahead::Data;
use super::fitted::Fitted;
use super::shape::Planes;
use gpu::{Stream, jit};
use kernels::KernelSource;

pub use backward::{Backward, BackwardCall};
pub use forward::{Forward, ForwardCall};
pub use inference::{Inference, InferenceCall};

/// A call of one of cuDNN's functions, whose arguments keep its rules.
pub trait Call {
    const PASS: Pass;

    fn handle(&self) -> cudnnHandle_t;

    fn mode(&self) -> cudnnBatchNormMode_t;

    /// Reads the call. `Err` gives the reason why cuDNN has to answer it.
    fn planes(&self) -> Result<Planes, &'static str>;

    /// Launches our kernels. After a failure the call's inputs are as they were, so that cuDNN can answer it.
    ///
    /// # Safety
    /// The kernels are for the call's pass and planes, which `planes` has told. The stream is the handle's.
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error>;

    /// Lets cuDNN answer the call.
    fn by_cudnn(&self) -> cudnnStatus_t;

    /// The call on data of our own, for as long as they live.
    fn on(data: &Data) -> Self;
}

/// What a call does with a tensor: the variants' order is that of [`PASSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    Forward,
    Backward,
    Inference,
}

/// A call on data of our own, by our kernels or else by cuDNN.
pub type Run = unsafe fn(&Data, Option<&Arc<Fitted>>, Stream) -> Result<cudnnStatus_t, String>;

/// The facts of a pass.
pub struct Row {
    /// Its word in texts that identify a subject.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    pub source: &'static KernelSource,
    /// The kernels' names: for planes that are whole vectors, and for others.
    pub kernels: [&'static CStr; 2],
    /// The tensors that it reads before it writes, and so keeps in shared memory: none if it is done in one sweep.
    pub kept: usize,
    /// The tensors that it reads or writes.
    pub tensors: usize,
    /// Runs it on data of our own: `ahead::run`.
    pub run: Run,
}

static PASSES: [Row; 3] = [forward::ROW, backward::ROW, inference::ROW];

impl Pass {
    pub const ALL: [Self; PASSES.len()] = [Self::Forward, Self::Backward, Self::Inference];

    pub fn row(self) -> &'static Row {
        &PASSES[self as usize]
    }
}
