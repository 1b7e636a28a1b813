//! Tuning on handles, streams and buffers of our own: ahead of time (`ucudnn tune`), and for plans that are
//! made while the program runs. On any thread.

use std::sync::atomic::AtomicBool;

use cudnn_abi::*;

use super::candidates;
use super::record::{Record, Wanted};
use super::session::Session;
use super::waiting::OwnBuffers;
use crate::cudnn::algorithm::Class;
use crate::cudnn::kernel::Kernel;
use crate::cudnn::owned::{OwnedDescriptors, OwnedHandle};
use crate::device::Device;
use crate::plan::BatchSizePolicy;
use crate::settings;

pub use super::search::{Goal, Search};
pub use super::session::Progress;
pub use super::waiting::Budget;

/// What is to be found out.
pub struct Job<'a> {
    /// Of which kernel.
    pub kernel: &'a Kernel,
    /// Which algorithms may be used; if not given, those that may take the place of cuDNN's own first choice.
    pub class: Option<Class>,
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
    let device = Device::current();
    super::devices::tuning_for(device, device.ordinal())
}

/// Tunes a kernel on buffers of our own, through the database: what is known is not measured, what is
/// measured is kept at once, and one process at a time tunes a kernel. `Err` says why it cannot be.
pub fn tune(job: &Job) -> Result<Search, String> {
    settings::fault_point("tune");
    let Job { kernel, class, sizes, goal, budget, bytes, devices, stop, progress } = *job;
    let device = Device::current();
    let ordinal = *devices.first().ok_or("no device was named")?;
    let _entered = device.enter(ordinal).ok_or_else(|| format!("device {ordinal} is not there"))?;
    let stream = device.stream().ok_or_else(|| format!("device {ordinal} gives no stream"))?;
    let refused = |what: &str, status: cudnnStatus_t| format!("cuDNN gives no {what}: status {status}");
    let handle = OwnedHandle::new(stream.raw()).map_err(|status| refused("handle", status))?;
    let descriptors =
        OwnedDescriptors::new(kernel, kernel.math_type).map_err(|status| refused("descriptors for it", status))?;
    // SAFETY: a handle and descriptors of ours.
    let offered = unsafe { descriptors.raw().get_algorithms(handle.raw()) };
    let offered = offered.map_err(|status| refused("algorithm for it", status))?;
    let own = offered.iter().find(|result| result.status == CUDNN_STATUS_SUCCESS);
    let own = own.ok_or("cuDNN has no algorithm for it")?;
    let class = class.unwrap_or_else(|| Class::of(own, settings::get().numerics));
    let sizes_tried = candidates::sizes(kernel, sizes, device);
    let part = fitting(kernel, &sizes_tried, bytes).ok_or_else(|| {
        let data = OwnBuffers::data_bytes(kernel);
        format!("its data take {data} bytes, tuning may take {bytes}, and no part of them fits")
    })?;
    let goal = goal.within(bytes - OwnBuffers::data_bytes(&part));
    // SAFETY: a handle of ours.
    let mut candidates = unsafe { candidates::candidates(handle.raw(), kernel, &offered, class, &sizes_tried) };
    candidates.retain(|candidate| candidate.batch <= part.batch());
    let wanted = Wanted { goal, sizes, class, candidates };
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

/// The kernel, if its data fit into `bytes`; or else over the largest micro-batch of `sizes` that leaves half of
/// them to workspaces.
fn fitting(kernel: &Kernel, sizes: &[usize], bytes: usize) -> Option<Kernel> {
    if OwnBuffers::data_bytes(kernel) <= bytes {
        return Some(*kernel);
    }
    let parts = sizes.iter().map(|&size| kernel.with_batch(size));
    parts.filter(|part| OwnBuffers::data_bytes(part) <= bytes / 2).max_by_key(Kernel::batch)
}
