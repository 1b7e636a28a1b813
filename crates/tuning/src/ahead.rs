//! Tuning on handles, streams and buffers of our own: ahead of time (`ucudnn tune`), and for plans that are
//! made while the program runs. On any thread.

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

/// What is to be found out.
pub struct Job<'a, K: Executable> {
    /// Of which kernel.
    pub kernel: &'a K,
    /// Which algorithms may be used; if not given, those that may take the place of cuDNN's own first choice.
    pub class: Option<K::Class>,
    /// Which micro-batch sizes are tried.
    pub sizes: BatchSizePolicy,
    /// Which configurations are looked for, within how many bytes of workspace.
    pub goal: Goal,
    /// The most that it may take.
    pub budget: Budget,
    /// The most bytes that it may allocate on a device. Configurations whose workspace does not fit beside the
    /// kernel's data are left out; where those do not fit themselves, parts of the mini-batch are timed and none
    /// runs in place.
    pub bytes: usize,
    /// The number of the device that it is for, and where configurations run in place; then of others like it that
    /// help.
    pub devices: &'a [i32],
    /// It ends soon after this is set, and can go on another time.
    pub stop: &'a AtomicBool,
    /// Told of each micro-configuration, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// The number of the calling thread's device, and of those like it that `UCUDNN_BENCHMARK_DEVICES` lets help.
pub fn devices() -> Vec<i32> {
    let device = cudnn::device();
    super::devices::tuning_for(device, device.ordinal())
}

/// Tunes a kernel on buffers of our own, through the database: what is known is not measured, what is
/// measured is kept at once, and one process at a time tunes a kernel. `Err` says why it cannot be.
pub fn tune<K: Executable>(job: &Job<K>) -> Result<Search<K::Algorithm>, String> {
    settings::fault_point("tune");
    let Job { kernel, class, sizes, goal, budget, bytes, devices, stop, progress } = *job;
    let device = cudnn::device();
    let ordinal = *devices.first().ok_or("no device was named")?;
    let _entered = device.enter(ordinal).ok_or_else(|| format!("device {ordinal} is not there"))?;
    let stream = device.stream().ok_or_else(|| format!("device {ordinal} gives no stream"))?;
    let handle = OwnedHandle::new(stream.raw()).map_err(|status| format!("cuDNN gives no handle: status {status}"))?;
    // SAFETY: a handle of ours.
    let (class, mut candidates) = unsafe { kernel.candidates(handle.raw(), class, sizes) }?;
    let part = fitting(kernel, &candidates, bytes).ok_or_else(|| {
        let data = OwnBuffers::data_bytes(kernel);
        format!("its data take {data} bytes, tuning may take {bytes}, and no part of them fits")
    })?;
    let goal = goal.within(bytes - OwnBuffers::data_bytes(&part));
    candidates.retain(|candidate| candidate.batch <= part.batch());
    let wanted = Wanted::among(candidates, goal, sizes, class);
    let record = Record::of(kernel, device, ordinal);
    let session =
        Session { kernel, part: &part, wanted: &wanted, record: &record, budget, devices, bytes, stop, progress };
    let prepare = |workspace| {
        let buffers = OwnBuffers::allocate(device, stream.raw(), &part, workspace, bytes)?;
        Ok((buffers.bench(device, handle.raw(), stream.raw(), &part), Some(buffers)))
    };
    // SAFETY: buffers for this kernel and workspace, and a handle of ours.
    unsafe { session.tune(&[], prepare) }
}

/// The kernel, if its data fit into `bytes`; or else over the largest micro-batch of the candidates that leaves half of
/// them to workspaces.
fn fitting<K: Executable>(kernel: &K, candidates: &[Candidate<K::Algorithm>], bytes: usize) -> Option<K> {
    if OwnBuffers::data_bytes(kernel) <= bytes {
        return Some(kernel.clone());
    }
    let mut sizes: Vec<_> = candidates.iter().map(|candidate| candidate.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut parts = sizes.iter().rev().map(|&size| kernel.with_batch(size));
    parts.find(|part| OwnBuffers::data_bytes(part) <= bytes / 2)
}
