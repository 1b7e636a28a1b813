//! Finds out whether the process has memory left for work that the program does not wait for.
//!
//! A failed allocation ends a Rust library's process. Under a limit (`ulimit -v`), our work could take the memory that
//! the program, or cuDNN, needs next. So such work does not begin unless there is plenty.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of address space that must be left before work begins. A thread takes some 130 MiB for a moment: its
/// stack, and the region of glibc's allocator, of which 64 MiB stay. The rest is for cuDNN's descriptors and plans, and
/// for the program's own allocations meanwhile.
pub const NEEDED: usize = 256 << 20;

/// Returns whether work may begin that the program does not wait for. The first time that it may not, a warning says
/// so, and names the consequence, `otherwise`.
pub fn is_left_or(otherwise: &str) -> bool {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let is_left = is_left();
    if !is_left && !IS_TOLD.swap(true, Ordering::Relaxed) {
        let bytes = NEEDED >> 20;
        log::warn!("less than {bytes} MiB of address space are left (ulimit -v), so nothing is tuned: {otherwise}");
    }
    is_left
}

/// Returns whether [`NEEDED`] bytes could be allocated now. They are not: the question costs two system calls, and no
/// memory.
pub fn is_left() -> bool {
    // Without access: a program that locks its memory (`mlockall`) would otherwise get all of the pages.
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at a place that the system chooses touches no other.
    let place = unsafe { libc::mmap(ptr::null_mut(), NEEDED, libc::PROT_NONE, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping was made above, and nobody else knows it.
    unsafe { libc::munmap(place, NEEDED) };
    true
}
