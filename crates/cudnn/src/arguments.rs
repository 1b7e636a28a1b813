//! The arguments of the functions that we override, and cuDNN's own answer to them.

use std::ffi::{c_double, c_void};

use cudnn_abi::*;

use crate::calls;

macro_rules! arguments {
    (
        overridden { $($function:ident as $arguments:ident { $($argument:ident: $type:ty),* $(,)? })* }
        forwarded $forwarded:tt
    ) => {$(
        #[doc = concat!("The arguments of `", stringify!($function), "`.")]
        #[derive(Clone, Copy)]
        #[allow(missing_docs)] // cuDNN's reference documents them
        pub struct $arguments {
            $(pub $argument: $type,)*
        }

        impl $arguments {
            /// Lets cuDNN answer the call, with the arguments unchanged.
            ///
            /// # Safety
            /// The fields are the arguments of a call, whose caller keeps cuDNN's rules, or cuDNN refuses them.
            pub unsafe fn by_cudnn(&self) -> cudnnStatus_t {
                let Self { $($argument,)* } = *self;
                // SAFETY: the caller promises the arguments of this very function.
                unsafe { calls::$function($($argument),*) }
            }
        }
    )*};
}

cudnn_abi::for_each_prototype!(arguments);
