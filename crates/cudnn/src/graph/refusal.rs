//! cuDNN's reason for refusing a call, in words.

use std::ffi::{CStr, c_char};

use cudnn_abi::*;

use crate::library;
use cudnn_abi::symbols::Symbol;

/// The most bytes read of a reason.
const LENGTH: usize = 1024;

/// A status by name, with cuDNN's last error message on this thread. The message is only of use right after the call.
pub fn refusal(status: cudnnStatus_t) -> String {
    type Name = unsafe extern "C" fn(cudnnStatus_t) -> *const c_char;
    type LastError = unsafe extern "C" fn(*mut c_char, usize);
    // SAFETY: cuDNN declares both functions with these types.
    let (name, last_error) = unsafe {
        (
            library::function::<Name>(Symbol::cudnnGetErrorString),
            library::function::<LastError>(Symbol::cudnnGetLastErrorString),
        )
    };
    // SAFETY: cuDNN returns a static string for every status.
    let name = name.map(|name| unsafe { name(status) }).filter(|name| !name.is_null());
    // SAFETY: the pointer is not null, and cuDNN's string is static and ends in 0.
    let name = name.map_or_else(|| status.to_string(), |name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into());
    let mut reason = [0; LENGTH];
    if let Some(last_error) = last_error {
        // SAFETY: cuDNN writes at most LENGTH - 1 bytes, so the last byte stays 0.
        unsafe { last_error(reason.as_mut_ptr().cast(), LENGTH - 1) };
    }
    let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_string_lossy();
    let reason = reason.lines().last().unwrap_or_default().trim();
    if reason.is_empty() { name } else { format!("{name} ({reason})") }
}
