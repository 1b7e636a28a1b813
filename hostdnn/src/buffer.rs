//! Memory for trials.

use crate::convolution::Element;
use crate::error::{Error, Result};
use cudnn_abi::*;
use std::alloc::{Layout, alloc, dealloc};

/// Memory for a trial. Failing to get it is a status, never an abort.
pub struct Buffer {
    /// Null if it has no bytes.
    pub pointer: *mut u8,
    layout: Layout,
}

impl Buffer {
    /// `bytes` uninitialized bytes; null for 0 bytes.
    pub fn new(bytes: usize) -> Result<Self> {
        let failed = || Error::new(CUDNN_STATUS_ALLOC_FAILED, format!("{bytes} bytes for a trial cannot be had"));
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| failed())?;
        // Writing to memory that the system overcommitted would end the process.
        if available_memory().is_some_and(|available| bytes as u64 > available) {
            return Err(failed());
        }
        if bytes == 0 {
            return Ok(Self { pointer: std::ptr::null_mut(), layout });
        }
        // SAFETY: the layout's size is not 0.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() { Err(failed()) } else { Ok(Self { pointer, layout }) }
    }

    /// A buffer of ones: ordinary numbers in real pages, so that times are those of real data.
    pub fn filled(element: Element, bytes: usize) -> Result<Self> {
        let buffer = Self::new(bytes)?;
        let (one, size): ([u8; 8], usize) = match element {
            Element::Half => ([0x00, 0x3c, 0x00, 0x3c, 0x00, 0x3c, 0x00, 0x3c], 2),
            Element::Bfloat16 => ([0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f], 2),
            Element::Float => ([0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x80, 0x3f], 4),
            Element::Double => (1f64.to_le_bytes(), 8),
        };
        for at in (0..bytes).step_by(size) {
            // SAFETY: `bytes` is a whole number of elements, and the buffer holds them.
            unsafe { buffer.pointer.add(at).copy_from_nonoverlapping(one.as_ptr(), size) };
        }
        Ok(buffer)
    }
}

/// Bytes that are available without swapping; `None` if the system does not report them.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.pointer, self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_a_status() {
        let more = available_memory().map_or(isize::MAX as usize - 63, |available| available as usize + (1 << 30));
        for bytes in [more, isize::MAX as usize - 63, usize::MAX] {
            let status = Buffer::new(bytes).map(drop).unwrap_err().status;
            assert_eq!(status, CUDNN_STATUS_ALLOC_FAILED, "{bytes} bytes");
        }
        assert!(Buffer::new(0).unwrap().pointer.is_null());
    }
}
