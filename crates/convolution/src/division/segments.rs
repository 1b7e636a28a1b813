//! A division in force: the arena, and what each layer runs in its segment.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use once_cell::sync::OnceCell;
use parking_lot::RwLock;

use super::kernel::{LayerConfiguration, LayerKernel, LayerPlan};
use super::layers::{Lane, LayerId};
use super::report;
use crate::division::arena::Arena;
use gpu::{Device, Fence, Stream};
use guest::settings;

/// What one layer runs, and where.
pub struct Segment {
    pub kernel: LayerKernel,
    pub configuration: LayerConfiguration,
    pub plan: LayerPlan,
    /// Bytes of the arena.
    pub range: Range<usize>,
    /// Milliseconds that it takes.
    pub time: f64,
    /// The plan failed once: what is ready runs from then on.
    pub broken: AtomicBool,
    /// The end of what it ran last.
    pub last: Fence,
}

/// Something is launched in a segment until this is dropped; then its end can be waited for, even if that is because
/// of a panic.
pub struct Launch<'a> {
    last: &'a Fence,
    device: Device,
    stream: Stream,
}

impl<'a> Launch<'a> {
    /// Begins to launch something, whose end is to be the `last`.
    pub fn begin(last: &'a Fence, device: Device, stream: Stream) -> Self {
        Self { last, device, stream }
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        self.last.launched(self.device, self.stream);
    }
}

/// A division that is solved, and has no memory yet.
#[derive(Default)]
pub struct Solved {
    pub total: usize,
    /// All segments begin where the arena does.
    pub one_stream: bool,
    pub segments: Vec<(LayerId, Segment)>,
    /// Kernels of the layers that run what is ready.
    pub ready: Vec<LayerKernel>,
    /// Milliseconds of all layers.
    pub time: f64,
    /// The same if each layer had an equal share of the total: Workspace Reuse at that limit.
    pub equal_shares: f64,
    pub proven: bool,
    pub gap: f64,
    /// Milliseconds that solving took.
    pub took: f64,
}

impl Solved {
    /// Bytes from the arena's start to the end of its last segment.
    pub fn arena_bytes(&self) -> usize {
        self.segments.iter().map(|(_, segment)| segment.range.end).max().unwrap_or(0)
    }
}

/// What a network's calls run.
#[derive(Default)]
pub struct Division {
    arena: Option<Arena>,
    segments: HashMap<LayerId, Segment, foldhash::fast::RandomState>,
    /// Where segments share memory: the lane that has it, which is the first to run anything.
    one_lane: Option<OnceCell<Lane>>,
    /// What layers run in that have no segment.
    rest: Rest,
    description: String,
}

/// Memory that layers without a segment share, which run on one lane: as much as any of them has asked for, of what the
/// segments leave of the total.
#[derive(Default)]
pub struct Rest {
    arena: Option<Arena>,
    /// The first that asked for any.
    lane: Option<Lane>,
    /// The end of what it ran last.
    pub last: Fence,
    /// The fewest bytes that could not be allocated.
    refused: Option<usize>,
}

impl Division {
    /// Puts a solved division in place of the one in force, whose arena is freed before the new one is
    /// allocated: there are never two. `Err` is the bytes that cannot be allocated; nothing is divided
    /// then. `Ok` tells whether it took place: not while what runs in the arena cannot be waited for.
    pub fn replace(this: &RwLock<Self>, device: Device, solved: Solved) -> Result<bool, usize> {
        // Waits until no call is being launched, and then until none is running.
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

    /// The layer's segment, if it has one that `lane` may use.
    pub fn segment(&self, layer: LayerId, lane: Lane) -> Option<&Segment> {
        let segment = self.segments.get(&layer)?;
        let others = self.one_lane.as_ref().is_some_and(|one| *one.get_or_init(|| lane) != lane);
        (!others).then_some(segment)
    }

    /// The memory that holds all segments.
    pub fn arena(&self) -> Option<&Arena> {
        self.arena.as_ref()
    }

    /// What a lane's layers without a segment share, if that has so many bytes.
    pub fn rest(&self, lane: Lane, bytes: usize) -> Option<(&Rest, &Arena)> {
        let arena = self.rest.arena.as_ref().filter(|arena| self.rest.lane == Some(lane) && arena.bytes() >= bytes)?;
        Some((&self.rest, arena))
    }

    /// The most that layers without a segment may share of a total.
    pub fn rest_of(&self, total: usize) -> usize {
        total.saturating_sub(self.arena.as_ref().map_or(0, Arena::bytes))
    }

    /// Whether it is of any use to ask for so many bytes of a total for a lane's layers without a segment.
    pub fn may_extend(&self, lane: Lane, bytes: usize, total: usize) -> bool {
        bytes <= self.rest_of(total)
            && self.rest.lane.is_none_or(|known| known == lane)
            && self.rest.refused.is_none_or(|refused| bytes < refused)
    }

    /// Makes what a lane's layers without a segment share so many bytes long, and waits for what runs in it.
    pub fn extend(&mut self, device: Device, lane: Lane, bytes: usize, total: usize) {
        if self.may_extend(lane, bytes, total) && self.rest(lane, bytes).is_none() && self.rest.last.wait() {
            let rest = &mut self.rest;
            let before = rest.arena.take().map_or(0, |arena| arena.bytes());
            let allocate = |bytes| Arena::allocate(device, bytes, settings::get().check);
            rest.lane = Some(lane);
            rest.arena = allocate(bytes).or_else(|| {
                rest.refused = Some(bytes);
                allocate(before)
            });
        }
    }

    /// Waits until nothing runs in the arena any more; whether that can be told.
    pub fn rests(&self) -> bool {
        self.segments.values().all(|segment| segment.last.wait()) && self.rest.last.wait()
    }

    /// The division in force as text, empty if there is none.
    pub fn describe(&self) -> &str {
        &self.description
    }
}

fn describe(solved: &Solved) -> String {
    let mut text = String::new();
    let Solved { total, segments, ready, time, equal_shares, .. } = solved;
    let _ = writeln!(
        text,
        "Workspace Division: {} bytes of {total} among {} layers\ntime: {time:.3} ms predicted, {equal_shares:.3} ms \
         with equal shares",
        solved.arena_bytes(),
        segments.len() + ready.len(),
    );
    for (layer, Segment { kernel, configuration, range, time, .. }) in segments {
        let (start, bytes) = (range.start, range.len());
        let _ = writeln!(text, "layer {layer}: {kernel} in {configuration}, {bytes} bytes at {start}, {time:.3} ms");
    }
    for kernel in ready {
        let _ = writeln!(text, "without a segment: {kernel}");
    }
    text
}
