//! Devices: there is one CPU, but programs for several GPUs can be tested on it. `HOSTDNN_DEVICES` is the number of
//! devices (1 if unset). `HOSTDNN_DEVICE_NAMES`, such as `a,a,b`, names them, so that some can differ; a device without
//! a name there has the processor's. As in CUDA, each thread has a current device, at first device 0, and a handle
//! belongs to the device that was current when it was made.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::LazyLock;

/// The largest number of devices.
const MOST: c_int = 64;

static COUNT: LazyLock<c_int> = LazyLock::new(|| {
    let Ok(text) = std::env::var("HOSTDNN_DEVICES") else { return 1 };
    let count = text.trim().parse().ok().filter(|count| (1..=MOST).contains(count));
    count.unwrap_or_else(|| {
        eprintln!("hostdnn: HOSTDNN_DEVICES={text:?} is not understood: it takes 1 to {MOST}; there is 1 device");
        1
    })
});

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let given = std::env::var("HOSTDNN_DEVICE_NAMES").unwrap_or_default();
    let given: Vec<_> = given.split(',').map(str::trim).collect();
    let name =
        |device: c_int| given.get(device as usize).filter(|name| !name.is_empty()).map(|name| (*name).to_owned());
    (0..count()).map(|device| name(device).unwrap_or_else(processor)).collect()
});

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

/// The number of devices.
pub fn count() -> c_int {
    *COUNT
}

/// The calling thread's device.
pub fn current() -> c_int {
    CURRENT.try_with(Cell::get).unwrap_or(0) // a thread that is ending
}

/// Makes a device the calling thread's current one; returns whether it exists.
pub fn set_current(device: c_int) -> bool {
    (0..count()).contains(&device) && CURRENT.try_with(|current| current.set(device)).is_ok()
}

/// A device's name.
pub fn name(device: c_int) -> Option<&'static str> {
    NAMES.get(usize::try_from(device).ok()?).map(String::as_str)
}

/// The system's name for the processor.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name");
    model.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned()
}
