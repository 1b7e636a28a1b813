//! Backward filter by GEMM: gradients of maps by positions, times transposed column matrices, summed over the batch.

use super::Problem;
use super::columns::Columns;
use super::correlation::{Filter, Operands, Tensor, forward_axes};
use super::element::{Matrix, Real, Storage, multiply};
use super::memory::{Parts, SCRATCH_BYTES, Shared, parts_size, with_scratch};
use crate::tasks;
use std::ops::Range;
use std::sync::Mutex;

/// `w = alpha·Σ y ⊗ x + beta·w`, in groups of `maps` by `channels`.
pub struct FilterGradient<S: Storage> {
    pub batch: usize,
    pub groups: usize,
    pub maps: usize,
    pub channels: usize,
    pub x: Tensor<S>,
    pub y: Tensor<S>,
    pub w: Filter<S>,
    pub alpha: S::Real,
    pub beta: S::Real,
    columns: Columns,
}

/// Maps at once: with 128 rows of columns, their sums fit a quarter of the buffer in double precision.
const MAPS: usize = 256;
const POSITIONS: usize = 512;
/// Images that one task of [`FilterGradient::implicit_unordered`] sums.
const IMAGES: usize = 8;

impl<S: Storage> FilterGradient<S> {
    pub fn new(p: &Problem, operands: &Operands<S>) -> Self {
        let (channels, maps) = (p.in_channels / p.groups, p.out_channels / p.groups);
        let [k, c, d, h, w] = p.w_strides;
        let w = Filter { data: Shared(operands.w), group: maps * k, row: k, reduce: c, tap: [d, h, w] };
        let axes = forward_axes(p);
        let order = super::columns::order_for(&w, &axes, channels);
        Self {
            batch: p.batch,
            groups: p.groups,
            maps,
            channels,
            x: Tensor::new(operands.x, p.x_strides),
            y: Tensor::new(operands.y, p.y_strides),
            w,
            alpha: operands.alpha,
            beta: operands.beta,
            columns: Columns { axes, channels, strides: p.x_strides, order, lines: None },
        }
    }

    /// The gradients of `maps` (of all groups) by `pixels`, by reference or packed to `to`.
    ///
    /// # Safety
    /// `to` is writable for maps × pixels elements.
    unsafe fn gradients(
        &self,
        n: usize,
        maps: Range<usize>,
        pixels: Range<usize>,
        to: *mut S::Real,
    ) -> Matrix<S::Real> {
        let extents = self.columns.axes.map(|a| a.count);
        let first = S::as_real(self.y.plane(n, maps.start));
        if let Some((first, stride)) = first.zip(self.y.pixel_stride(extents)) {
            return Matrix::new(first.wrapping_add(pixels.start * stride), self.y.strides[1], stride);
        }
        let [_, height, width] = extents;
        let [_, _, sd, sh, sw] = self.y.strides;
        let leading = pixels.len();
        for (row, map) in maps.enumerate() {
            let plane = self.y.plane(n, map);
            let mut pixel = pixels.start;
            while pixel < pixels.end {
                let (line, w) = (pixel / width, pixel % width);
                let run = (width - w).min(pixels.end - pixel);
                // SAFETY: the positions lie in the map, the run in the piece.
                unsafe {
                    let from = plane.add(line / height * sd + line % height * sh + w * sw);
                    let to = to.add(row * leading + pixel - pixels.start);
                    S::load_run(from, sw, std::slice::from_raw_parts_mut(to, run));
                }
                pixel += run;
            }
        }
        Matrix::new(to, leading, 1)
    }

    /// `w = sums + beta·w` for `maps` (of all groups) × `rows` of the columns.
    ///
    /// # Safety
    /// `sums` is readable, the filter writable and nobody else's.
    unsafe fn store(&self, maps: Range<usize>, rows: Range<usize>, sums: Matrix<S::Real>, beta: S::Real) {
        let first_map = maps.start;
        for row in rows.clone() {
            let offset = self.columns.filter_offset(&self.w, row);
            for map in maps.clone() {
                // SAFETY: the caller promises readable sums and a writable filter.
                unsafe {
                    let to = self.w.data.at(map * self.w.row + offset);
                    let new =
                        self.alpha * *sums.at.add((map - first_map) * sums.row + (row - rows.start) * sums.column);
                    let old = if beta == S::Real::default() { beta } else { beta * (*to).load() };
                    *to = S::store(new + old);
                }
            }
        }
    }

