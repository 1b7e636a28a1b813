//! Workspace Division's memory: one buffer of a device, cut into segments.

use std::ops::Range;

use cudnn::convolution::Workspace;
use gpu::{Buffer, Device, Stream};

/// Where segments start, in bytes: as far apart as device allocations are.
pub const SEGMENT_ALIGNMENT: usize = 256;

/// Bytes behind the end, in an arena that checks itself.
const GUARD: usize = 4096;
/// What an arena that checks itself holds wherever nothing was written.
const PATTERN: u8 = 0xA5;

/// One buffer, of which calls use segments as their workspace. What they leave in it means nothing.
pub struct Arena {
    device: Device,
    buffer: Option<Buffer>,
    bytes: usize,
    guard: usize,
}

/// The bytes that a segment of `workspace` bytes takes from the arena.
pub fn segment_bytes(workspace: usize) -> usize {
    workspace.checked_next_multiple_of(SEGMENT_ALIGNMENT).unwrap_or(usize::MAX)
}

impl Arena {
    /// An arena of `bytes`; `None` where they cannot be had: none at all can always be. One that `checks`
    /// has a guard behind its end.
    pub fn allocate(device: Device, bytes: usize, checks: bool) -> Option<Self> {
        let guard = if checks && bytes > 0 { GUARD } else { 0 };
        let buffer = if bytes > 0 { Some(device.allocate(bytes + guard)?) } else { None };
        Some(Self { device, buffer, bytes, guard })
    }

    /// Its size in bytes, without a guard.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A segment as a call's workspace; `None` if it does not lie within the arena.
    pub fn workspace(&self, segment: &Range<usize>) -> Option<Workspace> {
        let within = segment.start <= segment.end && segment.end <= self.bytes;
        let start = self.buffer.as_ref().map_or(std::ptr::null_mut(), Buffer::data);
        within.then(|| Workspace { data: start.wrapping_byte_add(segment.start), size: segment.len() })
    }

    /// Fills it with a pattern, the guard too, by the stream; whether that went well.
    ///
    /// # Safety
    /// No work that uses the arena is under way.
    pub unsafe fn poison(&self, stream: Stream) -> bool {
        let Some(buffer) = &self.buffer else { return true };
        // SAFETY: all of our own buffer.
        unsafe { self.device.write(buffer.data(), &vec![PATTERN; buffer.bytes()], stream) }
    }

    /// The first byte outside `segment` that has been overwritten since [`Self::poison`], once the
    /// stream's work is done. `Err` where the arena cannot be read.
    pub fn overwritten(&self, segment: &Range<usize>, stream: Stream) -> Result<Option<usize>, ()> {
        let Some(buffer) = &self.buffer else { return Ok(None) };
        let mut bytes = vec![0; self.bytes + self.guard];
        // SAFETY: our own buffer, which is as long.
        if !unsafe { self.device.read(&mut bytes, buffer.data(), stream) } {
            return Err(());
        }
        let outside = |(at, byte): (usize, &u8)| (*byte != PATTERN && !segment.contains(&at)).then_some(at);
        Ok(bytes.iter().enumerate().find_map(outside))
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
            // SAFETY: within the arena or its guard.
            unsafe { workspace.data.cast::<u8>().wrapping_add(at).write(7) }
        };
        // SAFETY: nothing runs.
        assert!(unsafe { arena.poison(std::ptr::null_mut()) });
        (0..444).for_each(write);
        assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(None));
        write(444);
        assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(Some(700)));
        // SAFETY: nothing runs.
        assert!(unsafe { arena.poison(std::ptr::null_mut()) });
        write(1000 - 256);
        assert_eq!(arena.overwritten(&segment, std::ptr::null_mut()), Ok(Some(1000)), "the guard is watched too");
        assert!(arena.workspace(&(900..1001)).is_none());
    }

    #[test]
    fn an_empty_arena_gives_empty_segments() {
        let arena = Arena::allocate(Device::Host, 0, false).unwrap();
        assert_eq!(arena.workspace(&(0..0)).unwrap().size, 0);
        assert_eq!((segment_bytes(0), segment_bytes(1), segment_bytes(512)), (0, 256, 512));
    }
}
