//! The exported functions that override cuDNN's: each packs its arguments and has them answered.

use std::ffi::{c_double, c_int, c_void};

use cudnn::arguments::*;
use cudnn_abi::*;

/// A call of a function that we override.
pub trait Answer {
    /// Answers the call. Nothing unwinds.
    fn answer(&self) -> cudnnStatus_t;
}

macro_rules! overrides {
    (
        overridden { $($function:ident as $arguments:ident { $($argument:ident: $type:ty),* $(,)? })* }
        forwarded $forwarded:tt
    ) => {$(
        /// Overrides cuDNN's function.
        #[unsafe(no_mangle)]
        #[allow(clippy::missing_safety_doc)] // cuDNN's rules
        pub unsafe extern "C" fn $function($($argument: $type),*) -> cudnnStatus_t {
            // SAFETY: the program keeps the rules of the cuDNN function that it calls, until this call returns.
            unsafe { Promised::new($arguments { $($argument),* }) }.answer()
        }
    )*};
}

cudnn_abi::for_each_prototype!(overrides);
