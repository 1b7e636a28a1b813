//! The boundary between C programs and Rust: one rule for every exported function.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

/// Runs an exported function's body. If the body panics, logs that once and returns the result of `fallback`: the real
/// function with unchanged arguments, the fallback configuration that fits the reported workspace, or any other action
/// that cannot harm the program. If `fallback` panics too, returns `CUDNN_STATUS_INTERNAL_ERROR`. Nothing unwinds into
/// the program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_s_status_is_the_call_s() {
        assert_eq!(guarded(|| CUDNN_STATUS_BAD_PARAM, || unreachable!()), CUDNN_STATUS_BAD_PARAM);
    }

    #[test]
    fn a_panic_ends_in_the_fallback() {
        assert_eq!(guarded(|| panic!("on purpose"), || CUDNN_STATUS_ALLOC_FAILED), CUDNN_STATUS_ALLOC_FAILED);
        assert_eq!(guarded(|| panic!("on purpose"), || panic!("again")), CUDNN_STATUS_INTERNAL_ERROR);
    }
}
