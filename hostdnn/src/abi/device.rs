//! Devices, which CUDA manages for the real cuDNN.

use super::boundary::{write, write_array};
use crate::clock;
use crate::device;
use crate::error::require;
use cudnn_abi::*;
use std::ffi::{c_char, c_int};

/// The number of devices: `HOSTDNN_DEVICES`, or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnGetDeviceCount(count: *mut c_int) -> cudnnStatus_t {
    // SAFETY: null or valid for a write by this function's contract.
    export!(hostdnnGetDeviceCount, { unsafe { write(count, device::count()) } })
}

/// Makes a device the calling thread's current one: a handle belongs to the device that was current when it was made,
/// and computes on no other. Each thread begins with device 0.
#[unsafe(no_mangle)]
pub extern "C" fn hostdnnSetDevice(device: c_int) -> cudnnStatus_t {
    export!(hostdnnSetDevice, { require(device::set_current(device), "the number of a device") })
}

/// The calling thread's device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnGetDevice(device: *mut c_int) -> cudnnStatus_t {
    // SAFETY: null or valid for a write by this function's contract.
    export!(hostdnnGetDevice, { unsafe { write(device, device::current()) } })
}

/// A device's name, at most `size` bytes of it with the final 0, and its number of computing threads. Devices with
/// equal properties take equal times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnGetDeviceProperties(
    device: c_int,
    name: *mut c_char,
    size: usize,
    threads: *mut c_int,
) -> cudnnStatus_t {
    export!(hostdnnGetDeviceProperties, {
        let known = device::name(device);
        require(known.is_some(), "the number of a device")?;
        require(size > 0, "room for a name")?;
        let bytes = known.unwrap_or_default().bytes().take(size - 1).chain([0]).map(|byte| byte as c_char);
        // SAFETY: null or valid for as many writes by this function's contract.
        unsafe {
            write(threads, rayon::current_num_threads() as c_int)?;
            write_array(name, &bytes.collect::<Vec<_>>())
        }
    })
}

/// The milliseconds that devices have taken for all work so far, from an unknown start: the time that has gone by, or
/// the calling thread's work as `HOSTDNN_CLOCK` counts it (hostdnn/src/clock.rs).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnGetTime(milliseconds: *mut f64) -> cudnnStatus_t {
    // SAFETY: null or valid for a write by this function's contract.
    export!(hostdnnGetTime, { unsafe { write(milliseconds, clock::now().as_secs_f64() * 1e3) } })
}
