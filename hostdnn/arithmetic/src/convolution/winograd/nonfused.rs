//! Forward and backward data in three stages over the whole batch: transform filter and tiles, multiply, transform back.
//!
//! The workspace holds, for each of the t² points of a tile, three matrices: the filter (destination × source channels),
//! the tiles (source channels × tiles) and the products (destination channels × tiles). Groups take turns in it.

use super::super::correlation::{Axis, Correlation};
use super::super::element::{Matrix as Strided, Real, Storage, multiply};
use super::super::memory::{Parts, Shared, parts_size};
use super::suits;
use super::tiles::{Taps, Tiles};
use super::transform::{F2x5, F4x3, LANES, Variant, transform};
use crate::tasks;
use pulp::Arch;
use std::ops::Range;

/// F(4×4, 3×3) or F(2×2, 5×5), whichever fits the filter's size.
pub struct Nonfused<S: Storage> {
    pub(super) job: Correlation<S>,
    pub(super) axes: [Axis; 3],
    pub(super) tiles: Tiles,
}

/// Points of a tile in one dimension, in both variants.
pub(super) const POINTS: usize = 6;
/// Blocks of tiles, and channels, in one task: few rows at a time, and work along them, touch few pages of memory.
const BLOCKS: usize = 64;
const CHANNELS: usize = 8;

/// Calls `work(blocks, channels)` for pieces of all blocks of tiles and channels.
fn for_pieces(blocks: usize, channels: usize, work: impl Fn(Range<usize>, Range<usize>) + Sync) {
    let across = blocks.div_ceil(BLOCKS);
    tasks::for_each(across * channels.div_ceil(CHANNELS), |_, task| {
        let (block, channel) = (task % across * BLOCKS, task / across * CHANNELS);
        work(block..blocks.min(block + BLOCKS), channel..channels.min(channel + CHANNELS));
    });
}

impl<S: Storage> Nonfused<S> {
    /// `None` if the geometry does not fit.
    pub fn new(job: Correlation<S>, axes: [Axis; 3]) -> Option<Self> {
        let outputs = [3, 5].into_iter().find(|&taps| suits(&axes, taps)).map(|taps| POINTS + 1 - taps)?;
        S::Real::HAS_TRANSFORMS.then(|| Self { tiles: Tiles::new(job.batch, &axes, outputs), job, axes })
    }

    fn parts(&self) -> Option<[usize; 3]> {
        let matrices =
            |rows: usize, columns: usize| rows.checked_mul(columns)?.checked_mul(POINTS * POINTS * size_of::<f32>());
        let tiles = self.tiles.leading();
        Some([
            matrices(self.job.rows, self.job.reduce.next_multiple_of(LANES))?,
            matrices(self.job.reduce, tiles)?,
            matrices(self.job.rows, tiles)?,
        ])
    }

    /// Bytes of workspace; `None` if no address space holds them.
    pub fn workspace_size(&self) -> Option<usize> {
        parts_size(&self.parts()?)
    }

    /// The three matrices in a workspace.
    pub(super) fn matrices(&self, workspace: *mut u8) -> [Shared<f32>; 3] {
        let mut workspace = Parts::new(workspace);
        self.parts().expect("sizes that were computed before").map(|bytes| workspace.take(bytes))
    }

