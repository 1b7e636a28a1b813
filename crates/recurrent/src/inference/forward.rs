//! A call of `cudnnRNNForward`: our kernels or cuDNN run it, and cuDNN also runs it if our kernels fail.

use std::sync::Arc;

use cudnn_abi::*;

use crate::inference::contestant::InferenceContest;
use crate::inference::registry;
use crate::inference::run::Work;
use crate::kernels::Engine;
use crate::network::call::Call;
use crate::network::eligible::{Case, takes};
use crate::network::room::Asked;
use crate::network::temporary::Temporary;
use crate::recurrence::Recurrent;
use crate::training;
use cudnn::calls;
use cudnn::policies;
use cudnn::rnn::{Data, Network, Weights};
use gpu::Stream;
use guest::settings::{self, Policy, Rnn};
use guest::summary::{self, Counted};
use tuning::contest::Outcome;

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
    let exchange_bytes = registry::contest(&network, &data).contestant.most_exchange_bytes();
    let temporary = exchange_bytes.and_then(|exchange_bytes| Temporary::of(&network, &data, exchange_bytes));
    temporary.map_or(0, |temporary| temporary.bytes)
}

impl Call {
    /// Runs the call on our kernels if they can and may answer it, else on cuDNN. Inputs stay unchanged until the call
    /// has ended, so cuDNN can run it again.
    pub fn run(&self) -> cudnnStatus_t {
        if self.mode == CUDNN_FWD_MODE_TRAINING && training::calls::concerns_us() {
            return training::calls::run_forward(self);
        }
        match self.running() {
            Ok(running) => running.run(),
            Err(why) => {
                log::trace!("an RNN is cuDNN's: {why}");
                self.by_cudnn()
            }
        }
    }

    /// Prepares to run the call, if our kernels can answer it. `Err` gives the reason if they cannot.
    pub(super) fn running(&self) -> Result<Running<'_>, &'static str> {
        if is_off(self.handle) {
            return Err("settings say so");
        }
        settings::fault_point("rnn");
        let case = Case::of(self)?;
        // SAFETY: the handle is a call's, and cuDNN has checked it in `Case::of`.
        let stream = unsafe { calls::stream_of(self.handle) }.ok_or("its stream is not told")?;
        let contest = registry::contest(&case.network, &case.data);
        let asked = Asked {
            handle: self.handle,
            descriptor: self.descriptor,
            x_descriptor: self.x_descriptor,
            mode: self.mode,
            network: &case.network,
            data: &case.data,
            others: 0,
        };
        // SAFETY: handle and descriptors are a call's.
        if !unsafe { contest.contestant.room.is_enough(&asked, [self.workspace_size, self.reserve_size]) } {
            return Err("the workspace is smaller than cuDNN's own");
        }
        Ok(Running { call: self, case, stream, contest })
    }
}

/// A call that our kernels can answer.
pub(super) struct Running<'a> {
    call: &'a Call,
    pub case: Case,
    stream: Stream,
    pub contest: Arc<InferenceContest>,
}

impl Running<'_> {
    /// Runs the call on our kernels or on cuDNN, as the contest has it. cuDNN also runs it if our kernels cannot.
    fn run(&self) -> cudnnStatus_t {
        summary::count(Counted::Network);
        let turn = self.contest.decide(self.stream);
        self.contest.timed((0, &turn), (self.case.data.steps, self.stream), || {
            let Some(engine) = &turn.kernel else {
                let status = self.call.by_cudnn();
                // cuDNN refuses the call, which does not count against its kernels.
                let has_run = status == CUDNN_STATUS_SUCCESS;
                return (status, if has_run { Outcome::Ran } else { Outcome::Nothing });
            };
            // SAFETY: the engine is the contest's. A failed launch leaves inputs unchanged.
            let outcome = match unsafe { self.launch(engine) } {
                Ok(()) => return (CUDNN_STATUS_SUCCESS, Outcome::Ran),
                Err(Refusal::NoRoom) => Outcome::NoRoom,
                Err(Refusal::Failed(why)) if turn.is_timed() => {
                    log::info!("{}: a candidate failed: {why}", self.contest.contestant);
                    Outcome::Failed
                }
                Err(Refusal::Failed(why)) => {
                    self.contest.give_up(&why);
                    Outcome::Failed
                }
            };
            (self.call.by_cudnn(), outcome)
        })
    }

    /// # Safety
    /// The engine is a candidate of the call's contest.
    pub(super) unsafe fn launch(&self, engine: &Engine) -> Result<(), Refusal> {
        let Case { network, data, .. } = &self.case;
        let temporary = Temporary::of(network, data, engine.exchange_bytes());
        let temporary = temporary.filter(|temporary| temporary.bytes <= self.call.workspace_size);
        let temporary = temporary.ok_or(Refusal::NoRoom)?;
        // SAFETY: the contestant's key was made from this call.
        let weights: Option<&[Weights]> = unsafe { self.contest.contestant.weights(self.call) };
        let weights = weights.ok_or_else(|| Refusal::Failed("weights lie otherwise than it takes them".into()))?;
        let projecting = self.contest.contestant.projecting().map_err(Refusal::Failed)?;
        let (memory, padding_fill, stream) = (self.call.memory(), self.case.padding_fill, self.stream);
        let temporary = &temporary;
        let work = Work { network, data, padding_fill, memory, weights, temporary, engine, projecting, stream };
        settings::fault_point("rnn-launch");
        // SAFETY: the buffers are a call's; the workspace was found large enough above.
        unsafe { work.launch() }.map_err(Refusal::Failed)?;
        summary::count(Counted::OnOurKernels);
        Ok(())
    }
}

/// Why our kernels did not run.
pub(super) enum Refusal {
    /// The workspace of the call is too small.
    NoRoom,
    /// The reason of the failure.
    Failed(String),
}
