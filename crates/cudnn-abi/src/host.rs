//! hostdnn's addition to cuDNN's API: kernels that it compiles for the CPU.

use std::ffi::c_char;

/// A source in the vocabulary of `kernels/device.cuh`, as C strings, none of them null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hostdnnKernelSource_t {
    /// The source's name in compiler messages.
    pub name: *const c_char,
    pub text: *const c_char,
    /// The names and texts of `headerCount` headers for `#include`. May be null if there are none.
    pub headerNames: *const *const c_char,
    pub headerTexts: *const *const c_char,
    pub headerCount: usize,
    /// The options that define macros are used; all others are for NVRTC. May be null if there are none.
    pub options: *const *const c_char,
    pub optionCount: usize,
}
