//! Forward and backward data by GEMM over column matrices: gathers the sources of each destination element.
//!
//! Image by image: an image's computation and its order of sums do not depend on the batch.
//! [`implicit`] packs pieces of the columns and of the filter into per-thread buffers as it goes; [`explicit`] writes
//! each image's whole column matrix to the workspace.

use super::columns::Columns;
use super::correlation::{Axis, Correlation};
use super::element::{Matrix, Real, Storage, multiply};
use super::memory::{Parts, SCRATCH_BYTES, Shared, parts_size, with_scratch};
use crate::tasks;
use std::ops::Range;

/// The numbers in each of the parts of a thread's buffer that is cut in four.
const fn quarter<S: Storage>() -> usize {
    SCRATCH_BYTES / 4 / size_of::<S::Real>()
}

/// Destination channels at once, so that a tile of 64 positions fits its quarter.
const ROWS: usize = 512;

/// Positions at once: `total` cut evenly into pieces of at most `most`.
fn even(total: usize, most: usize) -> usize {
    let pieces = total.div_ceil(most).max(1);
    total.div_ceil(pieces).next_multiple_of(16).min(total.max(1))
}

impl<S: Storage> Correlation<S> {
    /// The destination of one image and group as a matrix of rows by positions, if it has this layout in memory.
    fn destination_matrix(&self, axes: &[Axis; 3], n: usize, row: usize) -> Option<Matrix<S::Real>> {
        if axes.iter().any(|a| a.step != 1 && a.count > 1 || a.start != 0) {
            return None;
        }
        let stride = self.destination.pixel_stride(axes.map(|a| a.count))?;
        Some(Matrix::new(S::as_real(self.destination.plane(n, row))?, self.destination.strides[1], stride))
    }

    /// `destination = alpha·tile + beta·destination` for `rows` (of all groups) × `pixels` of a phase of image `n`.
    ///
    /// # Safety
    /// The tile is readable; the destination writable and nobody else's.
    unsafe fn store(
        &self,
        axes: &[Axis; 3],
        n: usize,
        rows: Range<usize>,
        pixels: Range<usize>,
        tile: Matrix<S::Real>,
    ) {
        let [depth, height, width] = axes;
        let [_, _, sd, sh, sw] = self.destination.strides;
        let (first_row, first_pixel) = (rows.start, pixels.start);
        for row in rows {
            let plane = self.destination.plane(n, row);
            for pixel in pixels.clone() {
                let (line, w) = (pixel / width.count, pixel % width.count);
                let (d, h) = (line / height.count, line % height.count);
                let at = |axis: &Axis, i: usize| axis.start + i * axis.step;
                // SAFETY: position and row lie in the destination, and in the tile.
                unsafe {
                    let to = plane.add(at(depth, d) * sd + at(height, h) * sh + at(width, w) * sw);
                    let new =
                        self.alpha * *tile.at.add((row - first_row) * tile.row + (pixel - first_pixel) * tile.column);
                    let old = if self.beta == S::Real::default() { self.beta } else { self.beta * (*to).load() };
                    *to = S::store(new + old);
                }
            }
        }
    }
}

/// Runs phases without a workspace; `lines`, if given, has room for the source lines of the first phase.
///
/// # Safety
/// As for [`super::run`].
pub unsafe fn implicit<S: Storage>(job: &Correlation<S>, phases: &[[Axis; 3]], lines: Option<Shared<isize>>) {
    for &axes in phases {
        let mut columns = job.columns(axes);
        if let Some(lines) = lines {
            // SAFETY: the caller promises room for `lines_len` elements.
            unsafe { columns.write_lines(lines) };
        }
        let pixels = columns.pixels();
        if pixels == 0 {
            continue;
        }
        let direct = job.destination_matrix(&axes, 0, 0).is_some();
        let rows_at_once = job.rows.min(ROWS);
        let most = if direct { 512 } else { (quarter::<S>() / rows_at_once / 16 * 16).min(512) };
        let pixels_at_once = even(pixels, most);
        let tiles = pixels.div_ceil(pixels_at_once);
        tasks::for_each(job.batch * job.groups * tiles, |_, task| {
            let (n, group, tile) = (task / tiles / job.groups, task / tiles % job.groups, task % tiles);
            let tile = tile * pixels_at_once..pixels.min((tile + 1) * pixels_at_once);
            with_scratch(|scratch| {
                // SAFETY: no two tasks share a destination element.
                unsafe { implicit_tile(job, &columns, [n, group], tile, scratch.cast()) }
            });
        });
    }
}

