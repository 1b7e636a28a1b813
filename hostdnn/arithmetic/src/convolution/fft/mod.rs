//! Convolution by the discrete Fourier transform: of whole images ([`Span::Image`]) or of square tiles ([`Span::Tile`]).
//!
//! Correlation is a product at each frequency, summed over channels: a complex matrix product for every frequency, with
//! images (or tiles) as columns. Stride 1, dilation 1, 2-D, single precision. The workspace holds the spectra of all three
//! tensors, one group at a time.

mod plane;

use super::correlation::{Axis, Correlation};
use super::element::{Matrix, Real, Storage, multiply_complex};
use super::memory::{Parts, SCRATCH_BYTES, Shared, parts_size, with_scratch};
use crate::tasks;
use hostdnn_fft::Complex;
use plane::{Planes, Transform};

/// The part of an image in one transform.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// All of an image with its padding, of at most 256 lines and columns.
    Image,
    /// Tiles of this many source elements each way, for filters that are no larger.
    Tile(usize),
}

const LARGEST_IMAGE: usize = 256;
/// Planes transformed together, so that their parts of a frequency's matrix fill a cache line.
const PLANES: usize = 8;

/// One spatial dimension: transforms of `size` points, each for `outputs` destination positions, `tiles` of them.
#[derive(Clone, Copy)]
struct Extent {
    axis: Axis,
    size: usize,
    outputs: usize,
    tiles: usize,
}

impl Extent {
    fn new(axis: Axis, span: Span) -> Option<Self> {
        let dense = axis.step == 1 && axis.source_step == 1 && (axis.taps == 1 || axis.offset_step.abs() == 1);
        let padding = axis.offset.min(axis.offset_of(axis.taps - 1)).min(0).unsigned_abs();
        if !dense || padding >= axis.taps {
            return None;
        }
        let reach = axis.count + axis.taps - 1;
        let (size, outputs) = match span {
            Span::Image => (fast_size(reach), axis.count),
            Span::Tile(tile) if axis.taps <= tile => (tile, tile + 1 - axis.taps),
            Span::Tile(_) => return None,
        };
        (span != Span::Image || reach <= LARGEST_IMAGE).then(|| Self {
            axis,
            size,
            outputs,
            tiles: axis.count.div_ceil(outputs),
        })
    }

    /// The source position of a tile's first point.
    fn first(&self, tile: usize) -> isize {
        (tile * self.outputs) as isize + self.axis.offset.min(self.axis.offset_of(self.axis.taps - 1))
    }

    /// The points of a tile for which the source has elements.
    fn inside(&self, tile: usize) -> (usize, usize) {
        let first = self.first(tile);
        let low = first.min(0).unsigned_abs().min(self.size);
        let high = (self.axis.source_extent as isize - first).clamp(low as isize, self.size as isize);
        (low, high as usize)
    }

    /// The outputs of a tile.
    fn covered(&self, tile: usize) -> usize {
        self.outputs.min(self.axis.count - tile * self.outputs)
    }

    /// Filter elements, in memory, by their source position.
    fn tap(&self, i: usize) -> usize {
        if self.axis.offset_step < 0 { self.axis.taps - 1 - i } else { i }
    }
}

/// The least even number from `least` on with no prime factor above 5.
fn fast_size(least: usize) -> usize {
    let smooth = |mut n: usize| {
        for factor in [2, 3, 5] {
            while n.is_multiple_of(factor) {
                n /= factor;
            }
        }
        n == 1
    };
    (least.max(2)..).find(|&n| n.is_multiple_of(2) && smooth(n)).unwrap_or(least)
}

/// A convolution by Fourier transforms. For backward filter `job` is the forward convolution whose filter is the output.
pub struct Fft<S: Storage> {
    job: Correlation<S>,
    height: Extent,
    width: Extent,
    gradient: bool,
}

type Spectra<S> = Shared<Complex<<S as Storage>::Real>>;

impl<S: Storage> Fft<S> {
    /// `None` if the geometry does not fit.
    pub fn new(job: Correlation<S>, axes: [Axis; 3], span: Span, gradient: bool) -> Option<Self> {
        let [depth, height, width] = axes;
        let flat = depth.count == 1 && depth.taps == 1 && depth.source_extent == 1 && depth.offset == 0;
        let fft = Self { job, height: Extent::new(height, span)?, width: Extent::new(width, span)?, gradient };
        (flat && S::Real::HAS_TRANSFORMS && fft.planes_at_once() > 0).then_some(fft)
    }

    fn frequencies(&self) -> usize {
        self.height.size * (self.width.size / 2 + 1)
    }

    /// Transforms of an image, and of the batch.
    fn columns(&self) -> usize {
        self.job.batch * self.height.tiles * self.width.tiles
    }

    /// As many planes as fit three quarters of a thread's buffer; the rest is one transform's working space.
    fn planes_at_once(&self) -> usize {
        (SCRATCH_BYTES / 4 * 3 / (self.frequencies() * size_of::<Complex<S::Real>>())).min(PLANES)
    }

