//! What hostdnn has beside cuDNN's API: kernels that it compiles for the CPU.

use std::ffi::c_char;

/// A source in the words of `kernels/device.cuh`, as C strings: none of them is null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hostdnnKernelSource_t {
    /// What it is called in the compiler's words.
    pub name: *const c_char,
    pub text: *const c_char,
    /// So many names and texts that `#include` finds. May be null where there are none.
    pub headerNames: *const *const c_char,
    pub headerTexts: *const *const c_char,
    pub headerCount: usize,
    /// Those that define are taken; others are to NVRTC. May be null where there are none.
    pub options: *const *const c_char,
    pub optionCount: usize,
}
