//! The trait of what is timed against cuDNN.

use std::fmt;

use crate::family::{Entries, Family, Time};
use gpu::Stream;

/// cuDNN's name in the database and in reports.
pub const CUDNN: &str = "cuDNN";
/// The most calls of a pass.
pub const MOST_CALLS: usize = 3;
/// The times of each call's candidates.
pub type Times = [Vec<Time>; MOST_CALLS];

/// What a contest is about: a subject on a device, which cuDNN or our kernels run. `Display` is for people.
pub trait Contestant: fmt::Display + Send + Sync + Sized + 'static {
    /// A loaded kernel of ours. Clones share it.
    type Kernel: Clone + Send + Sync + 'static;
    /// What identifies a kernel of ours among those that can run a call.
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
    fn is_forced() -> bool;

    /// The device's number.
    fn device(&self) -> i32;

    /// A call's units of work, at least, by which its times are divided.
    fn units(&self) -> f64;

    /// The launches of a pass that wait for each other, about.
    fn launches(&self) -> u64;

    /// The text of a call in the database.
    fn spec(&self, call: usize) -> String;

    /// The kernels of ours for a call, which are to be tried: the likely best first.
    fn choices(&self, call: usize) -> &[Self::Choice];

    /// Returns whether there is more to try than the first choices, where our kernels are forced.
    fn has_others(&self) -> bool {
        (0..Self::CALLS).any(|call| self.choices(call).len() > 1)
    }

    /// The kernels of ours with these names; `None` for a name that is none's.
    fn named(&self, call: usize, names: &[&str]) -> Vec<Option<Self::Choice>>;

    /// The name of a kernel of ours; without one, that of [`Self::RUNS_WITHOUT`].
    fn name(&self, call: usize, choice: Option<&Self::Choice>) -> String;

    /// What identifies a loaded kernel.
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

    /// Compiles what our side needs beside the kernels of choices.
    fn compile_others(&self) -> Result<(), String> {
        Ok(())
    }

    /// Loads what our side needs beside the kernels of choices. `Err` says why our side cannot run.
    fn load_others(&self) -> Result<(), String> {
        Ok(())
    }

    /// Prepares the stream for a call that is timed.
    fn before_timed(&self, _ours: &Self::Kernel, _stream: Stream) {}

    /// Reports a decision: the names of what runs each call, why, and the times.
    fn decided(&self, names: &[String], why: &str, times: &Times);

    /// Our kernels failed: says why, the first time.
    fn gave_up(&self, why: &str);

    /// New times were kept: a performance model may learn from them.
    fn learn(_entries: &Entries) {}
}

/// The reported reason if there is no kernel of ours for the subject.
pub(super) const NOTHING_FITS: &str = "nothing fits on the device";

/// The names of what runs each call: of our kernels, or cuDNN's.
pub fn names<C: Contestant>(contestant: &C, is_ours: bool, choices: [Option<&C::Choice>; MOST_CALLS]) -> Vec<String> {
    let name = |call: usize| match is_ours {
        true => contestant.name(call, choices[call]),
        false => CUDNN.to_owned(),
    };
    (0..C::CALLS).map(name).collect()
}
