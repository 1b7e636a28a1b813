//! A solved division: a segment of the arena for each layer.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::layers::LayerId;
use super::problem::{LayerConfiguration, LayerPlan, LayerProblem};
use gpu::Fence;

/// A layer's plan, and its part of the arena.
pub struct Segment {
    pub problem: LayerProblem,
    pub configuration: LayerConfiguration,
    pub plan: LayerPlan,
    /// The segment's bytes in the arena.
    pub range: Range<usize>,
    /// The configuration's time, in milliseconds.
    pub time: f64,
    /// The plan failed once: the layer runs the fallback from then on.
    pub broken: AtomicBool,
    /// The end of the segment's last launch.
    pub last: Fence,
}

/// A division that is solved, but has no memory yet.
#[derive(Default)]
pub struct Solved {
    pub total: usize,
    /// All segments begin at the arena's start.
    pub one_stream: bool,
    pub segments: Vec<(LayerId, Segment)>,
    /// The problems of the layers that run the fallback.
    pub fallback: Vec<LayerProblem>,
    /// The milliseconds of all layers together.
    pub time: f64,
    /// The milliseconds if each layer had an equal share of the total: Workspace Reuse at that limit.
    pub equal_shares: f64,
    pub proven: bool,
    pub gap: f64,
    /// The milliseconds that solving took.
    pub took: f64,
}

impl Solved {
    /// Bytes from the arena's start to the end of its last segment.
    pub fn arena_bytes(&self) -> usize {
        self.segments.iter().map(|(_, segment)| segment.range.end).max().unwrap_or(0)
    }
}
