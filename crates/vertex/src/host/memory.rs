//! The memory of a run: where its frames and states lie in what the caller gives.

use super::rows::FramePart;
use crate::function::{MOST_FUNCTIONS, MOST_STATES};
use crate::passes::{Extent, FRAMES, Frame, Passes};

/// The numbers of memory that a run takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// For the time of a run: nothing is in it before, nothing after.
    pub workspace: usize,
    /// From the run forward to the run backward.
    pub reserve: usize,
}

/// The numbers of the frames of a kind: those that are kept, and the others.
pub(super) fn of_frames(passes: &Passes, extent: &Extent) -> Memory {
    let mut memory = Memory::default();
    for (number, stride) in passes.strides.iter().enumerate() {
        let is_kept = number % FRAMES == Frame::Kept as usize;
        let to = if is_kept { &mut memory.reserve } else { &mut memory.workspace };
        *to = to.saturating_add(stride.saturating_mul(extent.rows_of_frame(number)));
    }
    memory
}

/// The frames of all kinds.
pub(super) type Frames<'a, C> = [[FramePart<'a, C>; 2 * FRAMES]; MOST_FUNCTIONS];

/// Takes numbers from the front of a memory.
fn take<'a, C>(memory: &mut &'a mut [C], count: usize, stride: usize) -> FramePart<'a, C> {
    let (numbers, rest) = std::mem::take(memory).split_at_mut(count * stride);
    *memory = rest;
    FramePart { numbers, stride }
}

/// Takes the frames of kinds.
pub(super) fn take_frames<'a, C>(
    kinds: &[Passes],
    extents: &[Extent],
    workspace: &mut &'a mut [C],
    reserve: &mut &'a mut [C],
) -> Frames<'a, C> {
    let mut kinds = kinds.iter().zip(extents);
    std::array::from_fn(|_| {
        let kind = kinds.next();
        std::array::from_fn(|number| match kind {
            Some((passes, extent)) => {
                let is_kept = number % FRAMES == Frame::Kept as usize;
                let memory = if is_kept { &mut *reserve } else { &mut *workspace };
                take(memory, extent.rows_of_frame(number), passes.strides[number])
            }
            None => FramePart { numbers: &mut [], stride: 0 },
        })
    })
}

/// Takes an array of `rows` rows for each state.
pub(super) fn take_states<'a, C>(
    widths: &[usize],
    rows: usize,
    memory: &mut &'a mut [C],
) -> [FramePart<'a, C>; MOST_STATES] {
    std::array::from_fn(|state| take(memory, rows, widths.get(state).copied().unwrap_or(0)))
}