    /// Distances between rows of the matrices (source, filter, destination) in numbers, and numbers in the matrices.
    fn matrices(&self) -> ([usize; 3], [usize; 3]) {
        let columns = self.columns().next_multiple_of(PLANES);
        let leading = [columns, self.job.reduce.next_multiple_of(PLANES), columns];
        let rows = [self.job.reduce, self.job.rows, self.job.rows];
        (leading, std::array::from_fn(|i| leading[i] * rows[i]))
    }

    fn parts(&self) -> Option<[usize; 3]> {
        let matrix = self.frequencies().checked_mul(size_of::<Complex<S::Real>>())?;
        let (_, [source, filter, destination]) = self.matrices();
        Some([source.checked_mul(matrix)?, filter.checked_mul(matrix)?, destination.checked_mul(matrix)?])
    }

    /// Bytes of workspace; `None` if no address space holds them.
    pub fn workspace_size(&self) -> Option<usize> {
        parts_size(&self.parts()?)
    }

    /// # Safety
    /// As for [`super::run`], with a workspace of [`Self::workspace_size`] bytes.
    pub unsafe fn run(&self, workspace: *mut u8) {
        let parts = self.parts().expect("sizes that were computed before");
        let mut workspace = Parts::new(workspace);
        let [source, filter, destination] = parts.map(|bytes| workspace.take(bytes));
        let transform = Transform::new(self.height.size, self.width.size);
        for group in 0..self.job.groups {
            // SAFETY: the parts have the sizes of their matrices; the stages follow one another.
            unsafe {
                self.transform_source(&transform, group, source);
                if self.gradient {
                    self.transform_destination(&transform, group, destination);
                } else {
                    self.transform_filter(&transform, group, filter);
                }
                self.multiply(source, filter, destination);
                if self.gradient {
                    self.store_filter(&transform, group, filter);
                } else {
                    self.store_destination(&transform, group, destination);
                }
            }
        }
    }

    /// Calls `work(row, columns, planes)` for every row of a matrix and few of its `columns` at a time.
    fn for_planes(
        &self,
        transform: &Transform<S::Real>,
        rows: usize,
        columns: usize,
        work: impl Fn(usize, std::ops::Range<usize>, &mut Planes<S::Real>) + Sync,
    ) {
        let at_once = self.planes_at_once();
        let blocks = columns.div_ceil(at_once);
        tasks::for_each(rows * blocks, |_, task| {
            let (row, first) = (task / blocks, task % blocks * at_once);
            with_scratch(|scratch| {
                // SAFETY: the buffer is this task's, and large enough for `at_once` planes by `planes_at_once`.
                let mut planes = unsafe { Planes::new(transform, scratch, at_once) };
                work(row, first..columns.min(first + at_once), &mut planes);
            });
        });
    }

    /// Image, and tile in height and width, of a column.
    fn column(&self, column: usize) -> (usize, usize, usize) {
        let tile = column % (self.height.tiles * self.width.tiles);
        (column / (self.height.tiles * self.width.tiles), tile / self.width.tiles, tile % self.width.tiles)
    }

    unsafe fn transform_source(&self, transform: &Transform<S::Real>, group: usize, to: Spectra<S>) {
        let ([leading, ..], [matrix, ..]) = self.matrices();
        let [_, _, _, sh, sw] = self.job.source.strides;
        self.for_planes(transform, self.job.reduce, self.columns(), |c, columns, planes| {
            for (i, column) in columns.clone().enumerate() {
                let (n, th, tw) = self.column(column);
                let plane = self.job.source.plane(n, group * self.job.reduce + c);
                let (rows, inside) = (self.height.inside(th), self.width.inside(tw));
                planes.transform(i, rows, |row, to| {
                    let at = (self.height.first(th) + row as isize) * sh as isize
                        + (self.width.first(tw) + inside.0 as isize) * sw as isize;
                    // SAFETY: `inside` keeps to the source.
                    unsafe { S::load_run(plane.wrapping_offset(at), sw, &mut to[inside.0..inside.1]) };
                });
            }
            // SAFETY: the columns lie in the row of every frequency's matrix.
            unsafe { planes.write(to.at(c * leading + columns.start), matrix, columns.len()) };
        });
    }

