//! A call of `cudnnRNNForward`: ours or cuDNN's, and what happens when ours fails.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;

use super::eligible::{Case, takes};
use super::kernels::Engine;
use super::memory::Memory;
use super::page::{self, Page, Run};
use super::run::{Recurrent, Work};
use super::temporary::Temporary;
use super::trial::{Timed, Timing};
use cudnn::calls;
use cudnn::policies;
use cudnn::rnn::{Data, Network, Weights};
use gpu::Stream;
use guest::settings::{self, Policy, Rnn};

/// The arguments of `cudnnRNNForward`.
#[derive(Clone, Copy)]
pub struct Call {
    pub handle: cudnnHandle_t,
    pub descriptor: cudnnRNNDescriptor_t,
    pub mode: cudnnForwardMode_t,
    /// What cuDNN's kernels read: a copy of the lengths in x's descriptor, which ours take.
    pub device_lengths: *const i32,
    pub x_descriptor: cudnnRNNDataDescriptor_t,
    pub x: *const c_void,
    pub y_descriptor: cudnnRNNDataDescriptor_t,
    pub y: *mut c_void,
    pub h_descriptor: cudnnTensorDescriptor_t,
    pub hx: *const c_void,
    pub hy: *mut c_void,
    pub c_descriptor: cudnnTensorDescriptor_t,
    pub cx: *const c_void,
    pub cy: *mut c_void,
    pub weight_space_size: usize,
    pub weight_space: *const c_void,
    pub workspace_size: usize,
    pub workspace: *mut c_void,
    pub reserve_size: usize,
    pub reserve: *mut c_void,
}

/// Whether the handle's recurrent networks are cuDNN's alone.
fn is_off(handle: cudnnHandle_t) -> bool {
    settings::get().rnn == Rnn::Off || policies::of(handle).policy == Policy::Off
}

/// Bytes of workspace that our kernels take for sequences as long and as many as `x` says; 0 where they run nothing.
///
/// # Safety
/// The arguments are those of a call of `cudnnGetRNNTempSpaceSizes`, which cuDNN has taken.
pub unsafe fn workspace_size(
    handle: cudnnHandle_t,
    descriptor: cudnnRNNDescriptor_t,
    mode: cudnnForwardMode_t,
    x: cudnnRNNDataDescriptor_t,
) -> usize {
    if mode != CUDNN_FWD_MODE_INFERENCE || is_off(handle) {
        return 0;
    }
    settings::fault_point("rnn-workspace");
    // SAFETY: as ours.
    let read = unsafe { Network::read(descriptor).zip(Data::read(x)) };
    let Some((network, data)) = read.filter(|(network, data)| takes(network, data).is_ok()) else { return 0 };
    let exchange_bytes = page::page(&network, &data).most_exchange_bytes();
    let temporary = exchange_bytes.and_then(|exchange_bytes| Temporary::of(&network, &data, exchange_bytes));
    temporary.map_or(0, |temporary| temporary.bytes)
}

impl Call {
    /// cuDNN, with the arguments unchanged.
    ///
    /// # Safety
    /// The arguments are those of a call of `cudnnRNNForward`, or cuDNN refuses them.
    pub unsafe fn run_as_asked(&self) -> cudnnStatus_t {
        // SAFETY: as ours.
        unsafe {
            calls::rnn::cudnnRNNForward(
                self.handle,
                self.descriptor,
                self.mode,
                self.device_lengths,
                self.x_descriptor,
                self.x,
                self.y_descriptor,
                self.y,
                self.h_descriptor,
                self.hx,
                self.hy,
                self.c_descriptor,
                self.cx,
                self.cy,
                self.weight_space_size,
                self.weight_space,
                self.workspace_size,
                self.workspace,
                self.reserve_size,
                self.reserve,
            )
        }
    }

    pub fn memory(&self) -> Memory {
        let Self { x, y, hx, hy, cx, cy, weight_space, weight_space_size, workspace, workspace_size, .. } = *self;
        Memory { x, y, hx, hy, cx, cy, weight_space, weight_space_size, workspace, workspace_size }
    }

    /// By our kernels where they can and are to, else by cuDNN. What is read is not changed before the call has ended: it
    /// may be run anew.
    ///
    /// # Safety
    /// As for [`Self::run_as_asked`].
    pub unsafe fn run(&self) -> cudnnStatus_t {
        // SAFETY: as ours.
        match unsafe { self.running() } {
            // SAFETY: as ours.
            Ok(running) => unsafe { running.run() },
            Err(why) => {
                log::trace!("an RNN is cuDNN's: {why}");
                // SAFETY: as ours.
                unsafe { self.run_as_asked() }
            }
        }
    }

