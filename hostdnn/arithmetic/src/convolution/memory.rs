//! The places of intermediate results: parts of the caller's workspace, and per-thread buffers of fixed size.

use std::cell::RefCell;

/// Every part of a workspace starts at a multiple of this, whatever the workspace's alignment.
const ALIGN: usize = 64;

/// Bytes of a workspace with parts of the given sizes in bytes; `None` if that does not fit `usize`.
pub fn parts_size(parts: &[usize]) -> Option<usize> {
    let total = parts.iter().try_fold(0usize, |sum, &part| sum.checked_add(part.checked_next_multiple_of(ALIGN)?))?;
    if total == 0 { Some(0) } else { total.checked_add(ALIGN - 1) }
}

/// Hands out the parts of a workspace of [`parts_size`] bytes, in order.
pub struct Parts {
    next: *mut u8,
}

impl Parts {
    pub fn new(workspace: *mut u8) -> Self {
        Self { next: workspace.wrapping_add(workspace.align_offset(ALIGN)) }
    }

    /// The next part, of `bytes` bytes. Its contents are undefined.
    pub fn take<T>(&mut self, bytes: usize) -> Shared<T> {
        let part = self.next;
        self.next = part.wrapping_add(bytes.next_multiple_of(ALIGN));
        Shared(part.cast())
    }
}

/// A pointer that several threads may use; whoever dereferences it must prevent conflicts.
pub struct Shared<T>(pub *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: a pointer alone does nothing; each dereference says why it is sound.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: a shared pointer alone does nothing either; each dereference says why it is sound.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The pointer `offset` elements on. A method, so that closures capture the whole of `self`.
    pub fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

/// Bytes of each thread's own buffer.
pub const SCRATCH_BYTES: usize = 1 << 20;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; ALIGN],
}

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` on this thread's buffer of [`SCRATCH_BYTES`], aligned to cache lines, with undefined contents. `work`
/// must not start parallel work: another task on this thread would find the buffer taken.
pub fn with_scratch<R>(work: impl FnOnce(*mut u8) -> R) -> R {
    SCRATCH.with_borrow_mut(|buffer| {
        buffer.resize(SCRATCH_BYTES / ALIGN, Line { _bytes: [0; ALIGN] });
        work(buffer.as_mut_ptr().cast())
    })
}
