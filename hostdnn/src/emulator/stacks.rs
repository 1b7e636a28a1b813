//! Memory for the stacks of a launch's threads. Mapping thousands of stacks takes the system longer than most launches, so
//! each thread of the system keeps the stacks of its last launch.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// The least usable bytes of a stack.
const USABLE: usize = 64 << 10;
/// The first stacks, this many, have an inaccessible page below: an overflow ends the program where it happens. Further
/// stacks have none: with one each they would be many mappings, whose number the system limits, and which it visits one
/// by one when it takes memory back.
const GUARDED: usize = 4096;
/// The first stacks, this many, keep their memory: threads touch some 12 KiB of each, and the system takes longer to clear
/// that anew than most launches take. The memory of further stacks goes back to the system when a launch ends.
const MOST_KEPT: usize = 16384;

/// The stacks in `kernels/emulator/fiber.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stacks {
    memory: *mut c_void,
    /// Bytes from one stack to the next.
    stride: usize,
}

thread_local! {
    static KEPT: RefCell<Option<Mapping>> = const { RefCell::new(None) };
}

struct Mapping {
    memory: NonNull<c_void>,
    count: usize,
    stride: usize,
    /// The stacks that the last launch asked for.
    lent: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no launch runs on it any more.
        unsafe { libc::munmap(self.memory.as_ptr(), self.count * self.stride) };
    }
}

impl Mapping {
    fn new(count: usize) -> Option<Self> {
        // SAFETY: only asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let stride = page + USABLE.next_multiple_of(page);
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, which no other memory is in.
        let memory = unsafe { libc::mmap(null_mut(), count.checked_mul(stride)?, protection, flags, -1, 0) };
        let mapping =
            Self { memory: NonNull::new(memory).filter(|_| memory != libc::MAP_FAILED)?, count, stride, lent: 0 };
        // SAFETY: each page is the lowest of a stack in the mapping, which nobody uses yet.
        let guard = |number| unsafe { libc::mprotect(memory.byte_add(number * stride), page, libc::PROT_NONE) };
        (0..count.min(GUARDED)).all(|number| guard(number) == 0).then_some(mapping)
    }
}

/// Stacks for this many threads of a launch on the calling thread, valid until [`release`]. Null memory if there is none.
pub extern "C" fn stacks(count: usize) -> Stacks {
    KEPT.with_borrow_mut(|kept| {
        if kept.as_ref().is_none_or(|kept| kept.count < count) {
            *kept = None; // before the next is mapped
            *kept = Mapping::new(count);
        }
        let none = Stacks { memory: null_mut(), stride: 0 };
        kept.as_mut().map_or(none, |kept| {
            kept.lent = count;
            Stacks { memory: kept.memory.as_ptr(), stride: kept.stride }
        })
    })
}

/// The launch has ended.
pub fn release() {
    KEPT.with_borrow(|kept| {
        let Some(kept) = kept else { return };
        let Some(further) = kept.lent.checked_sub(MOST_KEPT).filter(|further| *further > 0) else { return };
        // SAFETY: these stacks are in the mapping, and no launch runs on them any more.
        unsafe {
            let first = kept.memory.as_ptr().byte_add(MOST_KEPT * kept.stride);
            libc::madvise(first, further * kept.stride, libc::MADV_DONTNEED);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_stacks_keep_their_memory() {
        let Stacks { memory, stride } = stacks(MOST_KEPT + 1);
        let tops = [MOST_KEPT, MOST_KEPT + 1].map(|number| memory.wrapping_byte_add(number * stride - 1).cast::<u8>());
        // SAFETY: the last bytes of two stacks of the mapping.
        tops.iter().for_each(|top| unsafe { top.write(1) });
        release();
        assert_eq!(stacks(1).memory, memory);
        // SAFETY: the mapping is there until more stacks are needed.
        assert_eq!(tops.map(|top| unsafe { top.read() }), [1, 0]);
        assert!(stacks(usize::MAX).memory.is_null(), "there is no such memory");
    }
}
