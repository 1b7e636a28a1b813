//! What of a gradient the kernel computes, and the share of one block.

use crate::engines::problem::{Computed, Convolution, Refusal};
use cudnn::convolution::Direction;
use gpu::Element;

/// The c of a block's tile where c are many, and the k of a tile, as in `kernels/convolution/backward_filter.cu`.
pub(super) const C_TILE: usize = 64;
pub(super) const K_TILE: usize = 64;
/// The rows of a tensor core's matrix of dy, one for each k.
pub(super) const M_MMA: usize = 16;
/// The k of a tile for exact float products, whose factors occupy two registers each.
const EXACT_K_TILE: usize = 32;
/// The k of a tile for exact float products of 1 × 1 filters with many k.
pub(super) const EXACT_K_TILE_OF_ONE_PLACE: usize = 128;
/// The warps that share a block's k for exact float products of 1 × 1 filters.
const K_WARPS_OF_ONE_PLACE: usize = 4;
/// The most filter rows over all channels for x to count as having few channels; a warp takes eight of the rows.
const MOST_FEW_ROWS: usize = 24;
/// The most rows of such a filter.
const MOST_ROWS_OF_FEW: usize = 7;
/// The largest k, or c, for which our kernel is fast with 1 × 1 filters. Their gradient is a product of the matrices as
/// stored, which cuDNN's engines compute fast unless one matrix has few rows.
const MOST_ROWS_OF_ONE_PLACE: usize = 32;
/// The most filter rows and columns of a block with more channels, unless the block has one row.
const MOST_SIDE_OF_A_BLOCK: usize = 3;
/// The most matrices of k that a warp has for small groups that share a block, for exact float products and for others:
/// registers hold no more sums.
const MOST_MATRICES: [usize; 2] = [2, 4];
/// The most of x's columns that a filter's row spans: for few channels of images, and else. With more, registers spill,
/// unless each place has a part of x of its own.
const MOST_SPANNED: [usize; 2] = [7, 5];
/// The most places of a row that a block has then, for exact float products and for others, and the most matrices of sums
/// of a warp.
const MOST_SEPARATE: [usize; 2] = [4, 8];
const MOST_SEPARATE_MATRICES: usize = 20;
/// The least channels on either side for these: a block has as many columns as otherwise.
const LEAST_OF_SEPARATE: usize = 8;
/// Those with which registers hold all rows of the filter.
const MOST_SPANNED_BY_ROWS: usize = 3;
/// The most places of a filter along other axes, and the largest dilation, which is compiled.
const MOST_PLACES_ACROSS: usize = 32;
const MOST_DILATION: usize = 256;
/// The largest stride along the columns, by which a lane's reads are laid out, and along others.
const MOST_STRIDES: [usize; 2] = [2, 4];
/// The kernel counts elements and positions below this, also positions beside a tensor.
const MOST_COUNTED: usize = 1 << 30;
/// Groups need this many channels on either side: most of a block would be idle with fewer.
const LEAST_OF_GROUP: usize = 2;
/// The warps that share a tile's pixels where channels are few, as in `kernels/convolution/backward_filter.cu`.
const PIXEL_WARPS: usize = 4;

/// A filter gradient: dw\[g\]\[k\]\[c\]\[t\]\[r\]\[s\] = Σ over n, z, p, q of dy\[n\]\[g\]\[k\]\[z\]\[p\]\[q\] ·
/// x\[n\]\[g\]\[c\]\[z · stride + t · dilation - padding\]\[p · stride + r · dilation - padding\]\[q · stride + s ·
/// dilation - padding\], for packed tensors, with a stride, dilation and padding for each axis. Images that are no volumes
/// have one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedGradient {
    /// The type of all three tensors.
    pub element: Element,
    /// Floats are multiplied exactly, not in TF32. False for other types.
    pub is_exact: bool,
    /// n
    pub images: usize,
    /// g
    pub groups: usize,
    /// k: a group's channels of dy.
    pub k: usize,
    /// c: a group's channels of x.
    pub c: usize,
    /// Slices, rows and columns of x.
    pub x: [usize; 3],
    /// Slices z, rows p and columns q of dy.
    pub dy: [usize; 3],
    /// Slices t, rows r and columns s of the filter, and so on.
    pub filter: [usize; 3],
    pub stride: [usize; 3],
    /// The zeros in front of x, above it and on its left.
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Computed for GroupedGradient {
    fn of(of: &Convolution) -> Result<Self, Refusal> {
        let Convolution { element, is_exact, images, groups, x, y: dy, filter, stride, padding, dilation, .. } = *of;
        let is_gradient = of.direction == Direction::BackwardFilter;
        Refusal::unless([(is_gradient, "a result that is no filter's gradient")])?;
        let [k, c] = [of.outputs, of.inputs].map(|channels| channels / groups.max(1));
        Ok(Self { element, is_exact, images, groups, k, c, x, dy, filter, stride, padding, dilation })
    }

    fn convolution(&self) -> Convolution {
        let Self { element, is_exact, images, groups, k, c, x, dy, filter, stride, padding, dilation } = *self;
        Convolution {
            element,
            is_exact,
            direction: Direction::BackwardFilter,
            images,
            inputs: groups * c,
            outputs: groups * k,
            groups,
            x,
            y: dy,
            filter,
            stride,
            padding,
            dilation,
        }
    }
}

