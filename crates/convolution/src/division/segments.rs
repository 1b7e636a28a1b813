//! A division in force: the arena, and each layer's plan in its segment.

use std::collections::HashMap;
use std::fmt::Write as _;

use once_cell::sync::OnceCell;
use parking_lot::RwLock;

use super::layers::{Lane, LayerId};
use super::report;
use super::solved::{Segment, Solved};
use crate::division::arena::Arena;
use gpu::{Device, Fence, Stream};
use guest::settings;

/// A launch in progress in a segment. When it is dropped, even by a panic, `last` marks the end of the launched work,
/// so that it can be waited for.
pub struct Launch<'a> {
    last: &'a Fence,
    device: Device,
    stream: Stream,
}

impl<'a> Launch<'a> {
    /// Begins a launch whose end `last` will mark.
    pub fn begin(last: &'a Fence, device: Device, stream: Stream) -> Self {
        Self { last, device, stream }
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        self.last.launched(self.device, self.stream);
    }
}

/// The division that a network's calls run.
#[derive(Default)]
pub struct Division {
    arena: Option<Arena>,
    segments: HashMap<LayerId, Segment, foldhash::fast::RandomState>,
    /// If all segments share memory: the lane that has it, the first one to run anything.
    one_lane: Option<OnceCell<Lane>>,
    /// Each lane's buffer for its layers without a segment.
    rests: HashMap<Lane, Rest>,
    description: String,
}

/// A buffer shared by the layers of one lane that have no segment. It has the most bytes that any of them asked for,
/// within the part of the total that the segments and the other lanes' buffers leave.
#[derive(Default)]
pub struct Rest {
    arena: Option<Arena>,
    /// The end of the buffer's last launch.
    pub last: Fence,
    /// The fewest bytes that could not be allocated.
    refused: Option<usize>,
}

impl Rest {
    fn bytes(&self) -> usize {
        self.arena.as_ref().map_or(0, Arena::bytes)
    }
}

impl Division {
    /// Replaces the division in force with a solved one. Frees the old arena before allocating the new one, so there
    /// are never two. `Err` is the number of bytes that cannot be allocated; then nothing is divided. `Ok(false)` means
    /// that nothing changed, because the work in the old arena cannot be waited for.
    pub fn replace(this: &RwLock<Self>, device: Device, solved: Solved) -> Result<bool, usize> {
        // Getting the lock waits for launches in progress; `rests` waits for launched work.
        let mut this = this.write();
        if !this.rests() {
            log::info!("the workspace is not divided anew while what runs in it cannot be waited for");
            return Ok(false);
        }
        *this = Self::default();
        let bytes = solved.arena_bytes();
        this.arena = Some(Arena::allocate(device, bytes, settings::get().check).ok_or(bytes)?);
        report::divided(&solved);
        this.description = describe(&solved);
        this.one_lane = solved.one_stream.then(OnceCell::new);
        this.segments = solved.segments.into_iter().collect();
        Ok(true)
    }

    /// Returns the layer's segment, if it has one that `lane` may use.
    pub fn segment(&self, layer: LayerId, lane: Lane) -> Option<&Segment> {
        let segment = self.segments.get(&layer)?;
        let others = self.one_lane.as_ref().is_some_and(|one| *one.get_or_init(|| lane) != lane);
        (!others).then_some(segment)
    }

    /// The memory that holds all segments.
    pub fn arena(&self) -> Option<&Arena> {
        self.arena.as_ref()
    }

    /// Returns the buffer of a lane's layers without a segment, if it has at least `bytes`.
    pub fn rest(&self, lane: Lane, bytes: usize) -> Option<(&Rest, &Arena)> {
        let rest = self.rests.get(&lane)?;
        let arena = rest.arena.as_ref().filter(|arena| arena.bytes() >= bytes)?;
        Some((rest, arena))
    }

    /// The most bytes of a total that a lane's layers without a segment may share.
    pub fn rest_of(&self, total: usize, lane: Lane) -> usize {
        let others = self.rests.iter().filter(|(of, _)| **of != lane).map(|(_, rest)| rest.bytes()).sum();
        total.saturating_sub(self.arena.as_ref().map_or(0, Arena::bytes)).saturating_sub(others)
    }

    /// True if the lane's buffer for layers without a segment can grow to `bytes`, as far as is known.
    pub fn may_extend(&self, lane: Lane, bytes: usize, total: usize) -> bool {
        let refused = self.rests.get(&lane).and_then(|rest| rest.refused);
        bytes <= self.rest_of(total, lane) && refused.is_none_or(|refused| bytes < refused)
    }

    /// Waits for the work in the lane's buffer for layers without a segment, then makes the buffer `bytes` long.
    pub fn extend(&mut self, device: Device, lane: Lane, bytes: usize, total: usize) {
        if !self.may_extend(lane, bytes, total) || self.rest(lane, bytes).is_some() {
            return;
        }
        let rest = self.rests.entry(lane).or_default();
        if rest.last.wait() {
            let before = rest.arena.take().map_or(0, |arena| arena.bytes());
            let allocate = |bytes| Arena::allocate(device, bytes, settings::get().check);
            rest.arena = allocate(bytes).or_else(|| {
                rest.refused = Some(bytes);
                allocate(before)
            });
        }
    }

    /// Waits until no work runs in our memory. Returns false if that cannot be known.
    pub fn rests(&self) -> bool {
        let mut last = self.segments.values().map(|segment| &segment.last);
        last.all(Fence::wait) && self.rests.values().all(|rest| rest.last.wait())
    }

    /// The division in force as text, empty if there is none.
    pub fn describe(&self) -> &str {
        &self.description
    }
}

fn describe(solved: &Solved) -> String {
    let mut text = String::new();
    let Solved { total, segments, fallback, time, equal_shares, .. } = solved;
    let _ = writeln!(
        text,
        "Workspace Division: {} bytes of {total} among {} layers\ntime: {time:.3} ms predicted, {equal_shares:.3} ms \
         with equal shares",
        solved.arena_bytes(),
        segments.len() + fallback.len(),
    );
    for (layer, Segment { problem, configuration, range, time, .. }) in segments {
        let (start, bytes) = (range.start, range.len());
        let _ = writeln!(text, "layer {layer}: {problem} in {configuration}, {bytes} bytes at {start}, {time:.3} ms");
    }
    for problem in fallback {
        let _ = writeln!(text, "without a segment: {problem}");
    }
    text
}
