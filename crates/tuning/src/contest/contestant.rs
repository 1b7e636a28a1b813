//! The trait of a contest's object: a subject that our kernels may run in cuDNN's place.

use std::fmt;

use crate::family::{Entries, Family, Time};
use gpu::Stream;

/// cuDNN's name in the database and in reports.
pub const CUDNN: &str = "cuDNN";
/// The most calls of a pass.
pub const MOST_CALLS: usize = 3;
/// The times of each call's candidates.
pub type Times = [Vec<Time>; MOST_CALLS];

/// The object of a contest: a subject on a device, which cuDNN or our kernels run. `Display` is for people.
pub trait Contestant: fmt::Display + Send + Sync + Sized + 'static {
    /// One of our kernels, loaded. Clones share it.
    type Kernel: Clone + Send + Sync + 'static;
    /// The identity of one of our kernels, among those that can run a call.
    type Choice: Clone + PartialEq + Send + Sync + 'static;

    /// The family in the database.
    const FAMILY: Family;
    /// The calls of a pass, at most [`MOST_CALLS`]. Call 0 begins it, and decides for all.
    const CALLS: usize;
    /// Our side runs each call without a persistent kernel too. That is a candidate of its own.
    const RUNS_WITHOUT: bool;
    /// Once the last candidate is compiled, all are timed again in turns. Otherwise a candidate that comes later is timed
    /// alone.
    const TIMES_AGAIN: bool;
    /// Candidates that failed in a trial are kept without a time, and not tried in the next process.
    const KEEPS_FAILURES: bool;
    /// The reported reason if our first choice runs because the settings force it.
    const FORCED: &'static str;

    /// Returns whether our kernels run wherever they can.
    fn is_forced(&self) -> bool;

    /// The name of the program's own implementation, in the database and in reports.
    fn plain(&self) -> &'static str {
        CUDNN
    }

    /// The device's number.
    fn device(&self) -> i32;

    /// The least units of work of a call. Times are divided by the units of work.
    fn units(&self) -> f64;

    /// About how many launches of a pass wait for each other.
    fn launches(&self) -> u64;

    /// The text of a call in the database.
    fn spec(&self, call: usize) -> String;

    /// Our kernels to try for a call, the one that is probably best first.
    fn choices(&self, call: usize) -> &[Self::Choice];

    /// Returns whether there is more to try than the first choices, where our kernels are forced.
    fn has_others(&self) -> bool {
        (0..Self::CALLS).any(|call| self.choices(call).len() > 1)
    }

    /// Our kernels with these names; `None` for an unknown name.
    fn named(&self, call: usize, names: &[&str]) -> Vec<Option<Self::Choice>>;

    /// The name of one of our kernels; for `None`, the name of our side without a kernel ([`Self::RUNS_WITHOUT`]).
    fn name(&self, call: usize, choice: Option<&Self::Choice>) -> String;

    /// The identity of a loaded kernel.
    fn choice(kernel: &Self::Kernel) -> &Self::Choice;

    /// Returns whether our kernels are loaded already, so that a trial costs no compilation.
    fn is_loaded(&self) -> bool {
        false
    }

    /// Returns whether a kernel is on disk, compiled for the device.
    fn is_compiled(&self, call: usize, choice: &Self::Choice) -> bool;

    /// Compiles a kernel, so that loading is quick.
    fn compile(&self, call: usize, choice: &Self::Choice) -> Result<(), String>;

    /// Compiles and loads a kernel on the calling thread's device. `Err` says why it does not run there.
    fn load(&self, call: usize, choice: &Self::Choice) -> Result<Self::Kernel, String>;

    /// Compiles the other kernels that our side needs, which are no choices.
    fn compile_others(&self) -> Result<(), String> {
        Ok(())
    }

    /// Loads the other kernels that our side needs. `Err` says why our side cannot run.
    fn load_others(&self) -> Result<(), String> {
        Ok(())
    }

    /// Prepares the stream for a call that is timed.
    fn before_timed(&self, _ours: &Self::Kernel, _stream: Stream) {}

    /// Reports a decision: the name of each call's implementation, the reason, and the times.
    fn decided(&self, names: &[String], why: &str, times: &Times);

    /// Our kernels failed: says why, the first time.
    fn gave_up(&self, why: &str);

    /// New times were kept: a performance model may learn from them.
    fn learn(_entries: &Entries) {}
}

/// The reported reason if we have no kernel for the subject.
pub(super) const NOTHING_FITS: &str = "nothing fits on the device";

/// The name of each call's implementation: our kernel's name, or cuDNN's.
pub fn names<C: Contestant>(contestant: &C, is_ours: bool, choices: [Option<&C::Choice>; MOST_CALLS]) -> Vec<String> {
    let name = |call: usize| match is_ours {
        true => contestant.name(call, choices[call]),
        false => contestant.plain().to_owned(),
    };
    (0..C::CALLS).map(name).collect()
}
