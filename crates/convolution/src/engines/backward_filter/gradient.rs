//! What is to be computed, and what of it a block of the kernel has.

use cudnn_abi::*;

use crate::engines::elements;

/// Of c, where these are many, what a block works on, as `kernels/backward_filter.cu` has it; and of k.
pub(super) const C_TILE: usize = 64;
pub(super) const K_TILE: usize = 64;
/// Of k, where floats are multiplied as such: registers hold two numbers for each factor.
const EXACT_K_TILE: usize = 32;
/// The same for filters of one place, where k are many.
pub(super) const EXACT_K_TILE_OF_ONE_PLACE: usize = 128;
/// Warps that share a block's k there, where filters have one place.
const K_WARPS_OF_ONE_PLACE: usize = 4;
/// Rows of the filters of few channels, over all channels, that a block has at most: eight for a warp of each kind.
const MOST_FEW_ROWS: usize = 24;
/// The most k, or c, with which a filter of one place is computed fast: it is a product of matrices as they are stored, which
/// cuDNN's engines are fast at unless one of them has few rows.
const MOST_ROWS_OF_ONE_PLACE: usize = 32;
/// Rows and columns of the filters of more channels that a block has at most, unless it has one row.
const MOST_SIDE_OF_A_BLOCK: usize = 3;
/// Warps for parts of a tile's pixels, where channels are few, as there.
const PIXEL_WARPS: usize = 4;

/// A gradient: dw\[k\]\[c\]\[r\]\[s\] = Σ over n, p, q of dy\[n\]\[k\]\[p\]\[q\] ·
/// x\[n\]\[c\]\[p · stride + r - padding\]\[q · stride + s - padding\], of packed tensors in NCHW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterGradient {
    /// Of all three tensors: half, bfloat16, or float.
    pub data_type: cudnnDataType_t,
    /// Whether floats are multiplied as such, and not in TF32. Of no other type.
    pub is_exact: bool,
    /// n
    pub images: usize,
    /// k: dy's channels.
    pub k: usize,
    /// c: x's channels.
    pub c: usize,
    /// Rows and columns of x.
    pub x: [usize; 2],
    /// Rows p and columns q of dy.
    pub dy: [usize; 2],
    /// Rows r and columns s of the filter.
    pub filter: [usize; 2],
    /// Both ways.
    pub stride: usize,
    /// Zeros on all sides of x.
    pub padding: usize,
}

impl FilterGradient {
    /// Whether x has so few channels that columns of the product are rows of the filter.
    pub(super) fn has_few_channels(&self) -> bool {
        self.c.saturating_mul(self.filter[0]) <= MOST_FEW_ROWS
    }

    /// Whether cuDNN's engines on tensor cores are not faster, if they have room.
    pub fn is_fast(&self) -> bool {
        // Single elements of two bytes are waited for.
        let is_copied = |width: usize| (width * self.element()).is_multiple_of(size_of::<u32>());
        let is_one_place = self.filter == [1, 1];
        let is_product = is_one_place && !self.is_exact && self.k.min(self.c) > MOST_ROWS_OF_ONE_PLACE;
        !is_product && is_copied(self.x[1]) && is_copied(self.dy[1])
    }

    /// Whether the kernel computes it: its sums are in registers.
    pub(super) fn is_for_us(&self) -> bool {
        let [rows, columns] = self.filter;
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let most = if self.has_few_channels() { 7 } else { 5 };
        let is_of_x = |axis: usize| {
            let beyond = (self.x[axis] + 2 * self.padding).checked_sub(self.filter[axis]);
            beyond.is_some_and(|beyond| self.dy[axis] == beyond / self.stride + 1)
        };
        let counts = [&[self.images][..], &self.x, &self.dy, &[self.k, self.c, rows, columns]].map(product);
        // What is beside a tensor is counted too.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 30).contains(&count));
        elements::TYPES.contains(&self.data_type)
            && rows.max(columns) <= most
            && (!self.is_exact || self.data_type == CUDNN_DATA_FLOAT)
            && !(2..4).contains(&(rows * columns))
            && (1..=2).contains(&self.stride)
            && self.padding < rows.min(columns)
            && counts.into_iter().all(is_counted)
            && is_of_x(0)
            && is_of_x(1)
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> usize {
        elements::bytes(self.data_type)
    }

    /// Values of dw.
    pub(super) fn elements(&self) -> usize {
        self.k * self.c * self.filter[0] * self.filter[1]
    }

    /// Of k, what a block works on, unless there are to be more blocks.
    pub(super) fn k_tile(&self) -> usize {
        match (self.is_exact, self.k_warps()) {
            (true, 1) => EXACT_K_TILE,
            (true, _) if self.k > K_TILE => EXACT_K_TILE_OF_ONE_PLACE,
            _ => K_TILE,
        }
    }

    /// Warps that share a block's k.
    pub(super) fn k_warps(&self) -> usize {
        if self.is_exact && !self.has_few_channels() && self.filter == [1, 1] { K_WARPS_OF_ONE_PLACE } else { 1 }
    }

    /// Products that one is computed by.
    pub(super) fn products(&self) -> usize {
        if self.is_exact { 3 } else { 1 }
    }

    /// Blocks of so many k that share no sum.
    pub(super) fn blocks(&self, k_tile: usize) -> usize {
        let c_tiles = if self.has_few_channels() { 1 } else { self.c.div_ceil(C_TILE) };
        self.k.div_ceil(k_tile) * c_tiles * (self.filter[0] / self.block_rows())
    }

    /// Rows of the filter that a block has: all whose sums registers hold, or one.
    pub(super) fn block_rows(&self) -> usize {
        let [rows, columns] = self.filter;
        if self.has_few_channels() || rows.max(columns) <= MOST_SIDE_OF_A_BLOCK { rows } else { 1 }
    }

    /// Columns of a block's product, without those that shift x.
    pub(super) fn columns(&self) -> usize {
        if self.has_few_channels() { (self.c * self.filter[0]).next_multiple_of(8) } else { C_TILE * self.block_rows() }
    }

    /// Warps of a block that have the same columns.
    pub(super) fn pixel_warps(&self) -> usize {
        if self.has_few_channels() { PIXEL_WARPS } else { 1 }
    }

    /// Of a block.
    pub(super) fn threads(&self) -> usize {
        self.summing_threads() * self.pixel_warps()
    }

    /// Those that have a block's sums in the end.
    pub(super) fn summing_threads(&self) -> usize {
        32 * if self.has_few_channels() { self.columns() / 8 } else { C_TILE / 8 }
    }
}
