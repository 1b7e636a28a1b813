//! The devices that tune.

use std::sync::atomic::{AtomicBool, Ordering};

use gpu::Device;
use guest::settings::{self, BenchmarkDevices};

/// Returns the devices that `UCUDNN_BENCHMARK_DEVICES` lets tune for device `ordinal`, which comes first whether or not
/// it is listed. Times hold only for equal devices, so others are left out with one warning.
pub fn tuning_for(device: Device, ordinal: i32) -> Vec<i32> {
    let wanted = match &settings::get().benchmark_devices {
        BenchmarkDevices::Current => return vec![ordinal],
        BenchmarkDevices::All => None,
        BenchmarkDevices::Listed(listed) => Some(listed),
    };
    let count = device.count();
    let own = device.identity(ordinal);
    let alike = |other: &i32| device.identity(*other).is_some_and(|other| Some(other) == own);
    if let Some(listed) = wanted {
        warn_of(listed, count, |other| alike(&other));
    }
    let listed = |other: &i32| *other != ordinal && wanted.is_none_or(|listed| listed.contains(other));
    std::iter::once(ordinal).chain((0..count).filter(listed).filter(alike)).collect()
}

/// Warns once about the listed devices that do not tune, with the reason.
fn warn_of(listed: &[i32], count: i32, alike: impl Fn(i32) -> bool) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let (there, absent): (Vec<i32>, Vec<i32>) = listed.iter().partition(|device| (0..count).contains(*device));
    let unlike: Vec<i32> = there.into_iter().filter(|&device| !alike(device)).collect();
    if (absent.is_empty() && unlike.is_empty()) || SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let numbers = |devices: Vec<i32>| devices.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let mut why = Vec::new();
    if !absent.is_empty() {
        why.push(format!("{} of {count} is not there", numbers(absent)));
    }
    if !unlike.is_empty() {
        why.push(format!("{} is unlike the one that the program uses, and so its times would be", numbers(unlike)));
    }
    log::warn!("UCUDNN_BENCHMARK_DEVICES={}: {}; the others tune", numbers(listed.to_vec()), why.join("; "));
}
