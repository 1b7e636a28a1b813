//! A division in force: the arena, and what each layer runs in its segment.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use once_cell::sync::OnceCell;
use parking_lot::RwLock;

use super::layers::{Lane, LayerId};
use crate::cudnn::convolution::Workspace;
use crate::cudnn::kernel::Kernel;
use crate::device::{Device, Fence, Stream};
use crate::exec::{Arena, Plan};
use crate::legacy::report;
use crate::settings;

/// What one layer runs, and where.
pub struct Segment {
    pub plan: Plan,
    /// Bytes of the arena.
    pub range: Range<usize>,
    /// Milliseconds that it takes.
    pub time: f64,
    /// The plan failed once: what is ready runs from then on.
    pub broken: AtomicBool,
    /// The end of what it ran last.
    pub last: Fence,
}

/// Something is launched in a segment until this is dropped; then its end can be waited for, even if that is because of a
/// panic.
pub struct Launch<'a> {
    segment: &'a Segment,
    device: Device,
    stream: Stream,
}

impl Segment {
    /// Begins to launch something.
    pub fn launch(&self, device: Device, stream: Stream) -> Launch<'_> {
        Launch { segment: self, device, stream }
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        self.segment.last.launched(self.device, self.stream);
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
    pub ready: Vec<Kernel>,
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
    description: String,
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

    /// A segment's memory.
    pub fn workspace(&self, segment: &Segment) -> Option<Workspace> {
        self.arena.as_ref()?.workspace(&segment.range)
    }

    /// Waits until nothing runs in the arena any more; whether that can be told.
    pub fn rests(&self) -> bool {
        self.segments.values().all(|segment| segment.last.wait())
    }

    /// Fills the arena with a pattern; whether that went well.
    ///
    /// # Safety
    /// No call uses the arena.
    pub unsafe fn poison(&self, stream: Stream) -> bool {
        // SAFETY: as ours.
        self.arena.as_ref().is_some_and(|arena| unsafe { arena.poison(stream) })
    }

    /// Says whether a call kept to its segment since [`Self::poison`].
    pub fn check(&self, segment: &Segment, stream: Stream) {
        let Some(arena) = &self.arena else { return };
        report::kept(&segment.plan, &segment.range, arena.bytes(), arena.overwritten(&segment.range, stream));
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
    for (layer, Segment { plan, range, time, .. }) in segments {
        let (start, bytes) = (range.start, range.len());
        let _ = writeln!(
            text,
            "layer {layer}: {} in {}, {bytes} bytes at {start}, {time:.3} ms",
            plan.kernel(),
            plan.configuration()
        );
    }
    for kernel in ready {
        let _ = writeln!(text, "without a segment: {kernel}");
    }
    text
}