    unsafe fn transform_destination(&self, transform: &Transform<S::Real>, group: usize, to: Spectra<S>) {
        let ([.., leading], [.., matrix]) = self.matrices();
        let [_, _, _, sh, sw] = self.job.destination.strides;
        self.for_planes(transform, self.job.rows, self.columns(), |k, columns, planes| {
            for (i, column) in columns.clone().enumerate() {
                let (n, th, tw) = self.column(column);
                let plane = self.job.destination.plane(n, group * self.job.rows + k);
                let (h, w) = (th * self.height.outputs, tw * self.width.outputs);
                planes.transform(i, (0, self.height.covered(th)), |row, to| {
                    let line = plane.wrapping_add((h + row) * sh + w * sw);
                    // SAFETY: the tile's outputs lie in the plane.
                    unsafe { S::load_run(line, sw, &mut to[..self.width.covered(tw)]) };
                });
            }
            // SAFETY: the columns lie in the row of every frequency's matrix.
            unsafe { planes.write(to.at(k * leading + columns.start), matrix, columns.len()) };
        });
    }

    fn tap(&self, group: usize, row: usize, channel: usize, i: usize, j: usize) -> *mut S {
        let filter = &self.job.filter;
        let tap = self.height.tap(i) * filter.tap[1] + self.width.tap(j) * filter.tap[2];
        filter.data.at(group * filter.group + row * filter.row + channel * filter.reduce + tap)
    }

    unsafe fn transform_filter(&self, transform: &Transform<S::Real>, group: usize, to: Spectra<S>) {
        let ([_, leading, _], [_, matrix, _]) = self.matrices();
        self.for_planes(transform, self.job.rows, self.job.reduce, |row, channels, planes| {
            for (i, channel) in channels.clone().enumerate() {
                planes.transform(i, (0, self.height.axis.taps), |line, to| {
                    for (j, to) in to[..self.width.axis.taps].iter_mut().enumerate() {
                        // SAFETY: an element of the filter.
                        *to = unsafe { (*self.tap(group, row, channel, line, j)).load() };
                    }
                });
            }
            // SAFETY: the channels lie in the row of every frequency's matrix.
            unsafe { planes.write(to.at(row * leading + channels.start), matrix, channels.len()) };
        });
    }

    unsafe fn multiply(&self, source: Spectra<S>, filter: Spectra<S>, destination: Spectra<S>) {
        let (leading, matrix) = self.matrices();
        let parts = [source, filter, destination];
        let (rows, reduce, columns) = (self.job.rows, self.job.reduce, self.columns());
        tasks::for_each(self.frequencies(), |_, frequency| {
            let [source, filter, destination] =
                std::array::from_fn(|i| Matrix::new(parts[i].at(frequency * matrix[i]).cast_const(), leading[i], 1));
            // SAFETY: each frequency has its own matrices.
            unsafe {
                if self.gradient {
                    multiply_complex([rows, reduce, columns], filter, destination, true, source.transposed());
                } else {
                    multiply_complex([rows, columns, reduce], destination, filter, true, source);
                }
            }
        });
    }

    /// `to = alpha·new + beta·to`
    ///
    /// # Safety
    /// `to` is writable and nobody else's.
    unsafe fn put(&self, to: *mut S, new: S::Real) {
        let zero = S::Real::default();
        // SAFETY: the caller's promise.
        unsafe {
            let old = if self.job.beta == zero { zero } else { self.job.beta * (*to).load() };
            *to = S::store(self.job.alpha * new + old);
        }
    }

    unsafe fn store_destination(&self, transform: &Transform<S::Real>, group: usize, from: Spectra<S>) {
        let ([.., leading], [.., matrix]) = self.matrices();
        let [_, _, _, sh, sw] = self.job.destination.strides;
        self.for_planes(transform, self.job.rows, self.columns(), |k, columns, planes| {
            // SAFETY: the columns lie in the row of every frequency's matrix.
            unsafe { planes.read(from.at(k * leading + columns.start), matrix, columns.len()) };
            for (i, column) in columns.enumerate() {
                let (n, th, tw) = self.column(column);
                let plane = self.job.destination.plane(n, group * self.job.rows + k);
                let (h, w) = (th * self.height.outputs, tw * self.width.outputs);
                planes.invert(i, self.height.covered(th), |row, from| {
                    for (j, &new) in from[..self.width.covered(tw)].iter().enumerate() {
                        // SAFETY: the tile's outputs lie in the plane, and are this task's.
                        unsafe { self.put(plane.wrapping_add((h + row) * sh + (w + j) * sw), new) };
                    }
                });
            }
        });
    }

    unsafe fn store_filter(&self, transform: &Transform<S::Real>, group: usize, from: Spectra<S>) {
        let ([_, leading, _], [_, matrix, _]) = self.matrices();
        self.for_planes(transform, self.job.rows, self.job.reduce, |row, channels, planes| {
            // SAFETY: the channels lie in the row of every frequency's matrix.
            unsafe { planes.read(from.at(row * leading + channels.start), matrix, channels.len()) };
            for (i, channel) in channels.enumerate() {
                planes.invert(i, self.height.axis.taps, |line, from| {
                    for (j, &new) in from[..self.width.axis.taps].iter().enumerate() {
                        // SAFETY: an element of the filter, which is this task's.
                        unsafe { self.put(self.tap(group, row, channel, line, j), new) };
                    }
                });
            }
        });
    }
}