impl GroupedGradient {
    /// Returns whether x has so few channels that each column of the product is a filter row.
    pub(super) fn has_few_channels(&self) -> bool {
        self.may_have_few_channels() && !self.is_separate()
    }

    fn may_have_few_channels(&self) -> bool {
        let [_, rows, _] = self.filter;
        self.groups == 1 && rows <= MOST_ROWS_OF_FEW && self.c.saturating_mul(rows) <= MOST_FEW_ROWS
    }

    /// Returns whether each place of the filter's rows has a part of x of its own: registers do not hold what a row
    /// spans. Exact products of columns that lie apart would spill them, too.
    pub(super) fn is_separate(&self) -> bool {
        let most = MOST_SPANNED[usize::from(!(self.may_have_few_channels() && self.is_flat()))];
        self.reach(2) >= most || self.is_exact && self.reach(2) >= self.filter[2]
    }

    /// The places of a filter's row that a block has.
    pub(super) fn block_columns(&self) -> usize {
        if self.is_separate() { self.filter[2].min(MOST_SEPARATE[usize::from(!self.is_exact)]) } else { self.filter[2] }
    }

    /// The most matrices of k whose sums registers hold beside those of other places in a row.
    fn most_matrices(&self) -> usize {
        if self.is_separate() { MOST_SEPARATE_MATRICES / self.block_columns() } else { usize::MAX }
    }

    /// Returns whether our kernel is at least as fast as cuDNN's tensor core engines with enough workspace.
    pub fn is_fast(&self) -> bool {
        // The kernel copies single elements of two bytes synchronously, which is slow.
        let is_copied = |width: usize| (width * self.element.bytes()).is_multiple_of(size_of::<u32>());
        let is_one_place = self.filter == [1; 3];
        let is_product =
            is_one_place && self.groups == 1 && !self.is_exact && self.k.min(self.c) > MOST_ROWS_OF_ONE_PLACE;
        !is_product && is_copied(self.x[2]) && is_copied(self.dy[2])
    }

