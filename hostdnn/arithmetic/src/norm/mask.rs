//! One bit for each element: whether a ReLU let it through.

use super::{Place, Shape};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes of a mask for `shape`.
pub fn mask_bytes(shape: &Shape) -> usize {
    shape.dims.iter().product::<usize>().div_ceil(8)
}

/// A mask in memory that a caller has promised to be valid for [`mask_bytes`]. Groups share bytes, so bits are atomic.
#[derive(Clone, Copy, Debug)]
pub struct Mask(pub *mut u8);

// SAFETY: all uses are atomic, and the functions that take a mask say that its memory is valid.
unsafe impl Send for Mask {}
// SAFETY: all uses are atomic, and the functions that take a mask say that its memory is valid.
unsafe impl Sync for Mask {}

impl Mask {
    /// # Safety
    /// The mask is valid for `shape`, and used only as a mask meanwhile.
    unsafe fn byte<'a>(self, shape: &Shape, place: Place) -> (&'a AtomicU8, u8) {
        let index = place.iter().zip(shape.dims).fold(0, |index, (i, dim)| index * dim + i);
        // SAFETY: the caller promises enough bytes, and every byte is aligned.
        (unsafe { AtomicU8::from_ptr(self.0.add(index / 8)) }, 1 << (index % 8))
    }

    /// # Safety
    /// The mask is valid for `shape`, and used only as a mask meanwhile.
    pub(super) unsafe fn set(self, shape: &Shape, place: Place, open: bool) {
        // SAFETY: the caller's promise.
        let (byte, bit) = unsafe { self.byte(shape, place) };
        match open {
            true => byte.fetch_or(bit, Ordering::Relaxed),
            false => byte.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// # Safety
    /// The mask is valid for `shape`, initialised, and used only as a mask meanwhile.
    pub(super) unsafe fn get(self, shape: &Shape, place: Place) -> bool {
        // SAFETY: the caller's promise.
        let (byte, bit) = unsafe { self.byte(shape, place) };
        byte.load(Ordering::Relaxed) & bit != 0
    }
}
