//! Answers a call: by our kernels where these are faster, else by cuDNN.

use std::cell::Cell;
use std::sync::Arc;

use cudnn_abi::*;

use super::calls::{CudnnCall, launch};
use super::contestant::{NormContestant, contest};
use super::fitted::Fitted;
use super::subject::{Normalization, Plain};
use cudnn::{calls, policies};
use gpu::Stream;
use guest::settings::{self, Norm, Policy};
use guest::summary::{self, Counted};
use tuning::contest::{Contest, Outcome};

/// Answers a call. `status` gets its status once something was launched for it: after a panic from then on, the call must
/// not run again, as its input may be replaced, and its running statistics updated.
pub fn answer<C: CudnnCall>(call: &C, status: &Cell<Option<cudnnStatus_t>>) -> cudnnStatus_t {
    summary::count(Counted::Normalization);
    let answering = Answering { call, status };
    let answered = match contest_of(call) {
        // SAFETY: the contest is the call's.
        Some((contest, stream)) => unsafe { answering.by_the_faster(&contest, stream) },
        None => answering.by_cudnn(),
    };
    settings::fault_point("norm-answered");
    answered
}

/// Returns the contest of a call with its stream, if our kernels could answer the call.
fn contest_of<C: CudnnCall>(call: &C) -> Option<(Arc<Contest<NormContestant>>, Stream)> {
    if settings::get().norm == Norm::Off || policies::of(call.handle()).policy == Policy::Off {
        return None;
    }
    let planes = call.planes();
    let planes = planes.inspect_err(|why| log::trace!("a batch normalization is cuDNN's: {why}")).ok()?;
    // SAFETY: the handle is a call's, and so live.
    let stream = unsafe { calls::stream_of(call.handle()) }?;
    let is_persistent = call.mode() == CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
    let plain = if is_persistent { Plain::Persistent } else { Plain::Spatial };
    Some((contest(&Normalization::of_cudnn(C::PASS, plain, planes)), stream))
}

/// A call, and its status once something was launched for it.
struct Answering<'a, C> {
    call: &'a C,
    status: &'a Cell<Option<cudnnStatus_t>>,
}

impl<C: CudnnCall> Answering<'_, C> {
    fn by_cudnn(&self) -> cudnnStatus_t {
        let status = self.call.by_cudnn();
        self.status.set(Some(status));
        status
    }

    /// # Safety
    /// As for [`Call::launch`].
    unsafe fn by_us(&self, ours: &Fitted, stream: Stream) -> Result<(), String> {
        // SAFETY: the same call, kernels and stream (see `# Safety`).
        unsafe { launch(self.call, ours, stream) }?;
        self.status.set(Some(CUDNN_STATUS_SUCCESS));
        Ok(())
    }

    /// Answers by our kernels or by cuDNN, as the contest decides.
    ///
    /// # Safety
    /// The contest is the call's, and the stream is its handle's.
    unsafe fn by_the_faster(&self, contest: &Arc<Contest<NormContestant>>, stream: Stream) -> cudnnStatus_t {
        let turn = contest.decide(stream);
        contest.timed((0, &turn), (1, stream), || {
            let Some(ours) = &turn.kernel else {
                let status = self.by_cudnn();
                // cuDNN refuses the call, which does not count against it.
                let has_run = status == CUDNN_STATUS_SUCCESS;
                return (status, if has_run { Outcome::Ran } else { Outcome::Nothing });
            };
            // SAFETY: a contest's kernels are for its calls. They change nothing when they fail.
            match unsafe { self.by_us(ours, stream) } {
                Ok(()) => (CUDNN_STATUS_SUCCESS, Outcome::Ran),
                Err(why) if turn.is_timed() => {
                    log::info!("a batch normalization on our kernels failed: {why}");
                    (self.by_cudnn(), Outcome::Failed)
                }
                Err(why) => {
                    contest.give_up(&why);
                    (self.by_cudnn(), Outcome::Failed)
                }
            }
        })
    }
}