    /// Sums `images` for `maps` of a group × `rows` of the columns in the first quarter of the buffer.
    unsafe fn sum(
        &self,
        group: usize,
        maps: Range<usize>,
        rows: Range<usize>,
        images: Range<usize>,
        scratch: *mut S::Real,
    ) -> Matrix<S::Real> {
        let quarter = SCRATCH_BYTES / 4 / size_of::<S::Real>();
        let (zero, one) = (S::Real::default(), S::Real::of(1.0));
        let pixels = self.columns.pixels();
        let at_once = (quarter / maps.len() / 16 * 16).min(POSITIONS);
        let sums = Matrix::new(scratch, rows.len(), 1);
        let all_maps = group * self.maps + maps.start..group * self.maps + maps.end;
        let mut keep = zero;
        for n in images {
            let source = self.x.plane(n, group * self.channels);
            for pixel in (0..pixels).step_by(at_once) {
                let piece = pixel..pixels.min(pixel + at_once);
                // SAFETY: 256 maps × 128 rows, maps × `at_once` and 128 × 512 fit a quarter, a quarter and half.
                unsafe {
                    let a = self.gradients(n, all_maps.clone(), piece.clone(), scratch.add(quarter));
                    let b = self.columns.pack(source, rows.clone(), piece.clone(), scratch.add(2 * quarter));
                    multiply([maps.len(), rows.len(), piece.len()], (sums, keep), one, a, b.transposed());
                }
                keep = one;
            }
        }
        sums
    }

    /// Cuts the filter's matrix: (blocks of maps, rows of the columns at once, blocks of those).
    fn blocks(&self) -> (usize, usize, usize) {
        let rows = self.columns.rows();
        let at_once = (rows / 8).next_multiple_of(16).clamp(32, 128);
        (self.maps.div_ceil(MAPS), at_once, rows.div_ceil(at_once))
    }

    fn block(&self, task: usize) -> (usize, Range<usize>, Range<usize>) {
        let (map_blocks, at_once, row_blocks) = self.blocks();
        let (rows, rest) = (task % row_blocks * at_once, task / row_blocks);
        let (maps, group) = (rest % map_blocks * MAPS, rest / map_blocks);
        (group, maps..self.maps.min(maps + MAPS), rows..self.columns.rows().min(rows + at_once))
    }

    fn in_all_groups(&self, group: usize, maps: &Range<usize>) -> Range<usize> {
        group * self.maps + maps.start..group * self.maps + maps.end
    }

    /// Each task sums one block of the filter over the batch, in order. No workspace.
    ///
    /// # Safety
    /// As for [`super::run`].
    pub unsafe fn implicit(&self) {
        let (map_blocks, _, row_blocks) = self.blocks();
        tasks::for_each(self.groups * map_blocks * row_blocks, |_, task| {
            let (group, maps, rows) = self.block(task);
            with_scratch(|scratch| {
                // SAFETY: no two tasks share a filter element.
                unsafe {
                    let sums = self.sum(group, maps.clone(), rows.clone(), 0..self.batch, scratch.cast());
                    self.store(self.in_all_groups(group, &maps), rows, sums, self.beta);
                }
            });
        });
    }

