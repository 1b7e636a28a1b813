//! The problems of the engine, and what of them the kernel computes.

use crate::engines::problem::{Computed, Convolution, Refusal};
use cudnn::convolution::Direction;
use gpu::Element;

/// The channels of one step for 1 × 1 filters; for larger filters the bytes of one tensor core depth.
const DEPTH_OF_ONE_PLACE: usize = 32;
const DEPTH_BYTES: usize = 32;
/// The rows of one matrix of tensor cores.
const M_MMA: usize = 16;
/// The most rows of a block's product, in matrices.
const MOST_MATRICES: usize = 4;
/// The largest filters, in places: shared memory cannot hold two depth steps of larger ones.
const MOST_PLACES: usize = 27;
const MOST_STRIDE: usize = 4;
/// The largest dilation, which is compiled.
const MOST_DILATION: usize = 256;
/// With fewer channels on either side, most of a block would be idle.
const LEAST_DEPTH: usize = 16;
const LEAST_ROWS: usize = 32;
/// Groups are joined, and have little to compute: they need fewer.
const LEAST_OF_GROUP: usize = 2;

/// A correlation of packed images and filters in groups: out\[n\]\[g\]\[m\]\[z\]\[p\]\[q\] = Σ over d, t, r, s of
/// v\[g\]\[m\]\[d\]\[t\]\[r\]\[s\] · in\[n\]\[g\]\[d\]\[z · stride + t · dilation - padding\]\[p · stride + r ·
/// dilation - padding\]\[q · stride + s · dilation - padding\], with a stride, dilation and padding for each axis: slices,
/// rows and columns. Images that are no volumes have one slice. For a convolution v is its filter w. For an input gradient
/// m counts the inputs of a group and d its outputs, v\[g\]\[m\]\[d\] is w\[g\]\[d\]\[m\] with its axes reversed, and
/// the padding is the filter's reach beyond the convolution's padding. Strides divide there: in stands at (z + t · dilation
/// - padding) / stride, for the places for which this is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedCorrelation {
    /// The type of all three tensors.
    pub element: Element,
    /// Floats are multiplied exactly, not in TF32. False for other types.
    pub is_exact: bool,
    /// True for an input gradient, false for a convolution.
    pub is_gradient: bool,
    /// n
    pub images: usize,
    /// g
    pub groups: usize,
    /// d: a group's channels of the images read.
    pub depth: usize,
    /// m: a group's channels of the images written.
    pub rows: usize,
    /// Slices, rows and columns of the images read.
    pub from: [usize; 3],
    /// Slices z, rows p and columns q of the images written.
    pub to: [usize; 3],
    /// Slices t, rows r and columns s of the filter, and so on.
    pub filter: [usize; 3],
    pub stride: [usize; 3],
    /// The zeros in front of the images, above them and on their left.
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Computed for GroupedCorrelation {
    fn of(of: &Convolution) -> Result<Self, Refusal> {
        let Convolution { element, is_exact, direction, images, groups, filter, stride, padding, dilation, .. } = *of;
        let [inputs, outputs] = [of.inputs, of.outputs].map(|channels| channels / groups.max(1));
        let (is_gradient, [from, to], [depth, rows]) = match direction {
            Direction::Forward => (false, [of.x, of.y], [inputs, outputs]),
            Direction::BackwardData => (true, [of.y, of.x], [outputs, inputs]),
            Direction::BackwardFilter => return Err(Refusal("a filter's gradient")),
        };
        let convolution = Self {
            element,
            is_exact,
            is_gradient,
            images,
            groups,
            depth,
            rows,
            from,
            to,
            filter,
            stride,
            padding,
            dilation,
        };
        if !is_gradient {
            return Ok(convolution);
        }
        let beyond = [0, 1, 2].map(|axis| convolution.reach(axis).checked_sub(padding[axis]));
        let [Some(slices), Some(rows), Some(columns)] = beyond else {
            return Err(Refusal("a padding as large as the filter"));
        };
        Ok(Self { padding: [slices, rows, columns], ..convolution })
    }

    fn convolution(&self) -> Convolution {
        let Self { element, is_exact, is_gradient, images, groups, filter, stride, padding, dilation, .. } = *self;
        let forward = Convolution {
            element,
            is_exact,
            direction: Direction::Forward,
            images,
            inputs: groups * self.depth,
            outputs: groups * self.rows,
            groups,
            x: self.from,
            y: self.to,
            filter,
            stride,
            padding,
            dilation,
        };
        if !is_gradient {
            return forward;
        }
        let padding = [0, 1, 2].map(|axis| self.reach(axis) - padding[axis]);
        let Convolution { inputs, outputs, x, y, .. } = forward;
        let direction = Direction::BackwardData;
        Convolution { direction, inputs: outputs, outputs: inputs, x: y, y: x, padding, ..forward }
    }
}

impl GroupedCorrelation {
    /// Returns whether the kernel supports the correlation, and has enough work in it.
    pub fn is_for_us(&self) -> bool {
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let Self { images, groups, depth, rows, from, to, filter, stride, dilation, .. } = *self;
        // The kernel also counts positions beside a tensor, so the lengths leave room for them.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 31).contains(&count));
        let is_small = |lengths: &[usize; 3]| lengths.iter().all(|length| *length < 1 << 28);
        let counts = [
            product(&[groups, rows, depth, filter[0], filter[1], filter[2]]),
            product(&[images, groups, depth, from[0], from[1], from[2]]),
            product(&[images, groups, rows, to[0], to[1], to[2]]),
        ];
        let is_within = |values: &[usize; 3], most: usize| values.iter().all(|value| (1..=most).contains(value));
        let [least_depth, least_rows] = if groups == 1 { [LEAST_DEPTH, LEAST_ROWS] } else { [LEAST_OF_GROUP; 2] };
        (!self.is_exact || self.element == Element::Float)
            && is_within(&filter, MOST_PLACES)
            && self.places() <= MOST_PLACES
            && is_within(&stride, MOST_STRIDE)
            && is_within(&dilation, MOST_DILATION)
            && (0..3).all(|axis| self.padding[axis] <= self.reach(axis))
            && depth >= least_depth
            && rows >= least_rows
            && is_small(&from)
            && is_small(&to)
            && counts.into_iter().all(is_counted)
    }

