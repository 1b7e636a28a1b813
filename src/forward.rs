//! Trampolines for every function that we do not override.
//!
//! A trampoline does not depend on its function's signature. It jumps through the function's slot with every argument
//! where the caller put it. So the real function returns straight to the caller, and no frame of the trampoline is on
//! the stack. Each slot starts at `first_call`, which saves the argument registers, fills the whole table and jumps on.
//!
//! The register with the row's number (r11, x16) never holds an argument: the ABI lets linkers clobber it between
//! caller and callee.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_abi::{CUDNN_STATUS_NOT_INITIALIZED, CUDNN_STATUS_NOT_SUPPORTED};

use cudnn::library;
use cudnn_abi::for_each_symbol;
use cudnn_abi::symbols::{Return, Symbol};

#[cfg(target_arch = "aarch64")]
#[path = "forward/aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "forward/x86_64.rs"]
mod arch;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("ucudnn has trampolines for x86-64 and AArch64 only: add src/forward/<architecture>.rs");

use arch::{first_call, trampoline};

/// The target of each trampoline.
static SLOTS: [AtomicPtr<c_void>; Symbol::ALL.len()] =
    [const { AtomicPtr::new(first_call as *const () as *mut c_void) }; Symbol::ALL.len()];

macro_rules! trampolines {
    ($($name:ident: $ret:ident, $since:literal, $route:ident;)*) => {
        $(trampoline_if!($route $name);)*
    };
}

macro_rules! trampoline_if {
    (forwarded $name:ident) => {
        trampoline!($name, Symbol::$name as usize);
    };
    (overridden $name:ident) => {};
}

for_each_symbol!(trampolines);

/// Fills the slots and returns the target of row `index`. Only `first_call` calls it.
extern "C" fn resolve(index: usize) -> *mut c_void {
    let target = catch_unwind(|| {
        for &symbol in Symbol::ALL {
            // Release: a caller that jumps through the slot sees the loader's earlier writes.
            SLOTS[symbol as usize].store(target(symbol), Ordering::Release);
        }
        target(Symbol::ALL[index])
    });
    target.unwrap_or_else(|_| answer(Symbol::ALL[index].returns(), false).as_ptr())
}

fn target(symbol: Symbol) -> *mut c_void {
    library::address(symbol).unwrap_or_else(|| answer(symbol.returns(), library::path().is_some())).as_ptr()
}

/// The stand-in for a function that the real library lacks (`loaded`), or for any function without a real library. A
/// stand-in reads at most the arguments that `Return` names, and in both calling conventions the caller cleans up its
/// arguments, so it can take any call.
fn answer(returns: Return, loaded: bool) -> NonNull<c_void> {
    let function = match (returns, loaded) {
        (Return::Status, true) => not_supported as *const (),
        (Return::Status, false) => not_initialized as *const (),
        (Return::Size, _) => zero as *const (),
        (Return::Text, _) => error_string as *const (),
        (Return::Message, _) => last_error_string as *const (),
    };
    NonNull::new(function.cast_mut().cast()).expect("functions have addresses")
}

extern "C" fn not_supported() -> c_int {
    CUDNN_STATUS_NOT_SUPPORTED
}

extern "C" fn not_initialized() -> c_int {
    CUDNN_STATUS_NOT_INITIALIZED
}

extern "C" fn zero() -> usize {
    0
}

/// Not null, because programs print this text or build strings from it without a check.
const UNAVAILABLE: &CStr = c"ucudnn: the real cuDNN is missing or lacks this function";

extern "C" fn error_string() -> *const c_char {
    UNAVAILABLE.as_ptr()
}

unsafe extern "C" fn last_error_string(message: *mut c_char, size: usize) {
    let text = UNAVAILABLE.to_bytes();
    if !message.is_null() && size > 0 {
        let length = text.len().min(size - 1);
        // SAFETY: by cuDNN's contract `message` has `size` bytes, and `length` < `size`.
        unsafe {
            message.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            message.add(length).write(0);
        }
    }
}