/// One tile of positions of an image and group. Scratch: a quarter for sums, one for a filter piece, half for columns.
unsafe fn implicit_tile<S: Storage>(
    job: &Correlation<S>,
    columns: &Columns,
    [n, group]: [usize; 2],
    pixels: Range<usize>,
    scratch: *mut S::Real,
) {
    let quarter = quarter::<S>();
    let (zero, one) = (S::Real::default(), S::Real::of(1.0));
    let source = job.source.plane(n, group * job.reduce);
    let filter = job.filter.matrix(columns, group);
    let total = columns.rows();
    let width = pixels.len().next_multiple_of(16);
    for row in (0..job.rows).step_by(ROWS) {
        let rows = row..job.rows.min(row + ROWS);
        let at_once = match filter {
            Some(_) => 2 * quarter / width,
            None => (2 * quarter / width).min(quarter / rows.len()),
        };
        let first_row = group * job.rows + row;
        let destination = job.destination_matrix(&columns.axes, n, first_row);
        // SAFETY: pieces fit their parts of the buffer by `at_once` and by the tile's size.
        unsafe {
            let mut tile = Matrix::new(scratch, width, 1);
            if total == 0 {
                // A phase that no tap meets: one zero stands for the whole tile.
                scratch.write(zero);
                tile = Matrix::new(scratch, 0, 0);
            }
            for k in (0..total).step_by(at_once) {
                let which = k..total.min(k + at_once);
                let a = match filter {
                    Some(f) => Matrix::new(f.at.add(row * f.row + k * f.column), f.row, f.column),
                    None => job.filter.pack(columns, group, rows.clone(), which.clone(), scratch.add(quarter)),
                };
                let b = columns.pack(source, which.clone(), pixels.clone(), scratch.add(2 * quarter));
                let size = [rows.len(), pixels.len(), which.len()];
                match destination {
                    Some(d) => {
                        let to = Matrix::new(d.at.add(pixels.start * d.column), d.row, d.column);
                        multiply(size, (to, if k == 0 { job.beta } else { one }), job.alpha, a, b);
                    }
                    None => multiply(size, (tile, if k == 0 { zero } else { one }), one, a, b),
                }
            }
            if destination.is_none() || total == 0 {
                job.store(&columns.axes, n, first_row..first_row + rows.len(), pixels.clone(), tile);
            }
        }
    }
}

/// The parts of [`explicit`]'s workspace in bytes: the columns for each image that is worked on at once; its products,
/// if they cannot go straight to the destination; and the filter, if it is not a matrix of computing numbers in memory.
fn explicit_parts<S: Storage>(job: &Correlation<S>, axes: [Axis; 3]) -> Option<[usize; 3]> {
    let columns = job.columns(axes);
    let (real, images) = (size_of::<S::Real>(), tasks::workers(job.batch * job.groups));
    let product = |a: usize, b: usize| a.checked_mul(b)?.checked_mul(real);
    let width = columns.pixels().checked_next_multiple_of(16)?;
    let direct = job.destination_matrix(&axes, 0, 0).is_some();
    let filter = job.filter.matrix(&columns, 0).is_some();
    Some([
        product(columns.rows(), width)?.checked_mul(images)?,
        if direct { 0 } else { product(job.rows, width)?.checked_mul(images)? },
        if filter { 0 } else { product(job.rows, columns.rows())?.checked_mul(job.groups)? },
    ])
}

/// Bytes of workspace that [`explicit`] needs; `None` if no address space holds them.
pub fn explicit_size<S: Storage>(job: &Correlation<S>, axes: [Axis; 3]) -> Option<usize> {
    parts_size(&explicit_parts(job, axes)?)
}

/// Runs a correlation of one phase with the column matrices of as many images as there are threads in the workspace.
///
/// # Safety
/// As for [`super::run`], with a workspace of [`explicit_size`] bytes.
pub unsafe fn explicit<S: Storage>(job: &Correlation<S>, axes: [Axis; 3], workspace: *mut u8) {
    let parts = explicit_parts(job, axes).expect("sizes that were computed before");
    let mut workspace = Parts::new(workspace);
    let [all_columns, all_tiles, packed] = parts.map(|bytes| workspace.take::<S::Real>(bytes));
    let columns = job.columns(axes);
    let (total, pixels) = (columns.rows(), columns.pixels());
    let width = pixels.next_multiple_of(16);
    let (zero, one) = (S::Real::default(), S::Real::of(1.0));
    let in_place = job.filter.matrix(&columns, 0).is_some();
    if !in_place {
        tasks::for_each(job.groups, |_, group| {
            // SAFETY: each group's matrix has its own place.
            unsafe { job.filter.pack(&columns, group, 0..job.rows, 0..total, packed.at(group * job.rows * total)) };
        });
    }
    tasks::for_each(job.batch * job.groups, |worker, task| {
        let (n, group) = (task / job.groups, task % job.groups);
        // SAFETY: a worker's columns and tile are its own; no two tasks share a destination element.
        unsafe {
            let a = match job.filter.matrix(&columns, group) {
                Some(filter) => filter,
                None => Matrix::new(packed.at(group * job.rows * total), total, 1),
            };
            let source = job.source.plane(n, group * job.reduce);
            let b = columns.pack(source, 0..total, 0..pixels, all_columns.at(worker * total * width));
            let size = [job.rows, pixels, total];
            let first = group * job.rows;
            match job.destination_matrix(&axes, n, first) {
                Some(to) => multiply(size, (to, job.beta), job.alpha, a, b),
                None => {
                    let tile = Matrix::new(all_tiles.at(worker * job.rows * width), width, 1);
                    multiply(size, (tile, zero), one, a, b);
                    job.store(&axes, n, first..first + job.rows, 0..pixels, tile);
                }
            }
        }
    });
}