    /// # Safety
    /// As for [`super::super::run`], with a workspace of [`Self::workspace_size`] bytes.
    pub unsafe fn run(&self, workspace: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.tiles.outputs {
                4 => self.run_as::<F4x3, 4, 3>(workspace),
                _ => self.run_as::<F2x5, 2, 5>(workspace),
            }
        }
    }

    unsafe fn run_as<V: Variant<POINTS, M, R>, const M: usize, const R: usize>(&self, workspace: *mut u8) {
        let [filter, tiles, products] = self.matrices(workspace);
        let arch = Arch::new();
        for group in 0..self.job.groups {
            // SAFETY: the parts have the sizes of their matrices; the stages follow one another.
            unsafe {
                transform_filter::<S, V, POINTS, M, R>(arch, &self.job, &self.axes, group, filter);
                self.transform_tiles::<V, M, R>(arch, group, tiles);
                self.multiply(filter, tiles, products);
                self.transform_products::<V, M, R>(arch, group, products);
            }
        }
    }

    unsafe fn transform_tiles<V: Variant<POINTS, M, R>, const M: usize, const R: usize>(
        &self,
        arch: Arch,
        group: usize,
        to: Shared<f32>,
    ) {
        let leading = self.tiles.leading();
        // SAFETY: the caller's promise.
        unsafe {
            load_tiles::<S, V::Input, POINTS, POINTS>(
                arch,
                &self.job.source,
                group * self.job.reduce,
                self.job.reduce,
                leading,
                self.tiles.blocks(),
                to,
                |block| self.tiles.sources(block, POINTS),
            );
        }
    }

    unsafe fn multiply(&self, filter: Shared<f32>, tiles: Shared<f32>, products: Shared<f32>) {
        let (rows, reduce, leading) = (self.job.rows, self.job.reduce, self.tiles.leading());
        let filter_leading = reduce.next_multiple_of(LANES);
        tasks::for_each(POINTS * POINTS, |_, point| {
            let a = Strided::new(filter.at(point * rows * filter_leading), filter_leading, 1);
            let b = Strided::new(tiles.at(point * reduce * leading), leading, 1);
            let c = Strided::new(products.at(point * rows * leading), leading, 1);
            // SAFETY: each point has its own matrices.
            unsafe { multiply([rows, leading, reduce], (c, 0.0), 1.0, a, b) };
        });
    }

    unsafe fn transform_products<V: Variant<POINTS, M, R>, const M: usize, const R: usize>(
        &self,
        arch: Arch,
        group: usize,
        from: Shared<f32>,
    ) {
        let (rows, leading) = (self.job.rows, self.tiles.leading());
        let scales = single_scales(&self.job);
        for_pieces(self.tiles.blocks(), rows, |blocks, rows_here| {
            let mut outputs = [0.0; 4 * 4 * LANES];
            for block in blocks {
                let covered = self.tiles.covered(block);
                for row in rows_here.clone() {
                    let products = (from.at(row * leading + block * LANES).cast_const(), rows * leading);
                    // SAFETY: the block's lanes lie in the row of every point; its tiles are this task's alone.
                    unsafe {
                        transform::<V::Output, M, POINTS>(arch, products, (outputs.as_mut_ptr(), LANES));
                        covered.store::<S, M>(&self.job.destination, group * rows + row, &outputs, scales);
                    }
                }
            }
        });
    }
}

/// Alpha and beta in single precision.
pub fn single_scales<S: Storage>(job: &Correlation<S>) -> (f32, f32) {
    (job.alpha.single(), job.beta.single())
}

/// `G g Gᵀ` for all filters of a group: for each point a matrix of rows × source channels, the latter rounded up to [`LANES`].
///
/// # Safety
/// `to` is writable for these matrices.
pub unsafe fn transform_filter<S: Storage, V: Variant<T, M, R>, const T: usize, const M: usize, const R: usize>(
    arch: Arch,
    job: &Correlation<S>,
    axes: &[Axis; 3],
    group: usize,
    to: Shared<f32>,
) {
    let taps = Taps { filter: &job.filter, height: axes[1], width: axes[2] };
    let leading = job.reduce.next_multiple_of(LANES);
    tasks::for_each(leading / LANES, |_, block| {
        let first = block * LANES;
        let mut filters = [0.0; 5 * 5 * LANES];
        for row in 0..job.rows {
            // SAFETY: the lanes lie in the row of every point.
            unsafe {
                taps.load::<R>([group, row, first], job.reduce - first, &mut filters);
                transform::<V::Filter, T, R>(
                    arch,
                    (filters.as_ptr(), LANES),
                    (to.at(row * leading + first), job.rows * leading),
                );
            }
        }
    });
}

/// `X d Xᵀ` for `channels` channels of `blocks` blocks of tiles: for each point a matrix of channels × tiles.
///
/// # Safety
/// `to` is writable for these matrices; the blocks belong to the tensor.
#[allow(clippy::too_many_arguments)]
pub unsafe fn load_tiles<S: Storage, X: super::transform::Matrix<T, SIDE>, const T: usize, const SIDE: usize>(
    arch: Arch,
    tensor: &super::super::correlation::Tensor<S>,
    first_channel: usize,
    channels: usize,
    leading: usize,
    blocks: usize,
    to: Shared<f32>,
    windows: impl Fn(usize) -> super::tiles::Block + Sync,
) {
    for_pieces(blocks, channels, |blocks, channels_here| {
        for block in blocks {
            let windows = windows(block);
            let mut tiles = [0.0; 6 * 6 * LANES];
            for c in channels_here.clone() {
                // SAFETY: the block's lanes lie in the channel's row of every point.
                unsafe {
                    windows.load::<S, SIDE>(tensor, first_channel + c, &mut tiles);
                    let to = to.at(c * leading + block * LANES);
                    transform::<X, T, SIDE>(arch, (tiles.as_ptr(), LANES), (to, channels * leading));
                }
            }
        }
    });
}
