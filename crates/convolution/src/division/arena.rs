//! Workspace Division's memory: one device buffer, cut into segments.

use std::ops::Range;

use cudnn::convolution::Workspace;
use gpu::{Buffer, Device, Stream};

/// The alignment of segments in bytes, the same as for device allocations.
pub const SEGMENT_ALIGNMENT: usize = 256;

/// Guard bytes behind the end, in an arena that checks itself.
const GUARD: usize = 4096;
/// The byte that fills the unwritten parts of an arena that checks itself.
const PATTERN: u8 = 0xA5;

/// One buffer whose segments serve as workspaces of calls. Its contents have no meaning between calls.
pub struct Arena {
    device: Device,
    buffer: Option<Buffer>,
    bytes: usize,
    guard: usize,
}

/// The bytes of the arena that a segment with `workspace` bytes occupies.
pub fn segment_bytes(workspace: usize) -> usize {
    workspace.checked_next_multiple_of(SEGMENT_ALIGNMENT).unwrap_or(usize::MAX)
}

impl Arena {
    /// Allocates an arena of `bytes`. `None` if the allocation fails; 0 bytes never fail. With `checks`, a guard
    /// follows the end.
    pub fn allocate(device: Device, bytes: usize, checks: bool) -> Option<Self> {
        let guard = if checks && bytes > 0 { GUARD } else { 0 };
        let buffer = if bytes > 0 { Some(device.allocate(bytes + guard)?) } else { None };
        Some(Self { device, buffer, bytes, guard })
    }

    /// The size in bytes, without the guard.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A segment as a call's workspace. `None` if the segment exceeds the arena.
    pub fn workspace(&self, segment: &Range<usize>) -> Option<Workspace> {
        let within = segment.start <= segment.end && segment.end <= self.bytes;
        let start = self.buffer.as_ref().map_or(std::ptr::null_mut(), Buffer::data);
        within.then(|| Workspace { data: start.wrapping_byte_add(segment.start), size: segment.len() })
    }

    /// Fills the arena and its guard with a pattern, in the stream's order. Returns whether it succeeded.
    ///
    /// # Safety
    /// No running work uses the arena.
    pub unsafe fn poison(&self, stream: Stream) -> bool {
        let Some(buffer) = &self.buffer else { return true };
        // SAFETY: writes all bytes of our own buffer, which no running work uses (the caller's promise).
        unsafe { self.device.write(buffer.data(), &vec![PATTERN; buffer.bytes()], stream) }
    }

    /// Waits for the stream's work and returns the first byte outside `segment` that has changed since
    /// [`Self::poison`]. `Err` if the arena cannot be read.
    #[allow(clippy::result_unit_err)] // the caller only waits
    pub fn overwritten(&self, segment: &Range<usize>, stream: Stream) -> Result<Option<usize>, ()> {
        let Some(buffer) = &self.buffer else { return Ok(None) };
        let mut bytes = vec![0; self.bytes + self.guard];
        // SAFETY: our own buffer, which has as many bytes as the vector.
        if !unsafe { self.device.read(&mut bytes, buffer.data(), stream) } {
            return Err(());
        }
        if let Some(within) = bytes.get_mut(segment.clone()) {
            within.fill(PATTERN);
        }
        // By whole blocks first, which is fast without optimisation too.
        let block = [PATTERN; 4096];
        let unchanged = bytes.chunks(block.len()).take_while(|bytes| *bytes == &block[..bytes.len()]).count();
        let mut rest = bytes.iter().enumerate().skip(unchanged * block.len());
        Ok(rest.find_map(|(at, byte)| (*byte != PATTERN).then_some(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_a_segment_is_watched() {
        let arena = Arena::allocate(Device::Host, 1000, true).unwrap();
        let segment = 256..700;
        let workspace = arena.workspace(&segment).unwrap();
        assert_eq!(workspace.size, 444);
        let write = |at: usize| {
            // SAFETY: the test passes offsets within the arena or its guard only.
            unsafe { workspace.data.cast::<u8>().wrapping_add(at).write(7) }
        };
        // SAFETY: nothing uses the arena at this point.
        assert!(unsafe { arena.poison(std::ptr::null_mut()) });
        (0..444).for_each(write);
        assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(None));
        write(444);
        assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(Some(700)));
        // SAFETY: nothing uses the arena at this point.
        assert!(unsafe { arena.poison(std::ptr::null_mut()) });
        write(1000 - 256);
        assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(Some(1000)), "the guard is watched too");
        assert!(arena.workspace(&(900..1001)).is_none());
    }

    #[test]
    fn the_first_changed_byte_is_found_anywhere() {
        let bytes = 3 * 4096 + 100;
        let arena = Arena::allocate(Device::Host, bytes, true).unwrap();
        for (segment, change) in
            [(0..0, 0), (0..0, 4095), (0..0, 4096), (512..4096, 4096), (0..8192, bytes - 1), (8192..bytes, 8191)]
        {
            // SAFETY: nothing uses the arena at this point.
            assert!(unsafe { arena.poison(std::ptr::null_mut()) });
            let memory = arena.workspace(&(0..bytes)).unwrap().data.cast::<u8>();
            for at in [change, (change + 1).min(bytes - 1)] {
                // SAFETY: both offsets lie within the arena.
                unsafe { memory.wrapping_add(at).write(7) };
            }
            assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(Some(change)), "{segment:?}");
        }
    }

    #[test]
    fn an_empty_arena_gives_empty_segments() {
        let arena = Arena::allocate(Device::Host, 0, false).unwrap();
        assert_eq!(arena.workspace(&(0..0)).unwrap().size, 0);
        assert_eq!((segment_bytes(0), segment_bytes(1), segment_bytes(512)), (0, 256, 512));
    }
}
