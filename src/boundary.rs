//! The boundary between C programs and Rust: one rule for every exported function.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

/// Runs an exported function's body. If it panics, says so once, and answers what `fallback` does:
/// the real function with the arguments unchanged, or the ready configuration that fits what was
/// reported, or whatever else cannot harm the program. If that
/// panics too, the status is `CUDNN_STATUS_INTERNAL_ERROR`. Nothing unwinds into the program.
pub fn guarded(body: impl FnOnce() -> cudnnStatus_t, fallback: impl FnOnce() -> cudnnStatus_t) -> cudnnStatus_t {
    static SAID: AtomicBool = AtomicBool::new(false);
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        let said = catch_unwind(|| {
            if !SAID.swap(true, Ordering::Relaxed) {
                log::error!("a panic inside ucudnn: cuDNN runs the call (said once)");
            }
        });
        drop(said);
        catch_unwind(AssertUnwindSafe(fallback)).unwrap_or(CUDNN_STATUS_INTERNAL_ERROR)
    })
}