    /// Returns whether it is one of the correlations for which cuDNN's engines are known to be fast: of images in one
    /// group, by a square filter whose places are neighbours.
    pub fn is_usual(&self) -> bool {
        let Self { groups, filter, stride, padding, dilation, .. } = *self;
        let is_square = [filter, stride, padding].iter().all(|[_, rows, columns]| rows == columns);
        groups == 1 && self.is_flat() && is_square && (dilation == [1; 3] || filter == [1; 3])
    }

    /// Returns whether images have one slice.
    pub fn is_flat(&self) -> bool {
        [self.filter[0], self.from[0], self.to[0]] == [1; 3]
    }

    /// The same correlation over images of fewer slices and rows, as far as the kernel need not tell these apart.
    pub fn flattened(self) -> Self {
        let Self { from, to, filter, stride, padding, .. } = self;
        let is_idle = |axis: usize| [filter[axis], stride[axis], padding[axis]] == [1, 1, 0] && from[axis] == to[axis];
        // Axes follow one another in memory. An idle axis is part of the one in front of it or behind it.
        let joined: fn([usize; 3]) -> [usize; 3] = match [0, 1, 2].map(is_idle) {
            [true, true, true] => |[slices, rows, columns]| [1, 1, slices * rows * columns],
            [true, true, false] => |[slices, rows, columns]| [1, slices * rows, columns],
            [false, true, true] => |[slices, rows, columns]| [slices, 1, rows * columns],
            _ => return self,
        };
        Self { from: joined(from), to: joined(to), ..self }
    }

    /// The neighbours on each axis that read the same pixels, and count as one cell.
    pub fn cell(&self) -> [usize; 3] {
        if self.is_gradient { self.stride } else { [1; 3] }
    }

    /// The cells of an image written.
    pub fn cells(&self) -> [usize; 3] {
        let cell = self.cell();
        [0, 1, 2].map(|axis| self.to[axis].div_ceil(cell[axis]))
    }

    /// How far apart the pixels are that neighbouring cells read.
    pub fn between_cells(&self) -> [usize; 3] {
        if self.is_gradient { [1; 3] } else { self.stride }
    }

    /// How far a cell reads in front of its first pixel, and behind it.
    pub fn read_around(&self, axis: usize) -> [usize; 2] {
        let (cell, padding) = (self.cell()[axis], self.padding[axis]);
        [padding / cell, (self.reach(axis) - padding).div_ceil(cell)]
    }

    /// How far the filter reaches from its first place on an axis to its last.
    fn reach(&self, axis: usize) -> usize {
        self.filter[axis].saturating_sub(1).saturating_mul(self.dilation[axis])
    }

    pub fn places(&self) -> usize {
        self.filter.iter().product()
    }

    /// The tensor core products for each product.
    pub fn products(&self) -> usize {
        if self.is_exact { 3 } else { 1 }
    }

    /// The consecutive filter elements of one channel.
    pub fn filters(&self) -> usize {
        self.places() * if self.is_gradient { self.rows } else { self.depth }
    }

    /// The channels d that the kernel has in shared memory at a time.
    pub fn depth_at_once(&self) -> usize {
        if self.places() == 1 { DEPTH_OF_ONE_PLACE } else { DEPTH_BYTES / self.element.bytes() }
    }

    /// The rows of one step of the tile's height: warps side by side have one matrix each.
    fn row_step(&self) -> usize {
        M_MMA * if self.places() == 1 { 2 } else { 1 }
    }

    /// The matrices of rows that a warp has: so many that few rows are idle, and images are read for few blocks. Registers
    /// hold their sums for each column of a cell.
    pub fn row_matrices(&self) -> usize {
        let step = self.row_step();
        let cost = |matrices: usize| self.rows.div_ceil(matrices * step) * (matrices + 1);
        let most = (MOST_MATRICES * M_MMA / step / self.cell()[2]).max(1);
        (1..=most).rev().min_by_key(|matrices| cost(*matrices)).unwrap_or(most)
    }

    /// The matrices of a warp's sums.
    pub fn sum_matrices(&self) -> usize {
        self.row_matrices() * self.cell()[2]
    }

    /// The rows of a block's product.
    pub fn row_tile(&self) -> usize {
        self.row_matrices() * self.row_step()
    }

    /// The small groups that a block has, all their channels at once.
    pub fn joined(&self) -> usize {
        let fitting = (self.row_tile() / self.rows).min(self.depth_at_once() / self.depth);
        fitting.clamp(1, self.groups)
    }

    /// The tiles of all channels written.
    pub fn row_tiles(&self) -> usize {
        match self.joined() {
            1 => self.groups.saturating_mul(self.rows.div_ceil(self.row_tile())),
            joined => self.groups.div_ceil(joined),
        }
    }

    /// Returns whether the kernel goes through all channels d in one step.
    pub fn has_one_step(&self) -> bool {
        self.joined() * self.depth <= self.depth_at_once()
    }
}
