//! The machine and libraries that a result is valid for.

use std::ffi::{CStr, c_char};
use std::fmt;

use serde::{Deserialize, Serialize};

use cudnn::library;
use gpu::Device;
use trust::Shown as _;

/// The device and the software that a time was measured with. Devices with equal environments may share results and
/// tune a problem together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The name of the GPU, or with hostdnn of the CPU.
    pub device: String,
    /// The GPU's streaming multiprocessors, or the number of CPU threads that this process may use.
    pub multiprocessors: u32,
    /// cuDNN's version from `cudnnGetVersion`; with hostdnn, hostdnn's own version too; and `NVIDIA_TF32_OVERRIDE`, if
    /// that is set.
    pub cudnn: String,
    /// The newest CUDA version that the driver supports, and the driver's own version; `none` with hostdnn.
    pub driver: String,
}

impl Environment {
    /// The environment of device `ordinal` with the loaded cuDNN. `None` without cuDNN, or if the device's identity is
    /// unknown.
    pub fn of_device(device: Device, ordinal: i32) -> Option<Self> {
        let identity = device.identity(ordinal)?;
        Self::of(identity.name, identity.multiprocessors, identity.driver)
    }

    /// The environment of a device with the loaded cuDNN: the device's name, its multiprocessors, and the newest CUDA
    /// version that its driver supports, 0 on the host. `None` if there is no cuDNN.
    pub fn of(device: String, multiprocessors: i32, driver: i32) -> Option<Self> {
        let mut cudnn = cudnn_version()?;
        // The variable takes cuDNN's TF32 kernels away, whatever math type a call requests.
        if let Ok(value) = std::env::var("NVIDIA_TF32_OVERRIDE") {
            cudnn += &format!(", NVIDIA_TF32_OVERRIDE={value}");
        }
        let driver = match system_driver() {
            _ if driver == 0 => "none".to_owned(),
            Some(system) => format!("{driver} ({system})"),
            None => driver.to_string(),
        };
        Some(Self { device, multiprocessors: u32::try_from(multiprocessors).ok()?, cudnn, driver })
    }
}

/// The version of the loaded cuDNN, with hostdnn's own where that answers: `91900 (hostdnn 0.1.0)`.
pub fn cudnn_version() -> Option<String> {
    let version = library::version()?;
    Some(match hostdnn() {
        Some(own) => format!("{version} (hostdnn {own})"),
        None => version.to_string(),
    })
}

/// As in `NVIDIA H200, 132 multiprocessors, cuDNN 91900, driver 13000 (580.95.05)`.
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, multiprocessors, cudnn, driver } = self;
        let [device, cudnn, driver] = [device, cudnn, driver].map(|text| text.shown());
        write!(f, "{device}, {multiprocessors} multiprocessors, cuDNN {cudnn}, driver {driver}")
    }
}

/// The version of the GPU's kernel module, if the system shows it. CUDA only reports the CUDA version it supports.
fn system_driver() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned()).filter(|version| !version.is_empty())
}

fn hostdnn() -> Option<&'static str> {
    let function = library::address_of(c"hostdnnGetVersion")?;
    // SAFETY: hostdnn exports the function with this type, which takes nothing.
    let version: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(function) };
    // SAFETY: the function returns a C string that lives as long as the library, which is never unloaded.
    unsafe { CStr::from_ptr(version()) }.to_str().ok()
}