    /// Each task sums one block over a few images and adds that to the filter as it finishes: more tasks, no fixed order
    /// of sums. No workspace. Filters of two bytes an element would round every partial sum: they take [`Self::implicit`].
    ///
    /// # Safety
    /// As for [`super::run`].
    pub unsafe fn implicit_unordered(&self) {
        let chunks = self.batch.div_ceil(IMAGES);
        if S::as_real(self.w.data.0).is_none() || chunks == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.implicit() };
        }
        let (map_blocks, _, row_blocks) = self.blocks();
        let blocks = self.groups * map_blocks * row_blocks;
        // For each block whether some chunk has met the old filter.
        let touched: Vec<Mutex<bool>> = (0..blocks).map(|_| Mutex::new(false)).collect();
        tasks::for_each(blocks * chunks, |_, task| {
            let (block, chunk) = (task % blocks, task / blocks);
            let (group, maps, rows) = self.block(block);
            let images = chunk * IMAGES..self.batch.min((chunk + 1) * IMAGES);
            with_scratch(|scratch| {
                // SAFETY: the lock keeps the block's elements to one task at a time.
                unsafe {
                    let sums = self.sum(group, maps.clone(), rows.clone(), images, scratch.cast());
                    let mut touched = touched[block].lock().unwrap_or_else(|e| e.into_inner());
                    let beta = if *touched { S::Real::of(1.0) } else { self.beta };
                    self.store(self.in_all_groups(group, &maps), rows, sums, beta);
                    *touched = true;
                }
            });
        });
    }

    /// For each worker: an image's columns, its gradients if they are not a matrix, and the sums of all groups.
    fn explicit_parts(&self) -> Option<[usize; 3]> {
        let workers = tasks::workers(self.batch * self.groups);
        let product = |a: usize, b: usize| a.checked_mul(b)?.checked_mul(size_of::<S::Real>())?.checked_mul(workers);
        let in_place =
            S::as_real(self.y.data.0).is_some() && self.y.pixel_stride(self.columns.axes.map(|a| a.count)).is_some();
        Some([
            product(self.columns.rows(), self.columns.pixels().checked_next_multiple_of(16)?)?,
            if in_place { 0 } else { product(self.maps, self.columns.pixels())? },
            product(self.maps.checked_mul(self.groups)?, self.columns.rows())?,
        ])
    }

    /// Bytes of workspace that [`Self::explicit`] needs; `None` if no address space holds them.
    pub fn explicit_size(&self) -> Option<usize> {
        parts_size(&self.explicit_parts()?)
    }

    /// Workers take images as they become free, and each sums its own in the workspace.
    ///
    /// # Safety
    /// As for [`super::run`], with a workspace of [`Self::explicit_size`] bytes.
    pub unsafe fn explicit(&self, workspace: *mut u8) {
        let parts = self.explicit_parts().expect("sizes that were computed before");
        let mut workspace = Parts::new(workspace);
        let [all_columns, all_gradients, all_sums] = parts.map(|bytes| workspace.take::<S::Real>(bytes));
        let workers = tasks::workers(self.batch * self.groups);
        let (rows, pixels) = (self.columns.rows(), self.columns.pixels());
        let width = pixels.next_multiple_of(16);
        let filter = self.groups * self.maps * rows;
        let one = S::Real::of(1.0);
        tasks::for_each(workers, |_, worker| {
            // SAFETY: each worker's sums have their own place.
            unsafe { std::slice::from_raw_parts_mut(all_sums.at(worker * filter), filter).fill(S::Real::default()) };
        });
        tasks::for_each(self.batch * self.groups, |worker, task| {
            let (n, group) = (task / self.groups, task % self.groups);
            let maps = group * self.maps..(group + 1) * self.maps;
            // SAFETY: a worker's parts are its own.
            unsafe {
                let a = self.gradients(n, maps.clone(), 0..pixels, all_gradients.at(worker * self.maps * pixels));
                let source = self.x.plane(n, group * self.channels);
                let b = self.columns.pack(source, 0..rows, 0..pixels, all_columns.at(worker * rows * width));
                let sums = Matrix::new(all_sums.at(worker * filter + maps.start * rows), rows, 1);
                multiply([self.maps, rows, pixels], (sums, one), one, a, b.transposed());
            }
        });
        let maps = self.groups * self.maps;
        tasks::for_each(maps, |_, map| {
            // SAFETY: each task has its own map's sums and filter elements.
            unsafe {
                let sums = std::slice::from_raw_parts_mut(all_sums.at(map * rows), rows);
                for worker in 1..workers {
                    let others = std::slice::from_raw_parts(all_sums.at(worker * filter + map * rows), rows);
                    for (sum, &other) in sums.iter_mut().zip(others) {
                        *sum = *sum + other;
                    }
                }
                self.store(map..map + 1, 0..rows, Matrix::new(sums.as_ptr(), rows, 1), self.beta);
            }
        });
    }
}
