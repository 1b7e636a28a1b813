//! Backward filter: both tensors' tiles are transformed over the whole batch, and the products summed over all tiles.

use super::super::element::{Matrix as Strided, Storage, multiply};
use super::super::memory::Shared;
use super::nonfused::{Nonfused, POINTS, load_tiles, single_scales};
use super::tiles::Taps;
use super::transform::{F2x5, F4x3, LANES, Transposed, Variant, transform};
use crate::tasks;
use pulp::Arch;

/// The gradient of the filter. The job is the forward convolution; its filter is the output.
///
/// The workspace holds the matrices of the forward convolution: the products in the place of its filter, the source's
/// tiles, and the destination's tiles in the place of its products.
impl<S: Storage> Nonfused<S> {
    /// # Safety
    /// As for [`super::super::run`], with a workspace of [`Self::workspace_size`] bytes.
    pub unsafe fn run_gradient(&self, workspace: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.tiles.outputs {
                4 => self.run_gradient_as::<F4x3, 4, 3>(workspace),
                _ => self.run_gradient_as::<F2x5, 2, 5>(workspace),
            }
        }
    }

    unsafe fn run_gradient_as<V: Variant<POINTS, M, R>, const M: usize, const R: usize>(&self, workspace: *mut u8) {
        let [products, sources, gradients] = self.matrices(workspace);
        let (job, tiles) = (&self.job, &self.tiles);
        let (leading, blocks) = (tiles.leading(), tiles.blocks());
        let arch = Arch::new();
        for group in 0..job.groups {
            // SAFETY: the parts have the sizes of their matrices; the stages follow one another.
            unsafe {
                load_tiles::<S, V::Input, POINTS, POINTS>(
                    arch,
                    &job.source,
                    group * job.reduce,
                    job.reduce,
                    leading,
                    blocks,
                    sources,
                    |b| tiles.sources(b, POINTS),
                );
                load_tiles::<S, Transposed<V::Output>, POINTS, M>(
                    arch,
                    &job.destination,
                    group * job.rows,
                    job.rows,
                    leading,
                    blocks,
                    gradients,
                    |b| tiles.covered(b),
                );
                self.sum_products(sources, gradients, products);
                self.transform_sums::<V, M, R>(arch, group, products);
            }
        }
    }

    unsafe fn sum_products(&self, sources: Shared<f32>, gradients: Shared<f32>, products: Shared<f32>) {
        let (rows, reduce, leading) = (self.job.rows, self.job.reduce, self.tiles.leading());
        let products_leading = reduce.next_multiple_of(LANES);
        tasks::for_each(POINTS * POINTS, |_, point| {
            let a = Strided::new(gradients.at(point * rows * leading), leading, 1);
            let b = Strided::new(sources.at(point * reduce * leading), leading, 1);
            let c = Strided::new(products.at(point * rows * products_leading), products_leading, 1);
            // SAFETY: each point has its own matrices. Lanes beyond the last tile are not summed.
            unsafe { multiply([rows, reduce, self.tiles.count], (c, 0.0), 1.0, a, b.transposed()) };
        });
    }

    unsafe fn transform_sums<V: Variant<POINTS, M, R>, const M: usize, const R: usize>(
        &self,
        arch: Arch,
        group: usize,
        from: Shared<f32>,
    ) {
        let (rows, reduce) = (self.job.rows, self.job.reduce);
        let leading = reduce.next_multiple_of(LANES);
        let taps = Taps { filter: &self.job.filter, height: self.axes[1], width: self.axes[2] };
        let scales = single_scales(&self.job);
        tasks::for_each(rows, |_, row| {
            let mut filters = [0.0; 5 * 5 * LANES];
            for first in (0..reduce).step_by(LANES) {
                let products = from.at(row * leading + first);
                // SAFETY: the lanes lie in the row of every point; the row's filters are this task's alone.
                unsafe {
                    transform::<Transposed<V::Filter>, R, POINTS>(
                        arch,
                        (products, rows * leading),
                        (filters.as_mut_ptr(), LANES),
                    );
                    taps.store::<R>([group, row, first], reduce - first, &filters, scales);
                }
            }
        });
    }
}
