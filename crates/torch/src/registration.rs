//! Puts our kernels in the place of PyTorch's, once, where the process has libtorch.

use std::ffi::{CStr, OsString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use super::batch_norm;
use super::depthwise;
use super::libtorch::{Boxed, Libtorch};
use super::operator::guarded;
use super::warnings::silenced;
use gpu::Device;
use guest::loaded::Looks;
use guest::settings::{self, Policy, Torch};
use norm::subject::note_pytorch;

/// The operators that our kernels take over.
const OPERATORS: [(&CStr, Boxed); 2] =
    [(c"native_batch_norm", batch_norm::forward), (c"native_batch_norm_backward", batch_norm::backward)];
/// Likewise, if libtorch has the functions for it. On the host PyTorch has no kernels for them.
const DEPTHWISE: (&CStr, Boxed) = (c"_conv_depthwise2d", depthwise::forward::<2>);
const DEPTHWISE_OF_VOLUMES: (&CStr, Boxed) = (c"conv_depthwise3d", depthwise::forward::<3>);

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
    match silenced(libtorch, || implement(libtorch, key)) {
        Ok(()) => {
            IS_DONE.store(true, Ordering::Release);
            log::info!("PyTorch's own operators may run on our kernels");
        }
        Err(status) => {
            log::warn!("not all of PyTorch's operators run on our kernels: libtorch refuses some ({status})")
        }
    }
}

/// Puts all kernels in their operators' places, for a dispatch key.
fn implement(libtorch: &Libtorch, key: &CStr) -> Result<(), i32> {
    let mut library = null_mut();
    let checked = |status: i32| if status == 0 { Ok(()) } else { Err(status) };
    // SAFETY: the texts live as long as the process. The library is never deleted, so its kernels stay.
    unsafe {
        checked((libtorch.begin_library)(c"aten".as_ptr(), key.as_ptr(), c"ucudnn".as_ptr(), 0, &mut library))?;
        let is_host = cudnn::device() == Device::Host;
        let depthwise = (libtorch.depthwise.is_some() || is_host).then_some(DEPTHWISE);
        let of_volumes = (libtorch.depthwise_of_volumes.is_some() || is_host).then_some(DEPTHWISE_OF_VOLUMES);
        let mut all = OPERATORS.into_iter().chain(depthwise).chain(of_volumes);
        all.try_for_each(|(name, kernel)| checked((libtorch.implement)(library, name.as_ptr(), kernel)))?;
    }
    depthwise::register_gradients(libtorch);
    Ok(())
}
