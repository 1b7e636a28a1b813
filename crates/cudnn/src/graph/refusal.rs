//! Why cuDNN refuses something, in words.

use std::ffi::{CStr, c_char};

use cudnn_abi::*;

use crate::library;
use cudnn_abi::symbols::Symbol;

/// The most bytes of a reason that are read.
const LENGTH: usize = 1024;

/// A status by its name, and what cuDNN said last on this thread of why, which is of help only right behind the call.
pub fn refusal(status: cudnnStatus_t) -> String {
    type Name = unsafe extern "C" fn(cudnnStatus_t) -> *const c_char;
    type LastError = unsafe extern "C" fn(*mut c_char, usize);
    // SAFETY: cuDNN declares the functions so.
    let (name, last_error) = unsafe {
        (
            library::function::<Name>(Symbol::cudnnGetErrorString),
            library::function::<LastError>(Symbol::cudnnGetLastErrorString),
        )
    };
    // SAFETY: cuDNN gives a string of its own for every status.
    let name = name.map(|name| unsafe { name(status) }).filter(|name| !name.is_null());
    // SAFETY: as above.
    let name = name.map_or_else(|| status.to_string(), |name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into());
    let mut reason = [0; LENGTH];
    if let Some(last_error) = last_error {
        // SAFETY: writes at most that many bytes; the last stays 0.
        unsafe { last_error(reason.as_mut_ptr().cast(), LENGTH - 1) };
    }
    let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_string_lossy();
    let reason = reason.lines().last().unwrap_or_default().trim();
    if reason.is_empty() { name } else { format!("{name} ({reason})") }
}
