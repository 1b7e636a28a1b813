//! The positions of tiles: moves them between tensors and rows of lanes.

use super::super::correlation::{Axis, Filter, Tensor};
use super::super::element::Storage;
use super::transform::LANES;

/// The tiles of a batch, numbered image by image, row by row.
#[derive(Clone, Copy)]
pub struct Tiles {
    /// Outputs that a tile covers in each dimension.
    pub outputs: usize,
    rows: usize,
    columns: usize,
    pub count: usize,
    height: Axis,
    width: Axis,
}

/// One tile's part of a tensor's plane: positions `rows × columns` of the tile exist, and position (0, 0) lies (or would
/// lie) at `origin`.
#[derive(Clone, Copy, Default)]
struct Window {
    image: usize,
    origin: [isize; 2],
    rows: (usize, usize),
    columns: (usize, usize),
}

/// [`LANES`] tiles of a tensor; the last block of a batch may have fewer.
pub struct Block {
    windows: [Window; LANES],
}

impl Tiles {
    pub fn new(batch: usize, axes: &[Axis; 3], outputs: usize) -> Self {
        let [_, height, width] = *axes;
        let (rows, columns) = (height.count.div_ceil(outputs), width.count.div_ceil(outputs));
        Self { outputs, rows, columns, count: batch * rows * columns, height, width }
    }

    pub fn blocks(&self) -> usize {
        self.count.div_ceil(LANES)
    }

    /// Numbers from one row of lanes to the next where all tiles lie side by side.
    pub fn leading(&self) -> usize {
        self.blocks() * LANES
    }

    fn windows(&self, block: usize, window: impl Fn(usize, usize, usize) -> Window) -> Block {
        let mut windows = [Window::default(); LANES];
        for (lane, tile) in (block * LANES..self.count).take(LANES).enumerate() {
            let (image, tile) = (tile / (self.rows * self.columns), tile % (self.rows * self.columns));
            windows[lane] = window(image, tile / self.columns * self.outputs, tile % self.columns * self.outputs);
        }
        Block { windows }
    }

    /// The windows of the source that the block's tiles of `points` by `points` read.
    pub fn sources(&self, block: usize, points: usize) -> Block {
        let first = |axis: &Axis, at: usize| at as isize + axis.offset.min(axis.offset_of(axis.taps - 1));
        let inside = |axis: &Axis, first: isize| {
            let low = first.min(0).unsigned_abs().min(points);
            let high = (axis.source_extent as isize - first).clamp(low as isize, points as isize);
            (low, high as usize)
        };
        self.windows(block, |image, h, w| {
            let origin = [first(&self.height, h), first(&self.width, w)];
            Window { image, origin, rows: inside(&self.height, origin[0]), columns: inside(&self.width, origin[1]) }
        })
    }

    /// The windows of the outputs that the block's tiles cover.
    pub fn covered(&self, block: usize) -> Block {
        self.windows(block, |image, h, w| Window {
            image,
            origin: [h as isize, w as isize],
            rows: (0, self.outputs.min(self.height.count - h)),
            columns: (0, self.outputs.min(self.width.count - w)),
        })
    }
}

impl Block {
    /// Loads channel `c` of all tiles: position (i, j) of lane l to `to[(i·side + j)·LANES + l]`. Does not write
    /// positions that do not exist: they are the same for every channel, and are zeroed once.
    ///
    /// # Safety
    /// The tensor is readable, and its planes have the extents that the block was made for.
    pub unsafe fn load<S: Storage, const SIDE: usize>(&self, tensor: &Tensor<S>, c: usize, to: &mut [f32]) {
        let [_, _, _, sh, sw] = tensor.strides;
        assert!(to.len() >= SIDE * SIDE * LANES);
        for (lane, window) in self.windows.iter().enumerate() {
            let plane = window.corner(tensor, c);
            for i in window.rows.0..window.rows.1 {
                let line = plane.wrapping_add(i * sh);
                let to = to.as_mut_ptr().wrapping_add(i * SIDE * LANES + lane);
                let load = |j: usize| {
                    // SAFETY: positions of the window exist, in the tensor and, rows and columns being below SIDE, in `to`.
                    unsafe { to.wrapping_add(j * LANES).write((*line.wrapping_add(j * sw)).to_single()) }
                };
                // Whole lines are the most frequent case and worth an unrolled loop.
                if window.columns == (0, SIDE) {
                    (0..SIDE).for_each(load);
                } else {
                    (window.columns.0..window.columns.1).for_each(load);
                }
            }
        }
    }

