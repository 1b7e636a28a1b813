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
const MOST_PLACES: usize = 25;
const MOST_STRIDE: usize = 4;
/// The largest dilation, which is compiled.
const MOST_DILATION: usize = 256;
/// With fewer channels on either side, most of a block would be idle.
const LEAST_DEPTH: usize = 16;
const LEAST_ROWS: usize = 32;
/// Groups are joined, and have little to compute: they need fewer.
const LEAST_OF_GROUP: usize = 2;

/// A correlation of packed images and filters in groups: out\[n\]\[g\]\[m\]\[p\]\[q\] = Σ over d, r, s of
/// v\[g\]\[m\]\[d\]\[r\]\[s\] · in\[n\]\[g\]\[d\]\[p · stride + r · dilation - padding\]\[q · stride + s · dilation -
/// padding\], with a stride, dilation and padding for rows and others for columns. For a convolution v is its filter w.
/// For an input gradient m counts the inputs of a group and d its outputs, v\[g\]\[m\]\[d\] is w\[g\]\[d\]\[m\] with rows
/// and columns reversed, and the padding is the filter's reach beyond the convolution's padding.
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
    /// Rows and columns of the images read.
    pub from: [usize; 2],
    /// Rows p and columns q of the images written.
    pub to: [usize; 2],
    /// Rows r and columns s of the filter, and so on.
    pub filter: [usize; 2],
    /// 1 for a gradient.
    pub stride: [usize; 2],
    /// The zeros above the images and on their left.
    pub padding: [usize; 2],
    pub dilation: [usize; 2],
}

impl Computed for GroupedCorrelation {
    fn of(of: &Convolution) -> Result<Self, Refusal> {
        let Convolution { element, is_exact, direction, images, inputs, outputs, groups, .. } = *of;
        let is_gradient = match direction {
            Direction::Forward => false,
            Direction::BackwardData => true,
            Direction::BackwardFilter => return Err(Refusal("a filter's gradient")),
        };
        let [first, second] = plane_of(of)?;
        let of_axes = |values: [usize; 3]| [first, second].map(|axis| values[axis.last]);
        let size = |sizes: [usize; 3]| [first, second].map(|axis| axis.size(sizes));
        let (filter, stride, dilation) = (of_axes(of.filter), of_axes(of.stride), of_axes(of.dilation));
        let (mut padding, [mut from, mut to]) = (of_axes(of.padding), [of.x, of.y].map(size));
        let [mut depth, mut rows] = [inputs, outputs].map(|channels| channels / groups.max(1));
        if is_gradient {
            if stride != [1; 2] {
                return Err(Refusal("strides of an input gradient"));
            }
            for axis in 0..2 {
                let reach = dilation[axis].saturating_mul(filter[axis].saturating_sub(1));
                let beyond = reach.checked_sub(padding[axis]);
                padding[axis] = beyond.ok_or(Refusal("a padding as large as the filter"))?;
            }
            std::mem::swap(&mut from, &mut to);
            std::mem::swap(&mut depth, &mut rows);
        }
        Ok(Self {
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
        })
    }

    fn convolution(&self) -> Convolution {
        let Self { element, is_exact, is_gradient, images, groups, filter, stride, dilation, .. } = *self;
        let plane = |[rows, columns]: [usize; 2], slices| [slices, rows, columns];
        let forward = Convolution {
            element,
            is_exact,
            direction: Direction::Forward,
            images,
            inputs: groups * self.depth,
            outputs: groups * self.rows,
            groups,
            x: plane(self.from, 1),
            y: plane(self.to, 1),
            filter: plane(filter, 1),
            stride: plane(stride, 1),
            padding: plane(self.padding, 0),
            dilation: plane(dilation, 1),
        };
        if !is_gradient {
            return forward;
        }
        let padding = [0, 1].map(|axis| self.reach(axis) - self.padding[axis]);
        let Convolution { inputs, outputs, x, y, .. } = forward;
        let (direction, padding) = (Direction::BackwardData, plane(padding, 0));
        Convolution { direction, inputs: outputs, outputs: inputs, x: y, y: x, padding, ..forward }
    }
}

/// Axes of a volume that are one axis of an image: `first` to `last`. The filter has one place along all but the last.
#[derive(Clone, Copy)]
struct Axes {
    first: usize,
    last: usize,
}