    /// The call, if our kernels can answer it. `Err` says why they cannot.
    ///
    /// # Safety
    /// As for [`Self::run_as_asked`].
    pub(super) unsafe fn running(&self) -> Result<Running<'_>, &'static str> {
        if is_off(self.handle) {
            return Err("settings say so");
        }
        settings::fault_point("rnn");
        // SAFETY: as ours.
        let case = unsafe { Case::of(self) }?;
        // SAFETY: as ours.
        let stream = unsafe { calls::stream_of(self.handle) }.ok_or("its stream is not told")?;
        let page = page::page(&case.network, &case.data);
        Ok(Running { call: self, case, stream, page })
    }
}

/// A call that our kernels can answer.
pub(super) struct Running<'a> {
    call: &'a Call,
    pub case: Case,
    stream: Stream,
    pub page: Arc<Page>,
}

impl Running<'_> {
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn run(&self) -> cudnnStatus_t {
        let (device, stream) = (cudnn::device(), self.stream);
        let mut run = self.page.decide(device.is_capturing(stream));
        if matches!(run, Run::Load) {
            run = self.page.load().into();
        }
        // SAFETY: as ours.
        unsafe {
            match run {
                Run::Ours(engine) => self.by(&engine),
                Run::Timed(index, engine) => self.timed(index, engine.as_deref()),
                Run::Cudnn | Run::Load => self.call.run_as_asked(),
            }
        }
    }

    /// # Safety
    /// As for [`Call::run`].
    unsafe fn by(&self, engine: &Engine) -> cudnnStatus_t {
        // SAFETY: as ours.
        match unsafe { self.launch(engine) } {
            Ok(()) => CUDNN_STATUS_SUCCESS,
            Err(refusal) => {
                if let Refusal::Failed(why) = refusal {
                    self.page.give_up(&why);
                }
                // SAFETY: as ours.
                unsafe { self.call.run_as_asked() }
            }
        }
    }

    /// A candidate, between marks; cuDNN where there is no engine, or where it cannot run.
    ///
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn timed(&self, index: usize, engine: Option<&Engine>) -> cudnnStatus_t {
        // SAFETY: as ours.
        let (ran, timed) = unsafe { self.measure(engine) };
        self.page.with_trial(|trial| match &ran {
            Ok(CUDNN_STATUS_SUCCESS) => trial.ran(index, self.case.data.steps, timed),
            // cuDNN refuses the call, which says nothing of its kernels.
            Ok(_) => trial.skipped(),
            Err(Refusal::NoRoom) => trial.ran(index, self.case.data.steps, None),
            Err(Refusal::Failed(_)) => trial.failed(index),
        });
        // SAFETY: as ours.
        ran.unwrap_or_else(|_| unsafe { self.call.run_as_asked() })
    }

    /// An engine between marks, or cuDNN, whose status this is.
    ///
    /// # Safety
    /// As for [`Call::run`].
    pub unsafe fn measure(&self, engine: Option<&Engine>) -> (Result<cudnnStatus_t, Refusal>, Option<Timed>) {
        let (device, stream) = (cudnn::device(), self.stream);
        let timing = Timing::start(device, stream);
        // SAFETY: as ours.
        let ran = unsafe {
            match engine {
                Some(engine) => self.launch(engine).map(|()| CUDNN_STATUS_SUCCESS),
                None => Ok(self.call.run_as_asked()),
            }
        };
        let timed = timing.and_then(|timing| timing.end(device, stream));
        if let Err(Refusal::Failed(why)) = &ran {
            log::info!("{}: a candidate failed: {why}", self.page.key.inference);
        }
        (ran, timed)
    }

    /// # Safety
    /// As for [`Call::run`].
    unsafe fn launch(&self, engine: &Engine) -> Result<(), Refusal> {
        let Case { network, data, .. } = &self.case;
        let temporary = Temporary::of(network, data, engine.exchange_bytes());
        let temporary = temporary.filter(|temporary| temporary.bytes <= self.call.workspace_size);
        let temporary = temporary.ok_or(Refusal::NoRoom)?;
        // SAFETY: as ours.
        let weights: Option<&[Weights]> = unsafe { self.page.weights(self.call) };
        let weights = weights.ok_or_else(|| Refusal::Failed("weights lie otherwise than it takes them".into()))?;
        let (memory, padding_fill, stream) = (self.call.memory(), self.case.padding_fill, self.stream);
        let work = Work { network, data, padding_fill, memory, weights, temporary: &temporary, engine, stream };
        settings::fault_point("rnn-launch");
        // SAFETY: as ours, and the workspace was found large enough.
        unsafe { work.launch() }.map_err(Refusal::Failed)
    }
}

/// Why ours did not run.
pub enum Refusal {
    /// The call brings too little workspace.
    NoRoom,
    /// What went wrong.
    Failed(String),
}