    /// `tensor = alpha·from + beta·tensor` for channel `c` of all tiles, laid out as [`Self::load`] does.
    ///
    /// # Safety
    /// The tensor is writable, and nobody else uses the tiles.
    pub unsafe fn store<S: Storage, const SIDE: usize>(
        &self,
        tensor: &Tensor<S>,
        c: usize,
        from: &[f32],
        (alpha, beta): (f32, f32),
    ) {
        let [_, _, _, sh, sw] = tensor.strides;
        assert!(from.len() >= SIDE * SIDE * LANES);
        for (lane, window) in self.windows.iter().enumerate() {
            let plane = window.corner(tensor, c);
            for i in window.rows.0..window.rows.1 {
                let line = plane.wrapping_add(i * sh);
                let from = from.as_ptr().wrapping_add(i * SIDE * LANES + lane);
                let store = |j: usize| {
                    // SAFETY: positions of the window exist, in the tensor and, rows and columns being below SIDE, in `from`.
                    unsafe { put(line.wrapping_add(j * sw), alpha * *from.wrapping_add(j * LANES), beta) }
                };
                if window.columns == (0, SIDE) {
                    (0..SIDE).for_each(store);
                } else {
                    (window.columns.0..window.columns.1).for_each(store);
                }
            }
        }
    }
}

impl Window {
    /// Where position (0, 0) of the window lies, or would lie, in channel `c`.
    fn corner<S>(&self, tensor: &Tensor<S>, c: usize) -> *mut S {
        let [_, _, _, sh, sw] = tensor.strides;
        tensor.plane(self.image, c).wrapping_offset(self.origin[0] * sh as isize + self.origin[1] * sw as isize)
    }
}

/// `at = new + beta·at`
///
/// # Safety
/// `at` is writable.
#[inline(always)]
unsafe fn put<S: Storage>(at: *mut S, new: f32, beta: f32) {
    // SAFETY: the caller's promise.
    unsafe { *at = S::from_single(if beta == 0.0 { new } else { new + beta * (*at).to_single() }) };
}

/// Filters of [`LANES`] source channels, tap (i, j) of lane l at `(i·R + j)·LANES + l`, with taps in the order of their
/// source positions.
pub struct Taps<'a, S> {
    pub filter: &'a Filter<S>,
    pub height: Axis,
    pub width: Axis,
}

impl<S: Storage> Taps<'_, S> {
    fn at(&self, group: usize, row: usize, channel: usize, i: usize, j: usize) -> *mut S {
        let memory = |axis: &Axis, i: usize| if axis.offset_step < 0 { axis.taps - 1 - i } else { i };
        let tap = memory(&self.height, i) * self.filter.tap[1] + memory(&self.width, j) * self.filter.tap[2];
        self.filter.data.at(group * self.filter.group + row * self.filter.row + channel * self.filter.reduce + tap)
    }

    /// Loads `channels` (at most [`LANES`]) from `first` on; lanes beyond are 0.
    ///
    /// # Safety
    /// The filter is readable.
    pub unsafe fn load<const R: usize>(&self, [group, row, first]: [usize; 3], channels: usize, to: &mut [f32]) {
        for i in 0..R {
            for j in 0..R {
                let to = &mut to[(i * R + j) * LANES..][..LANES];
                let from = self.at(group, row, first, i, j);
                let (here, beyond) = to.split_at_mut(channels.min(LANES));
                for (lane, to) in here.iter_mut().enumerate() {
                    // SAFETY: the channels exist.
                    *to = unsafe { (*from.wrapping_add(lane * self.filter.reduce)).to_single() };
                }
                beyond.fill(0.0);
            }
        }
    }

    /// `filter = alpha·from + beta·filter` for `channels` from `first` on.
    ///
    /// # Safety
    /// The filter is writable, and nobody else uses these channels.
    pub unsafe fn store<const R: usize>(
        &self,
        [group, row, first]: [usize; 3],
        channels: usize,
        from: &[f32],
        (alpha, beta): (f32, f32),
    ) {
        for i in 0..R {
            for j in 0..R {
                let to = self.at(group, row, first, i, j);
                for lane in 0..channels.min(LANES) {
                    // SAFETY: the channels exist.
                    unsafe {
                        put(to.wrapping_add(lane * self.filter.reduce), alpha * from[(i * R + j) * LANES + lane], beta)
                    };
                }
            }
        }
    }
}
