//! What a result is valid for.

use std::ffi::{CStr, c_char};
use std::fmt;

use serde::{Deserialize, Serialize};

use cudnn::library;

/// What a time is measured on and with. Devices with equal environments may share results, and tune a kernel
/// together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The GPU's name, or with hostdnn the CPU's.
    pub device: String,
    /// The GPU's streaming multiprocessors, or the CPU's threads that this process may use.
    pub multiprocessors: u32,
    /// cuDNN's version as `cudnnGetVersion` tells it, and of hostdnn its own; with the variable that bounds what it
    /// runs, where that is set.
    pub cudnn: String,
    /// The newest CUDA that the driver knows and the driver's own version; `none` with hostdnn.
    pub driver: String,
}

impl Environment {
    /// The environment of a device with the loaded cuDNN: the device's name, its multiprocessors, and the version
    /// of CUDA's driver as the driver counts it, 0 on the host. `None` if there is no cuDNN.
    pub fn of(device: String, multiprocessors: i32, driver: i32) -> Option<Self> {
        let version = library::version()?;
        let mut cudnn = match hostdnn() {
            Some(own) => format!("{version} (hostdnn {own})"),
            None => version.to_string(),
        };
        // It takes cuDNN's TF32 kernels away, whatever math type is asked for.
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

/// `NVIDIA H200, 132 multiprocessors, cuDNN 91900, driver 13000 (580.95.05)`.
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, multiprocessors, cudnn, driver } = self;
        write!(f, "{device}, {multiprocessors} multiprocessors, cuDNN {cudnn}, driver {driver}")
    }
}

/// The version of the GPU's kernel module, where the system shows it: CUDA's own counts only what it can do.
fn system_driver() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned()).filter(|version| !version.is_empty())
}

fn hostdnn() -> Option<&'static str> {
    let function = library::address_of(c"hostdnnGetVersion")?;
    // SAFETY: hostdnn declares it so.
    let version: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(function) };
    // SAFETY: text that lives as long as the library, which is never unloaded.
    unsafe { CStr::from_ptr(version()) }.to_str().ok()
}