    /// Returns whether the kernel supports the gradient. Its sums must fit in registers.
    pub fn is_for_us(&self) -> bool {
        let Self { images, groups, k, c, filter, stride, dilation, .. } = *self;
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let [z, ..] = self.dy;
        let filters = [groups, k, c, filter[0], filter[1], filter[2]];
        let counts = [&[images, z][..], &self.x, &self.dy, &filters].map(product);
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..MOST_COUNTED).contains(&count));
        let is_within = |values: &[usize; 3], most: usize| values.iter().all(|value| (1..=most).contains(value));
        let [most_across, most_along] = MOST_STRIDES;
        let end = |axis: usize| self.dy[axis].saturating_mul(stride[axis]).saturating_add(self.reach(axis));
        (!self.is_exact || self.element == Element::Float)
            && is_within(&filter, MOST_PLACES_ACROSS)
            && is_within(&dilation, MOST_DILATION)
            && is_within(&stride, most_along)
            && stride[2] <= most_across
            && (!self.is_separate() || groups > 1 || k.min(c) >= LEAST_OF_SEPARATE)
            && (0..3).all(|axis| self.padding[axis] <= self.reach(axis) && end(axis) < MOST_COUNTED)
            && (groups == 1 || k.min(c) >= LEAST_OF_GROUP)
            && counts.into_iter().all(is_counted)
    }

    /// Returns whether images have one slice.
    pub(super) fn is_flat(&self) -> bool {
        [self.filter[0], self.x[0], self.dy[0]] == [1; 3]
    }

    /// How far the filter reaches from its first place on an axis to its last.
    fn reach(&self, axis: usize) -> usize {
        self.filter[axis].saturating_sub(1).saturating_mul(self.dilation[axis])
    }

    /// The number of values in dw.
    pub fn elements(&self) -> usize {
        self.groups * self.k * self.c * self.filter.iter().product::<usize>()
    }

    /// The k of a block's tile, unless smaller tiles should give more blocks.
    pub(super) fn k_tile(&self) -> usize {
        if let Some(joined) = self.joined() {
            return (0..C_WARPS).map(|warp| joined.first_k(warp)).max().unwrap_or(0) + joined.k_matrices() * M_MMA;
        }
        let tile = match (self.is_exact, self.k_warps()) {
            _ if self.most_matrices() < K_TILE / M_MMA => EXACT_K_TILE,
            (true, 1) => EXACT_K_TILE,
            (true, _) if self.k > K_TILE => EXACT_K_TILE_OF_ONE_PLACE,
            _ => K_TILE,
        };
        if self.groups == 1 { tile } else { tile.min(self.k.next_multiple_of(M_MMA)) }
    }

    /// The small groups whose channels share a block's tile, if several do.
    pub(super) fn joined(&self) -> Option<Joined> {
        if self.groups == 1 || self.k.min(self.c) < LEAST_OF_GROUP {
            return None;
        }
        let matrices = MOST_MATRICES[usize::from(!self.is_exact)].min(self.most_matrices());
        let most = (C_TILE / self.c).min(K_TILE / self.k);
        let of_groups = |groups| Joined { groups, k: self.k, c: self.c };
        (2..=most.min(self.groups)).rev().map(of_groups).find(|joined| joined.k_matrices() <= matrices)
    }

    /// The warps that share a block's k.
    pub(super) fn k_warps(&self) -> usize {
        let has_many = self.is_exact && !self.has_few_channels() && self.groups == 1;
        if has_many && self.filter == [1; 3] { K_WARPS_OF_ONE_PLACE } else { 1 }
    }

    /// The tensor core products for each product.
    pub(super) fn products(&self) -> usize {
        if self.is_exact { 3 } else { 1 }
    }

    /// The blocks with separate sums, at `k_tile` k for each block.
    pub(super) fn blocks(&self, k_tile: usize) -> usize {
        let c_tiles = if self.has_few_channels() { 1 } else { self.c.div_ceil(C_TILE) };
        let tiles = match self.joined() {
            Some(joined) => self.groups.div_ceil(joined.groups),
            None => self.groups.saturating_mul(self.k.div_ceil(k_tile) * c_tiles),
        };
        let columns = self.filter[2].div_ceil(self.block_columns());
        tiles.saturating_mul(self.filter[0] * (self.filter[1] / self.block_rows()) * columns)
    }

    /// The filter rows of a block: all if registers hold their sums, and else one.
    pub(super) fn block_rows(&self) -> usize {
        let rows = self.filter[1];
        let is_small = rows <= MOST_SIDE_OF_A_BLOCK && self.reach(2) < MOST_SPANNED_BY_ROWS && !self.is_separate();
        // Rows that lie apart would take as much shared memory as the rows between them.
        if self.has_few_channels() || is_small && self.dilation[1] == 1 { rows } else { 1 }
    }

    /// The columns of a block's product, not counting filter columns.
    pub(super) fn columns(&self) -> usize {
        if self.has_few_channels() { (self.c * self.filter[1]).next_multiple_of(8) } else { C_TILE * self.block_rows() }
    }

    /// The warps of a block that share the same columns.
    pub(super) fn pixel_warps(&self) -> usize {
        if self.has_few_channels() { PIXEL_WARPS } else { 1 }
    }

    /// The threads of a block.
    pub(super) fn threads(&self) -> usize {
        self.summing_threads() * self.pixel_warps()
    }

    /// The threads that hold a block's sums at the end.
    pub(super) fn summing_threads(&self) -> usize {
        32 * if self.has_few_channels() { self.columns() / 8 } else { C_TILE / 8 }
    }
}

/// The warps of a block, each of which has eight of its c, where c are many.
const C_WARPS: usize = C_TILE / OF_WARP;
const OF_WARP: usize = 8;

/// Small groups that share a block's tile, one after the other. A warp has eight c, and the k of their groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    pub groups: usize,
    /// A group's k, and its c.
    pub k: usize,
    pub c: usize,
}

impl Joined {
    /// The group of one of the c of a block. Those behind the last group's count as its last.
    fn group_of(&self, c: usize) -> usize {
        c.min(self.groups * self.c - 1) / self.c
    }

    /// The first k of a warp, as in the kernel.
    fn first_k(&self, warp: usize) -> usize {
        self.group_of(warp * OF_WARP) * self.k
    }

    /// The matrices of k that each warp has.
    pub fn k_matrices(&self) -> usize {
        let groups = |warp: usize| self.group_of(warp * OF_WARP + OF_WARP - 1) - self.group_of(warp * OF_WARP) + 1;
        (0..C_WARPS).map(|warp| (groups(warp) * self.k).div_ceil(M_MMA)).max().unwrap_or(1)
    }
}