impl Axes {
    fn size(self, sizes: [usize; 3]) -> usize {
        sizes[self.first..=self.last].iter().fold(1, |product: usize, size| product.saturating_mul(*size))
    }
}

/// Returns which axes of a convolution are the rows and the columns of images that lie in memory alike. The filter does
/// nothing along the others.
fn plane_of(of: &Convolution) -> Result<[Axes; 2], Refusal> {
    let Convolution { x, y, filter, stride, padding, .. } = *of;
    let is_idle = |axis: usize| [filter[axis], stride[axis], padding[axis]] == [1, 1, 0] && x[axis] == y[axis];
    let axes = |first, last| Axes { first, last };
    if is_idle(0) && (x[0] == 1 || is_idle(1)) {
        // Where only columns are filtered, the slices' rows follow one another.
        Ok([axes(0, 1), axes(2, 2)])
    } else if is_idle(1) && is_idle(2) {
        Ok([axes(0, 0), axes(1, 2)])
    } else {
        Err(Refusal("a filter over slices"))
    }
}

impl GroupedCorrelation {
    /// Returns whether the kernel supports the correlation, and has enough work in it.
    pub fn is_for_us(&self) -> bool {
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let Self { images, groups, depth, rows, from, to, filter, stride, dilation, .. } = *self;
        // The kernel also counts positions beside a tensor, so the lengths leave room for them.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 31).contains(&count));
        let is_small = |lengths: &[usize; 2]| lengths.iter().all(|length| *length < 1 << 28);
        let counts = [
            product(&[groups, rows, depth, filter[0], filter[1]]),
            product(&[images, groups, depth, from[0], from[1]]),
            product(&[images, groups, rows, to[0], to[1]]),
        ];
        let is_within = |values: &[usize; 2], most: usize| values.iter().all(|value| (1..=most).contains(value));
        let [least_depth, least_rows] = if groups == 1 { [LEAST_DEPTH, LEAST_ROWS] } else { [LEAST_OF_GROUP; 2] };
        (!self.is_exact || self.element == Element::Float)
            && is_within(&filter, MOST_PLACES)
            && self.places() <= MOST_PLACES
            && is_within(&stride, MOST_STRIDE)
            && is_within(&dilation, MOST_DILATION)
            && (0..2).all(|axis| self.padding[axis] <= self.reach(axis))
            && !(self.is_gradient && stride != [1; 2])
            && depth >= least_depth
            && rows >= least_rows
            && is_small(&from)
            && is_small(&to)
            && counts.into_iter().all(is_counted)
    }

    /// Returns whether it is one of the correlations for which cuDNN's engines are known to be fast: of one group, by a
    /// square filter whose places are neighbours.
    pub fn is_usual(&self) -> bool {
        let Self { groups, filter, stride, padding, dilation, .. } = *self;
        let is_square = [filter, stride, padding].iter().all(|[rows, columns]| rows == columns);
        groups == 1 && is_square && (dilation == [1; 2] || filter == [1; 2])
    }

    /// The same correlation over images of a single row if the kernel need not tell rows apart.
    pub fn flattened(self) -> Self {
        let one_row = |[rows, columns]: [usize; 2]| [1, rows * columns];
        match (self.filter, self.stride) {
            ([1, 1], [1, 1]) if self.from == self.to => {
                Self { from: one_row(self.from), to: one_row(self.to), dilation: [1; 2], ..self }
            }
            _ => self,
        }
    }

    /// How far the filter reaches from its first row or column to its last.
    fn reach(&self, axis: usize) -> usize {
        (self.filter[axis] - 1) * self.dilation[axis]
    }

    pub fn places(&self) -> usize {
        self.filter[0] * self.filter[1]
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

    /// The matrices of rows that a warp has: so many that few rows are idle, and images are read for few blocks.
    pub fn row_matrices(&self) -> usize {
        let step = self.row_step();
        let cost = |matrices: usize| self.rows.div_ceil(matrices * step) * (matrices + 1);
        let most = MOST_MATRICES * M_MMA / step;
        (1..=most).rev().min_by_key(|matrices| cost(*matrices)).unwrap_or(most)
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
