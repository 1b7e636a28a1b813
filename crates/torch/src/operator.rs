//! A call of an operator: who runs it, and what becomes of a panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::libtorch::Libtorch;
use super::values::Tensor;
use gpu::{Device, Entered, Stream};
use tuning::contest::{Contest, Contestant, Outcome, Timing, Turn};

/// A call of an operator, with its arguments. They live as long as the call.
pub trait Operator: Sized {
    /// The contest between our kernels and PyTorch's.
    type Contestant: Contestant;
    /// Room for the results of our kernels.
    type Room<'a>
    where
        Self: 'a;
    type Results<'a>
    where
        Self: 'a;

    /// The name of such a call, for people.
    const WHAT: &'static str;

    fn torch(&self) -> &Libtorch;

    /// A tensor on the call's device.
    fn x(&self) -> &Tensor<'_>;

    /// Counts the call for the summary.
    fn count(&self);

    /// Reads the call, and finds its contest on the calling thread's device. `Err` gives the reason why PyTorch has to run
    /// it.
    fn contest(&self) -> Result<Arc<Contest<Self::Contestant>>, &'static str>;

    /// Allocates what our kernels write. `None` if there is no memory for it.
    fn room(&self, ours: &KernelOf<Self>) -> Option<Self::Room<'_>>;

    /// Launches our kernels. After a failure the call's arguments are as they were.
    ///
    /// # Safety
    /// The kernels are of the call's contest, the room is for them, and the stream is on the call's device.
    unsafe fn launch<'a>(&'a self, ours: &KernelOf<Self>, room: &Self::Room<'a>, stream: Stream) -> Result<(), String>;

    /// Counts a call that our kernels ran, for the summary and the log.
    fn count_ours(&self, ours: &KernelOf<Self>);

    fn results<'a>(&'a self, room: Self::Room<'a>) -> Self::Results<'a>;

    /// Lets PyTorch's own kernels run the call. They may throw: the exception goes on to the caller.
    fn by_pytorch(&self) -> Self::Results<'_>;
}

/// Our kernels for an operator's calls.
pub type KernelOf<O> = <<O as Operator>::Contestant as Contestant>::Kernel;

/// Runs a call by our kernels or by PyTorch's, as their contest decides. No panic gets out. An exception of PyTorch's
/// does: Rust cannot catch it, so PyTorch's kernels run outside of what catches panics.
pub fn run<O: Operator>(call: &O) -> O::Results<'_> {
    let Some(contested) = guarded(|| Contested::new(call)).flatten() else { return call.by_pytorch() };
    let mut timing = Timed(guarded(|| contested.time()).flatten());
    let (results, outcome) = match guarded(|| contested.by_us()).unwrap_or(Err(Outcome::Failed)) {
        Ok(results) => (results, Outcome::Ran),
        Err(outcome) => (call.by_pytorch(), outcome),
    };
    timing.end(outcome);
    results
}

/// The timing of a call, if there is one. If PyTorch throws, the call does not count.
struct Timed<'a, C: Contestant>(Option<Timing<'a, C>>);

impl<C: Contestant> Timed<'_, C> {
    fn end(&mut self, outcome: Outcome) {
        guarded(|| self.0.take().map(|timing| timing.end(1, outcome)));
    }
}

impl<C: Contestant> Drop for Timed<'_, C> {
    fn drop(&mut self) {
        self.end(Outcome::Nothing);
    }
}

/// A call that our kernels could run.
struct Contested<'a, O: Operator> {
    call: &'a O,
    _entered: Option<Entered>,
    contest: Arc<Contest<O::Contestant>>,
    turn: Turn<KernelOf<O>>,
    stream: Stream,
}

impl<'a, O: Operator> Contested<'a, O> {
    /// `None` if our kernels could not run the call.
    fn new(call: &'a O) -> Option<Self> {
        call.count();
        let (device, number) = (cudnn::device(), call.x().device_index()?);
        // Also where the thread has no context yet, such as one of autograd's: then no device is current, not device 0.
        let entered = if device == Device::Cuda { Some(device.enter(number)?) } else { None };
        let contest = call.contest().inspect_err(|why| log::trace!("{} is PyTorch's: {why}", O::WHAT)).ok()?;
        let stream = current_stream(call.torch(), number)?;
        let turn = contest.decide(stream);
        Some(Self { call, _entered: entered, contest, turn, stream })
    }

    fn time(&self) -> Option<Timing<'_, O::Contestant>> {
        self.contest.time((0, &self.turn), self.stream)
    }

    /// Runs the call by our kernels, if it is their turn. If they did not run, they changed nothing: `Err` is the outcome
    /// of the turn, once PyTorch has run the call.
    fn by_us(&self) -> Result<O::Results<'a>, Outcome> {
        let Some(ours) = &self.turn.kernel else { return Err(Outcome::Ran) };
        // Memory may be there again for the next call.
        let room = self.call.room(ours).ok_or(Outcome::NoRoom)?;
        // After a panic behind the launch, the call must not run again: it may have changed what its arguments hold.
        let has_run = Cell::new(false);
        guarded(|| {
            // SAFETY: a contest's kernels are for its calls, and the stream is the call's.
            match unsafe { self.call.launch(ours, &room, self.stream) } {
                Ok(()) => {
                    has_run.set(true);
                    self.call.count_ours(ours);
                }
                Err(why) => log::info!("{} on our kernels failed: {why}", O::WHAT),
            }
        });
        if has_run.get() {
            return Ok(self.call.results(room));
        }
        if !self.turn.is_timed() {
            self.contest.give_up("our kernels failed; the log says why");
        }
        Err(Outcome::Failed)
    }
}

/// PyTorch's current stream on a device.
fn current_stream(torch: &Libtorch, device: i32) -> Option<Stream> {
    let Some(current) = torch.stream else { return Some(null_mut()) };
    let mut stream = null_mut();
    // SAFETY: writes one pointer.
    (unsafe { current(device, &mut stream) } == 0).then_some(stream.cast())
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
