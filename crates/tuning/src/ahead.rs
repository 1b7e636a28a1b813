//! Tuning on handles, streams and buffers of our own: ahead of time (`ucudnn tune`), and for plans made while the
//! program runs. Works on any thread.

use std::sync::atomic::AtomicBool;

use super::executable::Executable;
use super::record::{Record, Wanted};
use super::search::Candidate;
use super::session::Session;
use super::waiting::OwnBuffers;
use cudnn::owned::OwnedHandle;
use guest::settings;
use planner::BatchSizePolicy;

pub use super::search::{Goal, Search};
pub use super::session::Progress;
pub use super::waiting::Budget;

/// The input of a tuning.
pub struct Job<'a, K: Executable> {
    /// The convolution problem to tune.
    pub problem: &'a K,
    /// The algorithms that may be used; if `None`, those that may replace cuDNN's own first choice.
    pub class: Option<K::Class>,
    /// The micro-batch sizes to try.
    pub sizes: BatchSizePolicy,
    /// The configurations to look for, and their limit in bytes of workspace.
    pub goal: Goal,
    /// The most time that tuning may take.
    pub budget: Budget,
    /// The most bytes that tuning may allocate on a device. Configurations whose workspace does not fit beside the
    /// problem's data are left out. If the data alone do not fit, parts of the mini-batch are timed and no
    /// configuration runs in place.
    pub bytes: usize,
    /// The ordinal of the device to tune for, on which configurations run in place; then the ordinals of equal devices
    /// that help.
    pub devices: &'a [i32],
    /// Setting it ends the tuning soon; a later tuning can continue.
    pub stop: &'a AtomicBool,
    /// Called after each micro-configuration, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// The ordinals of the calling thread's device, then of the equal ones that `UCUDNN_BENCHMARK_DEVICES` lets help.
pub fn devices() -> Vec<i32> {
    let device = cudnn::device();
    super::devices::tuning_for(device, device.ordinal())
}

/// Tunes a problem on buffers of our own, through the database: known results are not measured again, new results are
/// stored at once, and one process at a time tunes a problem. `Err` says why tuning is not possible.
pub fn tune<K: Executable>(job: &Job<K>) -> Result<Search<K::Algorithm>, String> {
    settings::fault_point("tune");
    let Job { problem, class, sizes, goal, budget, bytes, devices, stop, progress } = *job;
    let device = cudnn::device();
    let ordinal = *devices.first().ok_or("no device was named")?;
    let _entered = device.enter(ordinal).ok_or_else(|| format!("device {ordinal} is not there"))?;
    let stream = device.stream().ok_or_else(|| format!("device {ordinal} gives no stream"))?;
    let handle = OwnedHandle::new(stream.raw()).map_err(|status| format!("cuDNN gives no handle: status {status}"))?;
    // SAFETY: `handle` is our own live cuDNN handle on the entered device, and has no other use.
    let (class, mut candidates) = unsafe { problem.candidates(handle.raw(), class, sizes) }?;
    let part = fitting(problem, &candidates, bytes).ok_or_else(|| {
        let data = OwnBuffers::data_bytes(problem);
        format!("its data take {data} bytes, tuning may take {bytes}, and no part of them fits")
    })?;
    let goal = goal.within(bytes - OwnBuffers::data_bytes(&part));
    candidates.retain(|candidate| candidate.batch <= part.batch());
    let wanted = Wanted::among(candidates, goal, sizes, class);
    let record = Record::of(problem, device, ordinal);
    let session =
        Session { problem, part: &part, wanted: &wanted, record: &record, budget, devices, bytes, stop, progress };
    let prepare = |workspace| {
        let buffers = OwnBuffers::allocate(device, stream.raw(), &part, workspace, bytes)?;
        Ok((buffers.bench(device, handle.raw(), stream.raw(), &part), Some(buffers)))
    };
    // SAFETY: we allocated the bench's buffers for `part` and `workspace`, and `handle` has no other use.
    unsafe { session.tune(&[], prepare) }
}

/// Returns the problem if its data fit into `bytes`. Otherwise returns it over the largest micro-batch of the
/// candidates whose data leave half of `bytes` to workspaces.
fn fitting<K: Executable>(problem: &K, candidates: &[Candidate<K::Algorithm>], bytes: usize) -> Option<K> {
    if OwnBuffers::data_bytes(problem) <= bytes {
        return Some(problem.clone());
    }
    let mut sizes: Vec<_> = candidates.iter().map(|candidate| candidate.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut parts = sizes.iter().rev().map(|&size| problem.with_batch(size));
    parts.find(|part| OwnBuffers::data_bytes(part) <= bytes / 2)
}
