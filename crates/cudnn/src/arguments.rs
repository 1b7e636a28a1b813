//! The arguments of the functions that we override, and cuDNN's own answer to them.

use std::ffi::{c_double, c_int, c_void};
use std::ops::Deref;

use cudnn_abi::*;

use crate::calls;

/// The arguments of a call that may be made: its caller keeps the rules of the cuDNN function, or cuDNN refuses it.
#[derive(Clone, Copy)]
pub struct Promised<A>(A);

impl<A> Promised<A> {
    /// # Safety
    /// As long as the value is used, the arguments keep the rules of their cuDNN function: handles and descriptors are
    /// live, and pointers lead to as much memory as the descriptors and sizes say. What cuDNN refuses may be otherwise.
    pub unsafe fn new(arguments: A) -> Self {
        Self(arguments)
    }
}

impl<A> Deref for Promised<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

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

        impl Promised<$arguments> {
            /// Lets cuDNN answer the call, with the arguments unchanged.
            #[inline]
            pub fn by_cudnn(&self) -> cudnnStatus_t {
                let $arguments { $($argument,)* } = self.0;
                // SAFETY: the arguments of this very function keep its rules, by `new`.
                unsafe { calls::$function($($argument),*) }
            }
        }
    )*};
}

cudnn_abi::for_each_prototype!(arguments);
