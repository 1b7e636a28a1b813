//! The real cuDNN's functions with their types. Each call loads the resolved address and jumps.
//!
//! Safety, for every function here: the caller keeps the rules of the cuDNN function of the same name. A call returns
//! `CUDNN_STATUS_NOT_SUPPORTED` if the loaded library lacks the function, and `CUDNN_STATUS_NOT_INITIALIZED` if no
//! library is loaded.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments, missing_docs)]

use std::ffi::{c_double, c_float, c_int, c_ulonglong, c_void};

use cudnn_abi::symbols::Symbol;
use cudnn_abi::*;

use crate::library;

pub use gpu::Stream;

/// The status of a call to a missing function.
fn missing() -> cudnnStatus_t {
    if library::path().is_some() { CUDNN_STATUS_NOT_SUPPORTED } else { CUDNN_STATUS_NOT_INITIALIZED }
}

macro_rules! calls {
    (
        overridden { $($first:ident as $arguments:ident $first_arguments:tt)* }
        forwarded { $($second:ident $second_arguments:tt)* }
    ) => {
        $(call! { $first $first_arguments })*
        $(call! { $second $second_arguments })*
    };
}

macro_rules! call {
    ($function:ident { $($argument:ident: $type:ty),* $(,)? }) => {
        #[inline]
        pub unsafe fn $function($($argument: $type),*) -> cudnnStatus_t {
            type Function = unsafe extern "C" fn($($type),*) -> cudnnStatus_t;
            // SAFETY: the table has cuDNN's C prototype of the named function, and the caller keeps that function's
            // rules.
            unsafe { library::function::<Function>(Symbol::$function).map_or_else(missing, |f| f($($argument),*)) }
        }
    };
}

cudnn_abi::for_each_prototype!(calls);

/// The stream that a handle's work goes to; `None` if cuDNN reports none. The handle must be live.
pub unsafe fn stream_of(handle: cudnnHandle_t) -> Option<Stream> {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the handle is live, and cuDNN writes one stream to `stream`.
    (unsafe { cudnnGetStream(handle, &mut stream) } == CUDNN_STATUS_SUCCESS).then_some(stream.cast())
}
