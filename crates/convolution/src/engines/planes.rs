//! What results of convolutions by channel read of a plane's rows and columns, and lines of planes in shared memory: for
//! the engines on tensor cores. Twin of `kernels/convolution/planes.cuh`.

use crate::engines::by_channel::ByChannel;
use crate::engines::problem::Convolution;
use crate::engines::warpgroups::THREADS;
use cudnn::convolution::Direction;
use gpu::Divisor;

/// The columns of a tile, and of half of a product's depth.
const EIGHT: usize = 8;

/// The rows, or the columns: what the results read. Number `i` of the results reads number (`i` · `down` + tap -
/// `padding`) / `up` for each tap, a place of the filter, if that is whole. One of `down` and `up` is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The places of the filter. Of the input's gradient the filter is turned round.
    pub places: usize,
    /// The sizes of the tensor that is read, and of the results.
    pub from: usize,
    pub to: usize,
    pub down: usize,
    pub up: usize,
    padding: i32,
}

impl Axis {
    /// The rows, with `axis` of 1, or the columns, with 2. The filter's gradient reads what the convolution does.
    pub fn of(of: &ByChannel, axis: usize) -> Self {
        let Convolution { direction, filter, stride, padding, y, .. } = of.0;
        let [from, to] = of.read_and_written().map(|sizes| sizes[axis]);
        // There is nothing between one number of y and the next where there is one.
        let stride = if y[axis] == 1 { 1 } else { stride[axis] };
        let (places, padding) = (filter[axis], padding[axis] as i32);
        match direction {
            Direction::BackwardData => {
                Self { places, from, to, down: 1, up: stride, padding: places as i32 - 1 - padding }
            }
            _ => Self { places, from, to, down: stride, up: 1, padding },
        }
    }

    pub fn stride(&self) -> usize {
        self.down * self.up
    }

    /// The zeros before the first number that is read, which may be negative.
    pub fn before(&self) -> i32 {
        self.padding.div_euclid(self.up as i32)
    }

    /// The rest of the padding, which decides which places of the filter meet the first result.
    pub fn rest(&self) -> usize {
        self.padding.rem_euclid(self.up as i32) as usize
    }

    /// The numbers that the results read, from the first zero on.
    fn read(&self) -> usize {
        let last = (self.to - 1) * self.down + self.places - 1;
        last.checked_sub(self.rest()).map_or(0, |last| last / self.up + 1)
    }

    /// Returns whether all of the tensor is among them.
    pub fn reads_all(&self) -> bool {
        usize::try_from(self.before()).is_ok_and(|before| before + self.from <= self.read())
    }

    /// The results that are read by the same places of the filter.
    pub fn alike(&self) -> usize {
        self.to.div_ceil(self.up)
    }

    /// The lines of a class that results read, beside as many lines as there are results of one residue.
    pub fn further_lines(&self, places: usize) -> usize {
        (places - 1 + self.up - 1 - self.rest()) / self.up / self.down
    }

    /// The numbers of a depth, in eights, that eight results read, and before these `shift` more. If results lie
    /// between numbers that are read, all eights that read the same numbers have this depth.
    pub fn depth(&self, shift: usize) -> usize {
        let last = (EIGHT * self.up - 1) * self.down + self.places - 1;
        (shift + last.saturating_sub(self.rest()) / self.up + 1).div_ceil(EIGHT)
    }

    /// The numbers of a row that can be copied at once, with the numbers before the first result's that make them
    /// aligned, and the depth with these. Of those with the least depth, the first copies most.
    pub fn pieces(&self) -> Option<(usize, usize, usize)> {
        let aligned = pieces(self.from).map(|piece| {
            let shift = (-self.before()).rem_euclid(piece as i32) as usize;
            (piece, shift, self.depth(shift))
        });
        aligned.min_by_key(|(_, _, depth)| *depth)
    }
}

/// The numbers of a row that can be copied at once, the most first.
pub fn pieces(width: usize) -> impl Iterator<Item = usize> {
    [8, 4, 2, 1].into_iter().filter(move |piece| width.is_multiple_of(*piece))
}

/// The rows and the columns.
pub fn axes(of: &ByChannel) -> [Axis; 2] {
    [1, 2].map(|axis| Axis::of(of, axis))
}

/// The distance of neighbouring lines in shared memory, for a number of columns that 8 divides. With it, the rows of a
/// tile begin in different banks.
pub fn pitch(columns: usize) -> usize {
    if columns % 16 == 8 { columns } else { columns + 8 }
}

/// How a block's threads share out lines of planes. Twin of the struct in `kernels/convolution/planes.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Lines {
    rows: Divisor,
    columns: i32,
    pitch: i32,
    apart: i32,
    threads: Divisor,
    at_once: i32,
    planes_on: i32,
    rows_on: i32,
}

impl Lines {
    /// Lines of so many columns, which are copied in pieces. In shared memory a line has `pitch` numbers, and a class
    /// has `apart` lines.
    pub fn new([rows, columns]: [usize; 2], piece: usize, [apart, pitch]: [usize; 2]) -> Self {
        let threads = (columns / piece).min(THREADS);
        let at_once = THREADS / threads;
        Self {
            rows: Divisor::new(rows),
            columns: columns as i32,
            pitch: pitch as i32,
            apart: apart as i32,
            threads: Divisor::new(threads),
            at_once: at_once as i32,
            planes_on: (at_once / rows) as i32,
            rows_on: (at_once % rows) as i32,
        }
    }
}
