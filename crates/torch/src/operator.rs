//! A call of an operator: who runs it, and what becomes of a panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::libtorch::Libtorch;
use super::values::Tensor;
use gpu::{Device, Entered, Stream};
use guest::summary::{self, Counted};
use norm::calls::{self, Call};
use norm::contestant::{NormContestant, contest};
use norm::fitted::Fitted;
use norm::subject::Normalization;
use tuning::contest::{Contest, Outcome, Turn};

/// A call of an operator, with its arguments. They live as long as the call.
pub trait Operator: Sized {
    /// The call with room for its results, for our kernels.
    type WithResults<'a>: Call
    where
        Self: 'a;

    fn torch(&self) -> &Libtorch;

    fn x(&self) -> &Tensor<'_>;

    /// Reads the call. `Err` gives the reason why PyTorch has to run it.
    fn subject(&self) -> Result<Normalization, &'static str>;

    /// Allocates the results. `None` if there is no memory for them.
    fn with_results(&self, subject: &Normalization) -> Option<Self::WithResults<'_>>;

    fn results<'a>(ready: Self::WithResults<'a>) -> [Tensor<'a>; 3]
    where
        Self: 'a;

    /// Lets PyTorch's own kernels run the call. They may throw: the exception goes on to the caller.
    fn by_pytorch(&self) -> [Tensor<'_>; 3];
}

/// Runs a call by our kernels or by PyTorch's, as their contest decides. No panic gets out. An exception of PyTorch's
/// does: Rust cannot catch it, so PyTorch's kernels run outside of what catches panics.
pub fn run<O: Operator>(call: &O) -> [Tensor<'_>; 3] {
    let Some(contested) = guarded(|| Contested::new(call)).flatten() else { return call.by_pytorch() };
    let timing = guarded(|| contested.begin()).flatten();
    let (results, outcome) = match guarded(|| contested.by_us(call)).flatten() {
        Some(results) => (results, Outcome::Ran),
        None => (call.by_pytorch(), contested.outcome_by_pytorch()),
    };
    guarded(|| timing.map(|timing| timing.end(1, outcome)));
    results
}

/// A call that our kernels could run.
struct Contested {
    _entered: Option<Entered>,
    contest: Arc<Contest<NormContestant>>,
    turn: Turn<Arc<Fitted>>,
    subject: Normalization,
    stream: Stream,
}

impl Contested {
    /// `None` if our kernels could not run the call.
    fn new<O: Operator>(call: &O) -> Option<Self> {
        summary::count(Counted::Normalization);
        let subject = call.subject();
        let subject = subject.inspect_err(|why| log::trace!("a batch normalization is PyTorch's: {why}")).ok()?;
        let (device, number) = (cudnn::device(), call.x().device_index()?);
        let entered = match device {
            Device::Cuda if device.ordinal() != number => Some(device.enter(number)?),
            _ => None,
        };
        let stream = match call.torch().stream {
            Some(current) => {
                let mut stream = null_mut();
                // SAFETY: writes one pointer.
                (unsafe { current(number, &mut stream) } == 0).then_some(stream)?
            }
            None => null_mut(),
        };
        let contest = contest(&subject);
        let turn = contest.decide(stream.cast());
        Some(Self { _entered: entered, contest, turn, subject, stream: stream.cast() })
    }

    fn begin(&self) -> Option<tuning::contest::Timing<'_, NormContestant>> {
        self.contest.time((0, &self.turn), self.stream)
    }

    /// Runs the call by our kernels, if it is their turn. `None` if they did not run, and changed nothing.
    fn by_us<'a, O: Operator>(&self, call: &'a O) -> Option<[Tensor<'a>; 3]> {
        let ours = self.turn.kernel.as_ref()?;
        let ready = call.with_results(&self.subject)?;
        let has_run = Cell::new(false);
        let launched = guarded(|| {
            let counted = Launched { call: &ready, has_run: &has_run };
            // SAFETY: a contest's kernels are for its calls. The arguments and results live, and are as `subject` says.
            unsafe { calls::launch(&counted, ours, self.stream) }
        });
        if let Some(Err(why)) = launched {
            log::info!("a batch normalization on our kernels failed: {why}");
        }
        has_run.get().then(|| O::results(ready))
    }

    /// The outcome of a turn that PyTorch's kernels had in the end.
    fn outcome_by_pytorch(&self) -> Outcome {
        if self.turn.kernel.is_none() {
            return Outcome::Ran;
        }
        if !self.turn.is_timed() {
            guarded(|| self.contest.give_up("our kernels did not run, or there was no memory for their results"));
        }
        Outcome::Failed
    }
}

/// A call that notes its launch: after a panic from then on, it must not run again, as it has changed the running
/// statistics.
struct Launched<'a, C> {
    call: &'a C,
    has_run: &'a Cell<bool>,
}

impl<C: Call> Call for Launched<'_, C> {
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), gpu::jit::Error> {
        // SAFETY: the same call, kernels and stream (see `# Safety`).
        unsafe { self.call.launch(ours, stream) }?;
        self.has_run.set(true);
        Ok(())
    }
}

/// Runs a body. `None` if it panics, which is logged once.
pub fn guarded<T>(body: impl FnOnce() -> T) -> Option<T> {
    static SAID: AtomicBool = AtomicBool::new(false);
    catch_unwind(AssertUnwindSafe(body))
        .inspect_err(|_| {
            let said = catch_unwind(|| {
                if !SAID.swap(true, Ordering::Relaxed) {
                    log::error!("a panic inside ucudnn: PyTorch runs the operator (said once)");
                }
            });
            drop(said);
        })
        .ok()
}
