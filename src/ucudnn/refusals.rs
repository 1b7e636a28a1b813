//! The statuses of the functions of a part of this API, and the text that says why the last one failed.

use std::cell::RefCell;
use std::ffi::c_char;
use std::thread::LocalKey;

use cudnn_abi::*;

use super::descriptions::write_text;
use crate::boundary::guarded;
use guest::refusal::Refusal;

/// The reasons of failures in one part of the API. Each thread has its own.
pub(super) struct Refusals {
    /// The reason of the calling thread's last failure.
    last: &'static LocalKey<RefCell<String>>,
}

impl Refusals {
    /// The reasons that `last` keeps.
    pub const fn new(last: &'static LocalKey<RefCell<String>>) -> Self {
        Self { last }
    }

    /// Runs a function's body and returns its status; keeps the reason of a refusal.
    pub fn answered(&self, body: impl FnOnce() -> Result<(), Refusal>) -> cudnnStatus_t {
        let body = || match body() {
            Ok(()) => CUDNN_STATUS_SUCCESS,
            Err(Refusal { status, why }) => {
                self.keep(why);
                status
            }
        };
        guarded(body, || {
            self.keep("a failure inside ucudnn; its results mean nothing".into());
            CUDNN_STATUS_INTERNAL_ERROR
        })
    }

    /// Keeps a failure's reason, except on a thread that is about to end.
    fn keep(&self, why: String) {
        let _ = self.last.try_with(|last| *last.borrow_mut() = why);
    }

    /// Writes the reason of the calling thread's last failure to the caller's buffer.
    ///
    /// # Safety
    /// `text` is null or the caller's to write, `size` bytes.
    pub unsafe fn write_last(&self, text: *mut c_char, size: usize) {
        let read = || {
            let why = self.last.try_with(|last| last.borrow().clone()).unwrap_or_default();
            // SAFETY: the caller promises the buffer, and the needed size goes to a local place.
            unsafe { write_text((text, size, &mut 0), &why) };
            CUDNN_STATUS_SUCCESS
        };
        guarded(read, || CUDNN_STATUS_INTERNAL_ERROR);
    }
}

/// The refusal of a null pointer.
pub(super) fn null(name: &str) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, format!("{name} is null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(refusals: &Refusals) -> String {
        let mut text = [0_u8; 64];
        // SAFETY: `text` has 64 bytes.
        unsafe { refusals.write_last(text.as_mut_ptr().cast(), text.len()) };
        std::ffi::CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn each_thread_and_part_has_its_own_reason() {
        thread_local! {
            static HERE: RefCell<String> = const { RefCell::new(String::new()) };
            static THERE: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let (here, there) = (Refusals::new(&HERE), Refusals::new(&THERE));
        assert_eq!(here.answered(|| Err(null("x"))), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        assert_eq!(here.answered(|| Ok(())), CUDNN_STATUS_SUCCESS);
        assert_eq!((last(&here).as_str(), last(&there).as_str()), ("x is null", ""));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(last(&here), ""));
        });
        assert_eq!(there.answered(|| panic!("a test's")), CUDNN_STATUS_INTERNAL_ERROR);
        assert_eq!(last(&there), "a failure inside ucudnn; its results mean nothing");
    }
}
