//! A call of `cudnnRNNForward`: our kernels or cuDNN run it, and cuDNN also runs it if our kernels fail.

use std::sync::Arc;

use cudnn_abi::*;

use super::call::Call;
use super::eligible::{Case, takes};
use super::kernels::Engine;
use super::recurrence::Recurrent;
use super::registry;
use super::room::Asked;
use super::run::Work;
use super::state::{Run, State};
use super::temporary::Temporary;
use super::training;
use cudnn::calls;
use cudnn::policies;
use cudnn::rnn::{Data, Network, Weights};
use gpu::Stream;
use guest::settings::{self, Policy, Rnn};
use guest::summary::{self, Counted};
use tuning::turns::{Started, Timed};

/// Returns true if the settings leave all recurrent networks of the handle to cuDNN.
fn is_off(handle: cudnnHandle_t) -> bool {
    settings::get().rnn == Rnn::Off || policies::of(handle).policy == Policy::Off
}

/// Bytes of workspace that our kernels need for the sequences of `x`, at most; 0 where they run nothing. They depend on the
/// arguments and the device alone, since a program may ask at any time and keep an answer for good.
///
/// # Safety
/// The arguments are those of a call of `cudnnGetRNNTempSpaceSizes` for inference, which cuDNN has accepted.
pub unsafe fn workspace_size(descriptor: cudnnRNNDescriptor_t, x: cudnnRNNDataDescriptor_t) -> usize {
    if settings::get().rnn == Rnn::Off || policies::environment_is_off() {
        return 0;
    }
    settings::fault_point("rnn-workspace");
    // SAFETY: cuDNN has accepted both descriptors in the same call (see `# Safety`).
    let read = unsafe { Network::read(descriptor).zip(Data::read(x)) };
    let Some((network, data)) = read.filter(|(network, data)| takes(network, data).is_ok()) else { return 0 };
    let exchange_bytes = registry::state(&network, &data).most_exchange_bytes();
    let temporary = exchange_bytes.and_then(|exchange_bytes| Temporary::of(&network, &data, exchange_bytes));
    temporary.map_or(0, |temporary| temporary.bytes)
}

impl Call {
    /// Runs the call on our kernels if they can and may answer it, else on cuDNN. Inputs stay unchanged until the call
    /// has ended, so cuDNN can run it again.
    ///
    /// # Safety
    /// As for [`Self::run_as_asked`].
    pub unsafe fn run(&self) -> cudnnStatus_t {
        if self.mode == CUDNN_FWD_MODE_TRAINING && training::calls::concerns_us() {
            // SAFETY: the caller makes the same promise.
            return unsafe { training::calls::run_forward(self) };
        }
        // SAFETY: `running` requires the promise about the arguments that the caller makes here (see `# Safety`).
        match unsafe { self.running() } {
            // SAFETY: `running` wraps this call, whose arguments the caller vouches for (see `# Safety`).
            Ok(running) => unsafe { running.run() },
            Err(why) => {
                log::trace!("an RNN is cuDNN's: {why}");
                // SAFETY: the caller makes the promise of `run_as_asked` (see `# Safety`).
                unsafe { self.run_as_asked() }
            }
        }
    }

    /// Prepares to run the call, if our kernels can answer it. `Err` gives the reason if they cannot.
    ///
    /// # Safety
    /// As for [`Self::run_as_asked`].
    pub(super) unsafe fn running(&self) -> Result<Running<'_>, &'static str> {
        if is_off(self.handle) {
            return Err("settings say so");
        }
        settings::fault_point("rnn");
        // SAFETY: the arguments are those of a `cudnnRNNForward` call (see `# Safety`).
        let case = unsafe { Case::of(self) }?;
        // SAFETY: the handle is the program's (see `# Safety`), and cuDNN has checked it in `Case::of`.
        let stream = unsafe { calls::stream_of(self.handle) }.ok_or("its stream is not told")?;
        let state = registry::state(&case.network, &case.data);
        let asked = Asked {
            handle: self.handle,
            descriptor: self.descriptor,
            x_descriptor: self.x_descriptor,
            mode: self.mode,
            network: &case.network,
            data: &case.data,
            others: 0,
        };
        // SAFETY: the arguments are those of a `cudnnRNNForward` call (see `# Safety`).
        if !unsafe { state.room.is_enough(&asked, [self.memory.workspace_size, self.reserve_size]) } {
            return Err("the workspace is smaller than cuDNN's own");
        }
        Ok(Running { call: self, case, stream, state })
    }
}

