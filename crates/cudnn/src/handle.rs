//! Handles that live.

use std::marker::PhantomData;

use cudnn_abi::cudnnHandle_t;

use crate::calls::{self, Stream};

/// A handle that is null, which cuDNN refuses, or lives for `'a`.
#[derive(Clone, Copy)]
pub struct Handle<'a>(cudnnHandle_t, PhantomData<&'a ()>);

impl Handle<'_> {
    /// # Safety
    /// The handle is null or lives for the result's lifetime.
    pub unsafe fn new(raw: cudnnHandle_t) -> Self {
        Self(raw, PhantomData)
    }

    /// In the form that calls take.
    pub fn raw(self) -> cudnnHandle_t {
        self.0
    }

    /// The stream that the handle's work goes to; `None` if cuDNN reports none.
    pub fn stream(self) -> Option<Stream> {
        // SAFETY: the handle is null or lives.
        unsafe { calls::stream_of(self.0) }
    }
}
