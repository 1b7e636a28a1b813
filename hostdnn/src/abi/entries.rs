//! The exported functions of the table of prototypes: each packs its arguments, and the module of its subject answers.

use super::boundary;
use crate::error::Result;
use cudnn_abi::*;
use std::ffi::{c_double, c_float, c_int, c_ulonglong, c_void};

/// A call of an exported function. Its type has the function's name.
pub(super) trait Answer {
    /// Checks the arguments and does what cuDNN does.
    ///
    /// # Safety
    /// The fields keep cuDNN's contract: each pointer is null or valid for its use.
    unsafe fn answer(self) -> Result;
}

macro_rules! entries {
    (
        overridden { $($first:ident as $arguments:ident $first_arguments:tt)* }
        forwarded { $($second:ident $second_arguments:tt)* }
    ) => {
        $(entry! { $first $first_arguments })*
        $(entry! { $second $second_arguments })*
    };
}

macro_rules! entry {
    ($function:ident { $($argument:ident: $type:ty),* $(,)? }) => {
        #[allow(non_camel_case_types, dead_code)] // the name is cuDNN's; hostdnn may have no use for an argument
        pub(super) struct $function {
            $(pub(super) $argument: $type,)*
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function($($argument: $type),*) -> cudnnStatus_t {
            // SAFETY: the program keeps cuDNN's contract.
            boundary::call(stringify!($function), || unsafe { $function { $($argument),* }.answer() })
        }
    };
}

cudnn_abi::for_each_prototype!(entries);