/// A call that our kernels can answer.
pub(super) struct Running<'a> {
    call: &'a Call,
    pub case: Case,
    stream: Stream,
    pub state: Arc<State>,
}

impl Running<'_> {
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn run(&self) -> cudnnStatus_t {
        summary::count(Counted::Network);
        let (device, stream) = (cudnn::device(), self.stream);
        let mut run = self.state.decide(device.is_capturing(stream));
        if matches!(run, Run::Load) {
            run = self.state.load().into();
        }
        // SAFETY: the caller promises the arguments of a call (see `Call::run`); every branch requires that alone.
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
        // SAFETY: the caller promises the arguments of a call (see `Call::run`), as `launch` requires.
        match unsafe { self.launch(engine) } {
            Ok(()) => CUDNN_STATUS_SUCCESS,
            Err(refusal) => {
                if let Refusal::Failed(why) = refusal {
                    self.state.give_up(&why);
                }
                // SAFETY: the caller promises the arguments (see `Call::run`); a failed launch leaves inputs unchanged.
                unsafe { self.call.run_as_asked() }
            }
        }
    }

    /// Times a candidate; `None` stands for cuDNN, which also runs the call if the candidate cannot.
    ///
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn timed(&self, index: usize, engine: Option<&Engine>) -> cudnnStatus_t {
        // SAFETY: the caller promises the arguments of a call (see `Call::run`), as `measure` requires.
        let (ran, timed) = unsafe { self.measure(engine) };
        self.state.with_turns(|turns| match &ran {
            Ok(CUDNN_STATUS_SUCCESS) => turns.ran(index, self.case.data.steps, timed),
            // cuDNN refuses the call, which does not count against its kernels.
            Ok(_) => turns.skipped(),
            Err(Refusal::NoRoom) => turns.ran(index, self.case.data.steps, None),
            Err(Refusal::Failed(_)) => turns.failed(index),
        });
        // SAFETY: the caller promises the arguments (see `Call::run`); a failed launch leaves inputs unchanged.
        ran.unwrap_or_else(|_| unsafe { self.call.run_as_asked() })
    }

    /// Runs an engine, or cuDNN, between time marks. Returns the status and the marks.
    ///
    /// # Safety
    /// As for [`Call::run`].
    pub unsafe fn measure(&self, engine: Option<&Engine>) -> (Result<cudnnStatus_t, Refusal>, Option<Timed>) {
        let (device, stream) = (cudnn::device(), self.stream);
        let timing = Started::start(device, stream);
        // SAFETY: the caller promises the arguments of a call (see `Call::run`); both branches require that alone.
        let ran = unsafe {
            match engine {
                Some(engine) => self.launch(engine).map(|()| CUDNN_STATUS_SUCCESS),
                None => Ok(self.call.run_as_asked()),
            }
        };
        let timed = timing.and_then(|timing| timing.end(device, stream));
        if let Err(Refusal::Failed(why)) = &ran {
            log::info!("{}: a candidate failed: {why}", self.state.key.inference);
        }
        (ran, timed)
    }

    /// # Safety
    /// As for [`Call::run`].
    unsafe fn launch(&self, engine: &Engine) -> Result<(), Refusal> {
        let Case { network, data, .. } = &self.case;
        let temporary = Temporary::of(network, data, engine.exchange_bytes());
        let temporary = temporary.filter(|temporary| temporary.bytes <= self.call.memory.workspace_size);
        let temporary = temporary.ok_or(Refusal::NoRoom)?;
        // SAFETY: the caller promises a valid handle and descriptor; the state's key was made from this descriptor.
        let weights: Option<&[Weights]> = unsafe { self.state.weights(self.call) };
        let weights = weights.ok_or_else(|| Refusal::Failed("weights lie otherwise than it takes them".into()))?;
        let (memory, padding_fill, stream) = (self.call.memory, self.case.padding_fill, self.stream);
        let work = Work { network, data, padding_fill, memory, weights, temporary: &temporary, engine, stream };
        settings::fault_point("rnn-launch");
        // SAFETY: the caller promises the call's buffers; the workspace was found large enough above.
        unsafe { work.launch() }.map_err(Refusal::Failed)?;
        summary::count(Counted::OnOurKernels);
        Ok(())
    }
}

/// Why our kernels did not run.
pub enum Refusal {
    /// The workspace of the call is too small.
    NoRoom,
    /// The reason of the failure.
    Failed(String),
}
