//! hostdnn's devices: the CPU, under each device number that hostdnn offers. A library without device numbers counts as
//! one device.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use cudnn_abi::{CUDNN_STATUS_SUCCESS, cudnnStatus_t};
use once_cell::sync::{Lazy, OnceCell};

use crate::functions::functions;

/// The multiprocessors that the host reports to code that divides work among a device's multiprocessors.
pub const MULTIPROCESSORS: u32 = 64;

/// The most bytes of shared memory of a block on the host; a block gets as many as it requests.
pub const SHARED_BYTES: usize = 128 << 10;

/// The most blocks of a cluster, as in `kernels/emulator`.
pub const MOST_IN_A_CLUSTER: u32 = 16;

/// Finds a function of hostdnn by its name.
pub type Lookup = fn(&CStr) -> Option<NonNull<c_void>>;

static LOOKUP: OnceCell<Lookup> = OnceCell::new();

/// The loaded cuDNN is hostdnn, whose functions `lookup` finds: from now on [`Device::Host`](crate::Device::Host) works.
pub fn provide(lookup: Lookup) {
    let _ = LOOKUP.set(lookup); // whoever loads a second time finds the same library
}

/// A function of hostdnn; `None` if it has none of this name, or nobody has loaded it.
pub fn address_of(name: &CStr) -> Option<NonNull<c_void>> {
    LOOKUP.get()?(name)
}

functions! {
    count = c"hostdnnGetDeviceCount": fn(*mut c_int) -> cudnnStatus_t;
    get = c"hostdnnGetDevice": fn(*mut c_int) -> cudnnStatus_t;
    set = c"hostdnnSetDevice": fn(c_int) -> cudnnStatus_t;
    properties = c"hostdnnGetDeviceProperties": fn(c_int, *mut c_char, usize, *mut c_int) -> cudnnStatus_t;
    time = c"hostdnnGetTime": fn(*mut f64) -> cudnnStatus_t;
}

// SAFETY: hostdnn's header declares the functions with these types.
static FUNCTIONS: Lazy<Option<Functions>> = Lazy::new(|| unsafe { Functions::of(address_of) }.ok());

fn number(read: impl FnOnce(&Functions, &mut c_int) -> cudnnStatus_t) -> Option<i32> {
    let mut number = 0;
    (read(FUNCTIONS.as_ref()?, &mut number) == CUDNN_STATUS_SUCCESS).then_some(number)
}

pub fn count() -> i32 {
    // SAFETY: writes one number to a live variable.
    number(|functions, count| unsafe { (functions.count)(count) }).unwrap_or(1)
}

pub fn ordinal() -> i32 {
    // SAFETY: writes one number to a live variable.
    number(|functions, device| unsafe { (functions.get)(device) }).unwrap_or(0)
}

/// Makes `ordinal` the calling thread's device. Returns whether there is such a device.
pub fn set(ordinal: i32) -> bool {
    match &*FUNCTIONS {
        // SAFETY: hostdnn accepts any number, and returns an error for an unknown one.
        Some(functions) => unsafe { (functions.set)(ordinal) == CUDNN_STATUS_SUCCESS },
        None => ordinal == 0,
    }
}

/// The name of a device, and its number of computing threads.
pub fn properties(ordinal: i32) -> Option<(String, i32)> {
    let mut name = [0; 256];
    // SAFETY: writes a C string of at most `name.len()` bytes, and one number.
    let threads = number(|functions, threads| unsafe {
        (functions.properties)(ordinal, name.as_mut_ptr(), name.len(), threads)
    })?;
    // SAFETY: the call above has succeeded, so `name` holds a C string.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some((name.to_string_lossy().into_owned(), threads))
}

/// The time by hostdnn's clock; `None` if nobody has loaded hostdnn.
pub fn time() -> Option<Duration> {
    LOOKUP.get()?; // else `FUNCTIONS` would stay empty
    let mut milliseconds = 0.0;
    // SAFETY: writes one number to a live variable.
    let status = unsafe { (FUNCTIONS.as_ref()?.time)(&mut milliseconds) };
    (status == CUDNN_STATUS_SUCCESS).then(|| Duration::from_secs_f64(milliseconds / 1e3))
}
