//! The exported functions whose prototypes are in the table: each packs its arguments and has them answered.

use std::ffi::{c_double, c_void};

use cudnn::arguments::*;
use cudnn_abi::*;

/// A call of a function that runs on kernels of our own.
pub trait Answer {
    /// Answers the call. Nothing unwinds.
    ///
    /// # Safety
    /// The fields are the arguments of a call, whose caller keeps cuDNN's rules.
    unsafe fn answer(&self) -> cudnnStatus_t;
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
            // SAFETY: the program keeps the rules of the cuDNN function that it calls.
            unsafe { $arguments { $($argument),* }.answer() }
        }
    )*};
}

cudnn_abi::for_each_prototype!(overrides);
