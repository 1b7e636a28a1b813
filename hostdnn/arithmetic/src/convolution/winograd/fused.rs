//! F(2×2, 3×3) in blocks of tiles small enough that tiles and products stay in a core's cache.
//!
//! The workspace holds the transformed filter of a group, and for each worker its block's tiles and the products of some
//! destination channels: it does not grow with the batch.

use super::super::correlation::{Axis, Correlation};
use super::super::element::{Matrix as Strided, Real, Storage, multiply};
use super::super::memory::{Parts, parts_size};
use super::nonfused::{single_scales, transform_filter};
use super::suits;
use super::tiles::Tiles;
use super::transform::{F2x3, Input4, LANES, Output2x4, transform};
use crate::tasks;
use pulp::Arch;

const POINTS: usize = 4;
/// Destination channels whose products are kept at once.
const ROWS: usize = 64;
/// Numbers in the tiles and products of one worker, if at least [`LANES`] tiles fit.
const CACHED: usize = 256 << 10;

/// Forward or backward data of a 3×3 filter.
pub struct Fused<S: Storage> {
    job: Correlation<S>,
    axes: [Axis; 3],
    tiles: Tiles,
}

impl<S: Storage> Fused<S> {
    /// `None` if the geometry does not fit.
    pub fn new(job: Correlation<S>, axes: [Axis; 3]) -> Option<Self> {
        let suits = suits(&axes, 3) && S::Real::HAS_TRANSFORMS;
        suits.then(|| Self { tiles: Tiles::new(job.batch, &axes, 2), job, axes })
    }

    /// Blocks of tiles in one task.
    fn blocks_at_once(&self) -> usize {
        (CACHED / (POINTS * POINTS * (self.job.reduce + ROWS) * LANES)).clamp(1, 8)
    }

    fn tasks(&self) -> usize {
        self.tiles.blocks().div_ceil(self.blocks_at_once())
    }

    fn parts(&self) -> Option<[usize; 3]> {
        let matrices =
            |rows: usize, columns: usize| rows.checked_mul(columns)?.checked_mul(POINTS * POINTS * size_of::<f32>());
        let columns = self.blocks_at_once() * LANES * tasks::workers(self.tasks());
        Some([
            matrices(self.job.rows, self.job.reduce.next_multiple_of(LANES))?,
            matrices(self.job.reduce, columns)?,
            matrices(ROWS, columns)?,
        ])
    }

    /// Bytes of workspace; `None` if no address space holds them.
    pub fn workspace_size(&self) -> Option<usize> {
        parts_size(&self.parts()?)
    }

    /// # Safety
    /// As for [`super::super::run`], with a workspace of [`Self::workspace_size`] bytes.
    pub unsafe fn run(&self, workspace: *mut u8) {
        let parts = self.parts().expect("sizes that were computed before");
        let mut workspace = Parts::new(workspace);
        let [filter, tiles, products] = parts.map(|bytes| workspace.take::<f32>(bytes));
        let arch = Arch::new();
        let leading = self.blocks_at_once() * LANES;
        let worker_tiles = POINTS * POINTS * self.job.reduce * leading;
        let worker_products = POINTS * POINTS * ROWS * leading;
        for group in 0..self.job.groups {
            // SAFETY: the filter's part has the size of its matrices; a worker's tiles and products are its own, and so
            // are a task's outputs.
            unsafe {
                transform_filter::<S, F2x3, POINTS, 2, 3>(arch, &self.job, &self.axes, group, filter);
                tasks::for_each(self.tasks(), |worker, task| {
                    self.block(
                        arch,
                        group,
                        task,
                        filter.at(0),
                        tiles.at(worker * worker_tiles),
                        products.at(worker * worker_products),
                    );
                });
            }
        }
    }

    unsafe fn block(
        &self,
        arch: Arch,
        group: usize,
        task: usize,
        filter: *const f32,
        tiles: *mut f32,
        products: *mut f32,
    ) {
        let (rows, reduce) = (self.job.rows, self.job.reduce);
        let leading = self.blocks_at_once() * LANES;
        let first = task * self.blocks_at_once();
        let blocks = first..self.tiles.blocks().min(first + self.blocks_at_once());
        for (i, block) in blocks.clone().enumerate() {
            let sources = self.tiles.sources(block, POINTS);
            let mut raw = [0.0; POINTS * POINTS * LANES];
            for c in 0..reduce {
                // SAFETY: the caller's promise.
                unsafe {
                    sources.load::<S, POINTS>(&self.job.source, group * reduce + c, &mut raw);
                    let to = tiles.add(c * leading + i * LANES);
                    transform::<Input4, POINTS, POINTS>(arch, (raw.as_ptr(), LANES), (to, reduce * leading));
                }
            }
        }
        let covered: Vec<_> = blocks.clone().map(|block| self.tiles.covered(block)).collect();
        let filter_leading = reduce.next_multiple_of(LANES);
        let scales = single_scales(&self.job);
        for row in (0..rows).step_by(ROWS) {
            let these = ROWS.min(rows - row);
            for point in 0..POINTS * POINTS {
                // SAFETY: the caller's promise.
                unsafe {
                    let a = Strided::new(filter.add((point * rows + row) * filter_leading), filter_leading, 1);
                    let b = Strided::new(tiles.add(point * reduce * leading).cast_const(), leading, 1);
                    let c = Strided::new(products.add(point * ROWS * leading).cast_const(), leading, 1);
                    multiply([these, blocks.len() * LANES, reduce], (c, 0.0), 1.0, a, b);
                }
            }
            let mut outputs = [0.0; 4 * LANES];
            for r in 0..these {
                for (i, covered) in covered.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let from = products.add(r * leading + i * LANES).cast_const();
                        transform::<Output2x4, 2, POINTS>(arch, (from, ROWS * leading), (outputs.as_mut_ptr(), LANES));
                        covered.store::<S, 2>(&self.job.destination, group * rows + row + r, &outputs, scales);
                    }
                }
            }
        }
    }
}
