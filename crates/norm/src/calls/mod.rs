//! The calls of cuDNN that our kernels can answer, a file for each: its functions, which of its arguments our kernels take,
//! and the parameters of the kernels. Group normalization has no function of cuDNN's: its files have the parameters alone.

mod backward;
mod forward;
mod group_backward;
mod group_forward;
mod inference;

use std::sync::Arc;

use cudnn_abi::*;

use super::data::Data;
use super::fitted::Fitted;
use super::pass::Pass;
use super::shape::Planes;
use gpu::{Stream, jit};
use guest::settings;
use guest::summary::{self, Counted};

pub use backward::{Backward, BackwardCall};
pub use forward::{Forward, ForwardCall};
pub use group_backward::{GroupBackward, partial_bytes};
pub use group_forward::GroupForward;
pub use inference::{Inference, InferenceCall};

/// A pass that a program calls.
pub trait Call {
    /// Launches our kernels. After a failure the call's inputs are as they were, so that others can answer it.
    ///
    /// # Safety
    /// The kernels are for the call's pass and planes. The stream is the call's.
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error>;
}

/// A call of one of cuDNN's functions, whose arguments keep its rules.
pub trait CudnnCall: Call {
    const PASS: Pass;

    fn handle(&self) -> cudnnHandle_t;

    fn mode(&self) -> cudnnBatchNormMode_t;

    /// Reads the call. `Err` gives the reason why cuDNN has to answer it.
    fn planes(&self) -> Result<Planes, &'static str>;

    /// Lets cuDNN answer the call.
    fn by_cudnn(&self) -> cudnnStatus_t;

    /// The call on data of our own, for as long as they live.
    fn on(data: &Data) -> Self;
}

/// Runs a call by our kernels, and counts it. After a failure the call's inputs are as they were.
///
/// # Safety
/// As for [`Call::launch`].
pub unsafe fn launch<C: Call>(call: &C, ours: &Fitted, stream: Stream) -> Result<(), String> {
    settings::fault_point("norm-launch");
    // SAFETY: the same call, kernels and stream (see `# Safety`).
    unsafe { call.launch(ours, stream) }.map_err(|error| error.to_string())?;
    summary::count(Counted::NormalizedByUs);
    log::debug!("{}: on our kernels", ours.subject);
    Ok(())
}

/// Runs a pass on data of our own by our kernels, or else by cuDNN.
///
/// # Safety
/// The data are made for a subject of the pass, our kernels for this subject, and the stream is the data's.
pub unsafe fn run(
    pass: Pass,
    data: &Data,
    ours: Option<&Arc<Fitted>>,
    stream: Stream,
) -> Result<cudnnStatus_t, String> {
    // SAFETY: the same data, kernels and stream (see `# Safety`).
    unsafe {
        match pass {
            Pass::Forward => run_on::<ForwardCall>(data, ours, stream),
            Pass::Backward => run_on::<BackwardCall>(data, ours, stream),
            Pass::Inference => run_on::<InferenceCall>(data, ours, stream),
            Pass::GroupForward | Pass::GroupBackward => Err("cuDNN has no function for it".into()),
        }
    }
}

/// # Safety
/// As for [`run`], and the pass is the call's.
unsafe fn run_on<C: CudnnCall>(
    data: &Data,
    ours: Option<&Arc<Fitted>>,
    stream: Stream,
) -> Result<cudnnStatus_t, String> {
    let call = C::on(data);
    match ours {
        // SAFETY: the kernels are the call's (see `# Safety`).
        Some(ours) => unsafe { launch(&call, ours, stream) }.map(|()| CUDNN_STATUS_SUCCESS),
        None => Ok(call.by_cudnn()),
    }
}
