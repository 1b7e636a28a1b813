//! Several devices: each thread has a current one, and a handle computes on the device that it was made on.

use crate::child::is_child;
use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

fn current() -> c_int {
    let mut device = -1;
    // SAFETY: the call writes one number, and `device` is one.
    assert_eq!(unsafe { hostdnnGetDevice(&mut device) }, CUDNN_STATUS_SUCCESS);
    device
}

fn properties(device: c_int) -> Option<(String, c_int)> {
    let (mut name, mut threads) = ([0 as c_char; 64], 0);
    // SAFETY: the call writes at most `name.len()` bytes, and one number.
    let status = unsafe { hostdnnGetDeviceProperties(device, name.as_mut_ptr(), name.len(), &mut threads) };
    // SAFETY: a successful call wrote a C string.
    (status == CUDNN_STATUS_SUCCESS)
        .then(|| (unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap().to_owned(), threads))
}

/// Calls a function that needs the handle's device.
fn compute(handle: cudnnHandle_t) -> cudnnStatus_t {
    let mut count = 0;
    // SAFETY: the call writes one number, and `count` is one.
    unsafe { cudnnGetConvolutionForwardAlgorithmMaxCount(handle, &mut count) }
}

#[test]
fn a_handle_belongs_to_the_device_that_it_was_made_on() {
    // The variables are read once a process.
    let variables = [("HOSTDNN_DEVICES", "3".as_ref()), ("HOSTDNN_DEVICE_NAMES", "a,,a".as_ref())];
    if !is_child("devices::a_handle_belongs_to_the_device_that_it_was_made_on", &variables) {
        return;
    }
    let mut count = 0;
    // SAFETY: the call writes one number, or refuses null.
    unsafe {
        assert_eq!(hostdnnGetDeviceCount(&mut count), CUDNN_STATUS_SUCCESS);
        assert_eq!(hostdnnGetDeviceCount(null_mut()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(hostdnnGetDevice(null_mut()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(hostdnnGetDeviceProperties(0, null_mut(), 8, &mut 0), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(hostdnnGetDeviceProperties(0, [0].as_mut_ptr(), 0, &mut 0), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(hostdnnGetDeviceProperties(0, [0].as_mut_ptr(), 1, null_mut()), CUDNN_STATUS_BAD_PARAM);
    }
    assert_eq!((count, current()), (3, 0));
    let [first, second, third] = [0, 1, 2].map(|device| properties(device).unwrap());
    assert_eq!(first, third);
    assert!(first.0 == "a" && second.0 != "a" && !second.0.is_empty() && first.1 > 0);
    assert_eq!((properties(3), properties(-1)), (None, None));

    let mut handle = null_mut();
    assert_eq!(hostdnnSetDevice(1), CUDNN_STATUS_SUCCESS);
    // SAFETY: the call writes one handle.
    assert_eq!(unsafe { cudnnCreate(&mut handle) }, CUDNN_STATUS_SUCCESS);
    assert_eq!(compute(handle), CUDNN_STATUS_SUCCESS);
    for wrong in [3, -1] {
        assert_eq!(hostdnnSetDevice(wrong), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(current(), 1);
    }
    assert_eq!(hostdnnSetDevice(2), CUDNN_STATUS_SUCCESS);
    assert_eq!(compute(handle), CUDNN_STATUS_BAD_PARAM, "another device's handle");

    let address = handle.expose_provenance();
    let elsewhere = std::thread::spawn(move || {
        let handle = std::ptr::with_exposed_provenance_mut(address);
        let begin = (current(), compute(handle));
        hostdnnSetDevice(1);
        (begin, compute(handle))
    });
    let expected = ((0, CUDNN_STATUS_BAD_PARAM), CUDNN_STATUS_SUCCESS);
    assert_eq!(elsewhere.join().unwrap(), expected, "each thread has a device of its own");
    assert_eq!(current(), 2);
    // SAFETY: the handle was made above and is destroyed once; any device may be current.
    assert_eq!(unsafe { cudnnDestroy(handle) }, CUDNN_STATUS_SUCCESS);
}
