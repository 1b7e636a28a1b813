//! Answers a call: by our kernels where these are faster, else by cuDNN.

use std::cell::Cell;

use cudnn_abi::*;

use super::call::{BackwardCall, ForwardCall};
use super::eligible;
use super::fitted::Fitted;
use super::kernels::{Backward, Forward, PAUSE};
use super::shape::Planes;
use super::state::{OURS, Run, State};
use super::subject::{Normalization, Pass};
use cudnn::{calls, policies};
use gpu::{Stream, jit};
use guest::settings::{self, Norm, Policy};
use guest::summary::{self, Counted};
use tuning::allowance;
use tuning::turns::{Started, Timed};

/// A call of one of cuDNN's functions.
///
/// # Safety
/// The methods require that the fields are the arguments of a call, whose caller keeps cuDNN's rules.
pub trait Call {
    const PASS: Pass;

    fn handle(&self) -> cudnnHandle_t;

    fn mode(&self) -> cudnnBatchNormMode_t;

    /// Reads the call. `Err` gives the reason why cuDNN has to answer it.
    ///
    /// # Safety
    /// As for the trait.
    unsafe fn planes(&self) -> Result<Planes, &'static str>;

    /// Launches our kernels. After a failure the call's inputs are as they were, so that cuDNN can answer it.
    ///
    /// # Safety
    /// As for the trait. The kernels are for the call's pass and planes, and on the stream's device.
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error>;

    /// Lets cuDNN answer the call.
    ///
    /// # Safety
    /// As for the trait.
    unsafe fn run_as_asked(&self) -> cudnnStatus_t;
}

/// Answers a call. `status` gets its status once something was launched for it: after a panic behind that, the call must
/// not run again, as its input may be replaced, and its running statistics updated.
///
/// # Safety
/// As for [`Call`].
pub unsafe fn answer(call: &impl Call, status: &Cell<Option<cudnnStatus_t>>) -> cudnnStatus_t {
    summary::count(Counted::Normalization);
    let call = &Once { call, status };
    // SAFETY: the caller's promise.
    let answered = unsafe {
        match chosen(call) {
            Some((state, stream, run)) => run_by(call, &state, stream, run),
            None => call.run_as_asked(),
        }
    };
    settings::fault_point("norm-answered");
    answered
}

/// A call, and its status once something was launched for it.
struct Once<'a, C> {
    call: &'a C,
    status: &'a Cell<Option<cudnnStatus_t>>,
}

impl<C: Call> Call for Once<'_, C> {
    const PASS: Pass = C::PASS;

    fn handle(&self) -> cudnnHandle_t {
        self.call.handle()
    }

    fn mode(&self) -> cudnnBatchNormMode_t {
        self.call.mode()
    }

    unsafe fn planes(&self) -> Result<Planes, &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.call.planes() }
    }

    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error> {
        // SAFETY: the caller's promise.
        unsafe { self.call.launch(ours, stream) }?;
        self.status.set(Some(CUDNN_STATUS_SUCCESS));
        Ok(())
    }

    unsafe fn run_as_asked(&self) -> cudnnStatus_t {
        // SAFETY: the caller's promise.
        let status = unsafe { self.call.run_as_asked() };
        self.status.set(Some(status));
        status
    }
}

/// Returns what to answer a call by, if it is one that our kernels could answer.
///
/// # Safety
/// As for [`Call`].
unsafe fn chosen<C: Call>(call: &C) -> Option<(std::sync::Arc<State>, Stream, Run)> {
    if settings::get().norm == Norm::Off || policies::of(call.handle()).policy == Policy::Off {
        return None;
    }
    // SAFETY: the caller's promise.
    let planes = unsafe { call.planes() };
    let planes = planes.inspect_err(|why| log::trace!("a batch normalization is cuDNN's: {why}")).ok()?;
    // SAFETY: the caller's promise; cuDNN checks the handle.
    let stream = unsafe { calls::stream_of(call.handle()) }?;
    let is_persistent = call.mode() == CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
    let state = State::of(&Normalization { pass: C::PASS, is_persistent, planes });
    let run = state.decide(cudnn::device().is_capturing(stream));
    Some((state, stream, run))
}

