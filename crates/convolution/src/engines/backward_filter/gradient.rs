//! What of a gradient the kernel computes, and the share of one block.

use crate::engines::backward_filter::parts::M_MMA;
use crate::engines::problem::FilterGradient;
use gpu::Element;

/// The c of a block's tile where c are many, and the k of a tile, as in `kernels/convolution/backward_filter.cu`.
pub(super) const C_TILE: usize = 64;
pub(super) const K_TILE: usize = 64;
/// The k of a tile for exact float products, whose factors occupy two registers each.
const EXACT_K_TILE: usize = 32;
/// The k of a tile for exact float products of 1 × 1 filters with many k.
pub(super) const EXACT_K_TILE_OF_ONE_PLACE: usize = 128;
/// The warps that share a block's k for exact float products of 1 × 1 filters.
const K_WARPS_OF_ONE_PLACE: usize = 4;
/// The most filter rows over all channels for x to count as having few channels; a warp takes eight of the rows.
const MOST_FEW_ROWS: usize = 24;
/// The largest k, or c, for which our kernel is fast with 1 × 1 filters. Their gradient is a product of the matrices as
/// stored, which cuDNN's engines compute fast unless one matrix has few rows.
const MOST_ROWS_OF_ONE_PLACE: usize = 32;
/// The most filter rows and columns of a block with more channels, unless the block has one row.
const MOST_SIDE_OF_A_BLOCK: usize = 3;
/// The most matrices of k that a warp has for small groups that share a block, for exact float products and for others:
/// registers hold no more sums.
const MOST_MATRICES: [usize; 2] = [2, 4];
/// Groups need this many channels on either side: most of a block would be idle with fewer.
const LEAST_OF_GROUP: usize = 2;
/// The warps that share a tile's pixels where channels are few, as in `kernels/convolution/backward_filter.cu`.
const PIXEL_WARPS: usize = 4;

impl FilterGradient {
    /// Returns whether x has so few channels that each column of the product is a filter row.
    pub(super) fn has_few_channels(&self) -> bool {
        self.groups == 1 && self.c.saturating_mul(self.filter[0]) <= MOST_FEW_ROWS
    }

    /// Returns whether our kernel is at least as fast as cuDNN's tensor core engines with enough workspace.
    pub fn is_fast(&self) -> bool {
        // The kernel copies single elements of two bytes synchronously, which is slow.
        let is_copied = |width: usize| (width * self.element.bytes()).is_multiple_of(size_of::<u32>());
        let is_one_place = self.filter == [1, 1];
        let is_product =
            is_one_place && self.groups == 1 && !self.is_exact && self.k.min(self.c) > MOST_ROWS_OF_ONE_PLACE;
        !is_product && is_copied(self.x[1]) && is_copied(self.dy[1])
    }

    /// Returns whether the kernel supports the gradient. Its sums must fit in registers.
    pub fn is_for_us(&self) -> bool {
        let [rows, columns] = self.filter;
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let most = if self.has_few_channels() { 7 } else { 5 };
        let is_of_x = |axis: usize| {
            let beyond = (self.x[axis] + 2 * self.padding).checked_sub(self.filter[axis]);
            beyond.is_some_and(|beyond| self.dy[axis] == beyond / self.stride + 1)
        };
        let images = [self.images, self.slices.count];
        let filters = [self.groups, self.k, self.c, self.slices.filter, rows, columns];
        let counts = [&images[..], &self.x, &self.dy, &filters].map(product);
        // The kernel also counts positions beside a tensor, so the limit leaves room for them.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 30).contains(&count));
        rows.max(columns) <= most
            && (!self.is_exact || self.element == Element::Float)
            && !(2..4).contains(&(rows * columns))
            && (1..=2).contains(&self.stride)
            && self.padding < rows.min(columns)
            && (self.groups == 1 || self.k.min(self.c) >= LEAST_OF_GROUP)
            && counts.into_iter().all(is_counted)
            && is_of_x(0)
            && is_of_x(1)
    }

    /// The number of values in dw.
    pub fn elements(&self) -> usize {
        self.groups * self.k * self.c * self.slices.filter * self.filter[0] * self.filter[1]
    }

    /// The k of a block's tile, unless smaller tiles should give more blocks.
    pub(super) fn k_tile(&self) -> usize {
        if let Some(joined) = self.joined() {
            return (0..C_WARPS).map(|warp| joined.first_k(warp)).max().unwrap_or(0) + joined.k_matrices() * M_MMA;
        }
        let tile = match (self.is_exact, self.k_warps()) {
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
        let (most, matrices) = ((C_TILE / self.c).min(K_TILE / self.k), MOST_MATRICES[usize::from(!self.is_exact)]);
        let of_groups = |groups| Joined { groups, k: self.k, c: self.c };
        (2..=most.min(self.groups)).rev().map(of_groups).find(|joined| joined.k_matrices() <= matrices)
    }

    /// The warps that share a block's k.
    pub(super) fn k_warps(&self) -> usize {
        let has_many = self.is_exact && !self.has_few_channels() && self.groups == 1;
        if has_many && self.filter == [1, 1] { K_WARPS_OF_ONE_PLACE } else { 1 }
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
        tiles.saturating_mul(self.filter[0] / self.block_rows())
    }

    /// The filter rows of a block: all if registers hold their sums, and else one.
    pub(super) fn block_rows(&self) -> usize {
        let [rows, columns] = self.filter;
        if self.has_few_channels() || rows.max(columns) <= MOST_SIDE_OF_A_BLOCK { rows } else { 1 }
    }

    /// The columns of a block's product, not counting filter columns.
    pub(super) fn columns(&self) -> usize {
        if self.has_few_channels() { (self.c * self.filter[0]).next_multiple_of(8) } else { C_TILE * self.block_rows() }
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
