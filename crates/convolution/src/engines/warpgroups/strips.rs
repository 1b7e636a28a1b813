//! Strips of neighbouring pixels, through whose slices a block goes: see `kernels/convolution/rolling.cuh`.

use super::GROUP;
use crate::engines::problem::Slices;

/// Threads of a block: two warpgroups that multiply, and two that read.
pub const THREADS: usize = 512;
/// The pixels of a strip.
pub const STRIP: usize = 256;
/// The channels of a line, and its bytes.
pub const LINE: usize = 32;
pub const LINE_BYTES: usize = 2 * LINE;
/// The filter's places along each axis.
pub const FILTER: usize = 3;
/// The bytes of a stage's two Mbarriers.
pub const MBARRIERS: usize = 16;
/// The bytes of what shared memory holds of each group of pixels.
const SOURCE: usize = 24;

/// The strips of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strips {
    /// The pixels of a row with the zeros behind it. Whole groups of pixels are aligned if their lines are.
    pub width: usize,
    /// The slices of all strips.
    pub slices: usize,
}

impl Strips {
    pub fn of(images: usize, slices: Slices, [height, columns]: [usize; 2]) -> Self {
        let zeros = if columns.is_multiple_of(GROUP) { GROUP } else { FILTER / 2 };
        let width = columns.saturating_add(zeros);
        let strips = height.saturating_mul(width).div_ceil(STRIP);
        Self { width, slices: images.saturating_mul(slices.count).saturating_mul(strips) }
    }

    /// The pixels of a strip and all of their neighbours.
    pub fn lines(&self) -> usize {
        (STRIP + 2 * (self.width + 1)).next_multiple_of(GROUP)
    }

    /// The number of parts that share out the slices, if each has `tiles` blocks and a multiprocessor one block.
    pub fn parts(&self, tiles: usize, multiprocessors: usize) -> usize {
        (multiprocessors / tiles).clamp(1, self.slices)
    }
}

/// The bytes of the sources of pixels with so many lines.
pub fn sources_bytes(lines: usize) -> usize {
    (lines / GROUP + 2) * SOURCE
}
