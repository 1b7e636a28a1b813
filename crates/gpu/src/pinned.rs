//! Memory of the host that a device copies from by itself, while the caller goes on.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::{Device, Stream, cuda};

/// Pinned memory, in numbers of 4 bytes. Freed with its owner.
pub struct Pinned {
    device: Device,
    data: NonNull<i32>,
    count: usize,
}

// SAFETY: the memory is the owner's alone, whatever thread it is on.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read the memory.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates `count` zeros. `None` if the allocation fails.
    pub fn new(device: Device, count: usize) -> Option<Self> {
        let count = count.max(1);
        let data = match device {
            Device::Host => NonNull::new(Box::into_raw(vec![0_i32; count].into_boxed_slice()).cast::<i32>())?,
            Device::Cuda => {
                let data = cuda::allocate_pinned(count.checked_mul(4)?)?.cast::<i32>();
                // SAFETY: `count` numbers were allocated, aligned to pages.
                unsafe { data.write_bytes(0, count) };
                data
            }
        };
        Some(Self { device, data, count })
    }

    /// The numbers. The caller has waited for all copies.
    pub fn numbers(&mut self) -> &mut [i32] {
        // SAFETY: the owner's own memory, which was written when it was allocated.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.count) }
    }

    /// The numbers' place, which kernels of the device may write to as well.
    pub fn place(&self) -> *mut c_void {
        self.data.as_ptr().cast()
    }

    /// The first number, which becomes 0. A kernel may be writing to it.
    pub fn take_first(&self) -> i32 {
        // SAFETY: there is one number at least, aligned, and it is only used atomically while kernels write to it.
        unsafe { AtomicI32::from_ptr(self.data.as_ptr()) }.swap(0, Ordering::Relaxed)
    }

    /// Copies the first `count` numbers to the device, in the stream's order. Returns whether the copy was queued.
    ///
    /// # Safety
    /// `to` is memory of the device for as many numbers. The numbers stay as they are until the copy has ended.
    pub unsafe fn send(&self, to: *mut c_void, count: usize, stream: Stream) -> bool {
        let count = count.min(self.count);
        match self.device {
            Device::Host => {
                // SAFETY: the caller promises the memory, which is the host's on this device.
                unsafe { std::ptr::copy_nonoverlapping(self.data.as_ptr(), to.cast(), count) };
                true
            }
            // SAFETY: the caller makes the same promise.
            Device::Cuda => unsafe { cuda::send(to, self.data.as_ptr().cast(), 4 * count, stream) },
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        match self.device {
            Device::Host => {
                let numbers = std::ptr::slice_from_raw_parts_mut(self.data.as_ptr(), self.count);
                // SAFETY: `new` made the box, of this length.
                drop(unsafe { Box::from_raw(numbers) });
            }
            Device::Cuda => cuda::free_pinned(self.data.cast()),
        }
    }
}
