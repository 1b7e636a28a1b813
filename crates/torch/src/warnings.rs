//! Keeps libtorch's warnings off the terminal: it warns of a kernel that takes another's place, which is what we want.

use std::ffi::c_void;

use super::libtorch::Libtorch;

/// A `c10::WarningHandler` that says nothing: an object whose first word is its table of virtual functions.
#[repr(transparent)]
struct Silent(*const [unsafe extern "C" fn(*mut c_void, *const c_void); 3]);

// SAFETY: the object never changes.
unsafe impl Sync for Silent {}

/// Both destructors, and `process(const Warning&)`.
static NOTHING: [unsafe extern "C" fn(*mut c_void, *const c_void); 3] = [nothing; 3];
static SILENT: Silent = Silent(&raw const NOTHING);

unsafe extern "C" fn nothing(_: *mut c_void, _: *const c_void) {}

/// Runs a body whose warnings, in this thread, are not shown. What libtorch says once in a process may be said later.
pub fn silenced<T>(torch: &Libtorch, body: impl FnOnce() -> T) -> T {
    let (Some(current), Some(set)) = (torch.warning_handler, torch.set_warning_handler) else { return body() };
    let (Some(always), Some(set_always)) = (torch.warns_always, torch.set_warns_always) else { return body() };
    // SAFETY: the handler is a thread's pointer, and the other a flag. Both are put back. Our handler lives as long as the
    // process.
    unsafe {
        let before = (current(), always());
        set((&raw const SILENT).cast_mut().cast());
        set_always(true);
        let result = body();
        set_always(before.1);
        set(before.0);
        result
    }
}