/// # Safety
/// As for [`Call`]. The state is the call's, and the stream is its handle's.
unsafe fn run_by(call: &impl Call, state: &State, stream: Stream, run: Run) -> cudnnStatus_t {
    // SAFETY: the caller's promise; our kernels change nothing when they fail.
    unsafe {
        match run {
            Run::Cudnn => call.run_as_asked(),
            Run::Ours(ours) => match launch(call, &ours, stream) {
                Ok(()) => CUDNN_STATUS_SUCCESS,
                Err(why) => {
                    state.give_up(&why);
                    call.run_as_asked()
                }
            },
            Run::Timed(index, ours) => {
                let _in_flight = InFlight { state, index };
                let (ran, timed) = measure(call, index, &ours, stream);
                state.with_turns(|turns| match &ran {
                    Ok(CUDNN_STATUS_SUCCESS) => turns.ran(index, 1, timed),
                    // cuDNN refuses the call, which does not count against it.
                    Ok(_) => turns.skipped(),
                    Err(_) => turns.failed(index),
                });
                ran.unwrap_or_else(|why| {
                    log::info!("a batch normalization on our kernels failed: {why}");
                    call.run_as_asked()
                })
            }
        }
    }
}

/// A timed call. If it panics, its candidate has failed: else the trial would wait for it forever.
struct InFlight<'a> {
    state: &'a State,
    index: usize,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.state.with_turns(|turns| turns.failed(self.index));
        }
    }
}

/// Answers a call by a candidate, between time marks: by cuDNN, or by our kernels if it is number [`OURS`].
///
/// # Safety
/// As for [`Call`]. The kernels are for the call, and the stream is its handle's.
pub unsafe fn measure(
    call: &impl Call,
    candidate: usize,
    ours: &Fitted,
    stream: Stream,
) -> (Result<cudnnStatus_t, String>, Option<Timed>) {
    let device = cudnn::device();
    if ours.engine.pause(stream) {
        allowance::of_process().explored(1e3 * PAUSE.as_secs_f64());
    }
    let timing = Started::start(device, stream);
    // SAFETY: the caller's promise.
    let ran = unsafe {
        match candidate {
            OURS => launch(call, ours, stream).map(|()| CUDNN_STATUS_SUCCESS),
            _ => Ok(call.run_as_asked()),
        }
    };
    (ran, timing.and_then(|timing| timing.end(device, stream)))
}

/// # Safety
/// As for [`Call::launch`].
unsafe fn launch<C: Call>(call: &C, ours: &Fitted, stream: Stream) -> Result<(), String> {
    settings::fault_point("norm-launch");
    // SAFETY: the caller's promise.
    unsafe { call.launch(ours, stream) }.map_err(|error| error.to_string())?;
    summary::count(Counted::NormalizedByUs);
    log::debug!("{}: on our kernels", ours.subject);
    Ok(())
}

impl Call for ForwardCall {
    const PASS: Pass = Pass::Forward;

    fn handle(&self) -> cudnnHandle_t {
        self.handle
    }

    fn mode(&self) -> cudnnBatchNormMode_t {
        self.mode
    }

    unsafe fn planes(&self) -> Result<Planes, &'static str> {
        // SAFETY: the caller's promise.
        unsafe { eligible::forward(self) }
    }

    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error> {
        let parameters = Forward {
            shape: ours.shape,
            x: self.x,
            y: self.y,
            scale: self.scale.cast(),
            bias: self.bias.cast(),
            running_mean: self.running_mean.cast(),
            running_variance: self.running_variance.cast(),
            saved_mean: self.saved_mean.cast(),
            saved_inverse: self.saved_inverse.cast(),
            epsilon: self.epsilon,
            factor: self.factor,
        };
        // SAFETY: `eligible` has checked the call's tensors and numbers; their memory is the caller's promise.
        unsafe { ours.engine.normalize(stream, &ours.subject.planes, &parameters) }
    }

    unsafe fn run_as_asked(&self) -> cudnnStatus_t {
        // SAFETY: the caller's promise.
        unsafe { self.by_cudnn() }
    }
}

impl Call for BackwardCall {
    const PASS: Pass = Pass::Backward;

    fn handle(&self) -> cudnnHandle_t {
        self.handle
    }

    fn mode(&self) -> cudnnBatchNormMode_t {
        self.mode
    }

    unsafe fn planes(&self) -> Result<Planes, &'static str> {
        // SAFETY: the caller's promise.
        unsafe { eligible::backward(self) }
    }

    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error> {
        let parameters = Backward {
            shape: ours.shape,
            x: self.x,
            dy: self.dy,
            dx: self.dx,
            scale: self.scale.cast(),
            saved_mean: self.saved_mean.cast(),
            saved_inverse: self.saved_inverse.cast(),
            dscale: self.dscale.cast(),
            dbias: self.dbias.cast(),
        };
        // SAFETY: as in the forward pass.
        unsafe { ours.engine.differentiate(stream, &ours.subject.planes, &parameters) }
    }

    unsafe fn run_as_asked(&self) -> cudnnStatus_t {
        // SAFETY: the caller's promise.
        unsafe { self.by_cudnn() }
    }
}
