//! Puts our kernels in the place of PyTorch's, once, where the process has libtorch.

use std::ffi::{CStr, OsString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use super::batch_norm;
use super::depthwise;
use super::group_norm;
use super::libtorch::{Boxed, Libtorch};
use super::operator::guarded;
use super::owner::other_owner;
use super::warnings::silenced;
use gpu::Device;
use guest::loaded::Looks;
use guest::settings::{self, Policy, Torch};
use norm::subject::note_pytorch;

/// Operators of PyTorch's that our kernels take over together, or not at all.
struct Group {
    /// The names, which are in the namespace aten, and our kernels.
    operators: &'static [(&'static CStr, Boxed)],
    /// Returns whether libtorch has the functions that our kernels need. On the host, depthwise convolutions need none:
    /// PyTorch has no such kernels there.
    is_there: fn(&Libtorch) -> bool,
    /// Takes over the function of gradients to which no operator leads.
    take_gradient: fn(&Libtorch),
}

const GROUPS: [Group; 4] = [
    Group {
        operators: &[
            (c"aten::native_batch_norm", batch_norm::forward),
            (c"aten::native_batch_norm_backward", batch_norm::backward),
        ],
        is_there: |_| true,
        take_gradient: |_| {},
    },
    Group {
        operators: &[
            (c"aten::native_group_norm", group_norm::forward),
            (c"aten::native_group_norm_backward", group_norm::backward),
        ],
        is_there: |libtorch| libtorch.group_norm.is_some(),
        take_gradient: |_| {},
    },
    Group {
        operators: &[(c"aten::_conv_depthwise2d", depthwise::forward::<2>)],
        is_there: |libtorch| is_host() || libtorch.depthwise.is_some(),
        take_gradient: depthwise::take_gradient::<2>,
    },
    Group {
        operators: &[(c"aten::conv_depthwise3d", depthwise::forward::<3>)],
        is_there: |libtorch| is_host() || libtorch.depthwise_of_volumes.is_some(),
        take_gradient: depthwise::take_gradient::<3>,
    },
];

fn is_host() -> bool {
    cudnn::device() == Device::Host
}

static LOOKS: Looks = Looks::new();
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// Puts our kernels in PyTorch's place, if the process has loaded libtorch by now, and the settings allow it. The host runs
/// our kernels by emulation, so only a forced choice has them there.
pub fn register() {
    let settings = settings::get();
    let device = cudnn::device();
    let is_off = settings.torch == Torch::Off || settings.policy == Policy::Off;
    if is_off || (device == Device::Host && settings.torch != Torch::Force) {
        log::debug!("PyTorch's operators stay as they are: UCUDNN_TORCH or UCUDNN_POLICY is off, or there is no GPU");
    } else if !Libtorch::is_found() {
        guarded(|| LOOKS.look(|files: Vec<OsString>| look(&files, device)));
    }
}

/// Returns whether our kernels are in PyTorch's place.
pub fn is_done() -> bool {
    IS_DONE.load(Ordering::Acquire)
}

fn look(files: &[OsString], device: Device) {
    let Some(libtorch) = Libtorch::found(files, device) else { return };
    // SAFETY: the function takes nothing.
    let version = unsafe { (libtorch.version)() }.to_be_bytes();
    note_pytorch(&format!("{}.{}.{}", version[0], version[1], version[2]));
    let key = if device == Device::Cuda { c"CUDA" } else { c"CPU" };
    let (has_any, status) = silenced(libtorch, || implement(libtorch, key));
    if has_any {
        IS_DONE.store(true, Ordering::Release);
        log::info!("PyTorch's own operators may run on our kernels");
    }
    if let Err(status) = status {
        log::warn!("not all of PyTorch's operators run on our kernels: libtorch refuses some ({status})");
    }
}

/// Puts our kernels in their operators' places, for a dispatch key. Returns whether there is any, and what libtorch says of
/// those that it refuses.
fn implement(libtorch: &Libtorch, key: &CStr) -> (bool, Result<(), i32>) {
    let mut library = null_mut();
    let checked = |status: i32| if status == 0 { Ok(()) } else { Err(status) };
    // SAFETY: the texts live as long as the process. The library is never deleted, so its kernels stay.
    let begun = checked(unsafe {
        (libtorch.begin_library)(c"aten".as_ptr(), key.as_ptr(), c"ucudnn".as_ptr(), 0, &mut library)
    });
    let mut all = (false, begun);
    let mut groups = GROUPS.iter().filter(|group| (group.is_there)(libtorch));
    while let ((_, Ok(())), Some(Group { operators, take_gradient, .. })) = (all, groups.next()) {
        if is_anothers(libtorch, operators, key) {
            continue;
        }
        let mut operators = operators.iter();
        // SAFETY: as above.
        let implement =
            |(name, kernel): &(&CStr, Boxed)| unsafe { checked((libtorch.implement)(library, name.as_ptr(), *kernel)) };
        all.1 = operators.try_for_each(implement);
        if all.1.is_ok() {
            take_gradient(libtorch);
            all.0 = true;
        }
    }
    all
}

/// A third library has put a kernel of its own in the place of one of the operators. That is said.
fn is_anothers(libtorch: &Libtorch, operators: &[(&CStr, Boxed)], key: &CStr) -> bool {
    let key = key.to_string_lossy();
    let owner = |name: &CStr| Some((name.to_string_lossy().into_owned(), other_owner(libtorch, name, &key)?));
    let Some((name, place)) = operators.iter().find_map(|(name, _)| owner(name)) else { return false };
    log::info!("PyTorch's operator {name} stays as it is: {place} has put a kernel in its place");
    true
}
