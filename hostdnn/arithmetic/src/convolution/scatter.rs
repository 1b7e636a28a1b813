//! Backward data by GEMM and col2im: multiplies each gradient by its map's taps and adds the products in place.
//!
//! Unlike [`super::gather`] it loses nothing to strides, but needs a filter that is a matrix in memory.
//! Image by image, in a fixed order of sums.

use super::Problem;
use super::columns::{Columns, order_for};
use super::correlation::{Axis, Filter, Operands, Tensor, forward_axes};
use super::element::{Matrix, Storage, multiply};
use super::memory::{SCRATCH_BYTES, Shared, with_scratch};
use crate::tasks;
use std::ops::Range;

/// `x = alpha·Σ wᵀ·y + beta·x` in groups of `maps` by `channels`.
pub struct Scatter<S: Storage> {
    batch: usize,
    groups: usize,
    maps: usize,
    x: Tensor<S>,
    y: Tensor<S>,
    /// For each map the taps of all channels of its group, in the order of `columns`.
    w: Matrix<S::Real>,
    group_stride: usize,
    extents: [usize; 3],
    alpha: S::Real,
    beta: S::Real,
    columns: Columns,
    y_pixel: usize,
}

// SAFETY: `w` is only read.
unsafe impl<S: Storage> Sync for Scatter<S> {}

/// Numbers of a tile of products.
const fn tile_len<S: Storage>() -> usize {
    SCRATCH_BYTES / 2 / size_of::<S::Real>()
}

impl<S: Storage> Scatter<S> {
    /// `None` if the filter or `y` is not a matrix of computing numbers.
    pub fn new(p: &Problem, operands: &Operands<S>) -> Option<Self> {
        let (channels, maps) = (p.in_channels / p.groups, p.out_channels / p.groups);
        let [k, c, d, h, w] = p.w_strides;
        let w = Filter { data: Shared(operands.w), group: maps * k, row: k, reduce: c, tap: [d, h, w] };
        let axes = forward_axes(p);
        let columns =
            Columns { axes, channels, strides: p.x_strides, order: order_for(&w, &axes, channels), lines: None };
        let y = Tensor::new(operands.y, p.y_strides);
        if columns.taps() * 16 > tile_len::<S>() {
            return None;
        }
        Some(Self {
            batch: p.batch,
            groups: p.groups,
            maps,
            x: Tensor::new(operands.x, p.x_strides),
            y,
            w: w.matrix(&columns, 0)?,
            group_stride: w.group,
            extents: p.input,
            alpha: operands.alpha,
            beta: operands.beta,
            columns,
            y_pixel: S::as_real(operands.y).and(y.pixel_stride(p.output))?,
        })
    }

    /// # Safety
    /// As for [`super::run`].
    pub unsafe fn run(&self) {
        let pixels = self.columns.pixels();
        let at_once = pixels.min(512.min(tile_len::<S>() / self.columns.taps()) / 16 * 16).max(1);
        let width = at_once.next_multiple_of(16);
        let channels = self.columns.channels;
        let channels_at_once = (tile_len::<S>() / width / self.columns.taps()).min(channels.div_ceil(2)).max(1);
        let blocks = channels.div_ceil(channels_at_once);
        tasks::for_each(self.batch * self.groups * blocks, |_, task| {
            let (n, group, block) = (task / blocks / self.groups, task / blocks % self.groups, task % blocks);
            let block = block * channels_at_once..channels.min((block + 1) * channels_at_once);
            for c in block.clone() {
                // SAFETY: no two tasks share an element of x.
                unsafe { self.scale(self.x.plane(n, group * channels + c)) };
            }
            with_scratch(|scratch| {
                for pixel in (0..pixels).step_by(at_once) {
                    let piece = pixel..pixels.min(pixel + at_once);
                    // SAFETY: no two tasks share an element of x, and the products of a block and piece fit the tile.
                    unsafe { self.block(n, group, block.clone(), piece, Matrix::new(scratch.cast(), width, 1)) };
                }
            });
        });
    }

    /// `plane = beta·plane`
    unsafe fn scale(&self, plane: *mut S) {
        let [_, _, sd, sh, sw] = self.x.strides;
        for d in 0..self.extents[0] {
            for h in 0..self.extents[1] {
                for w in 0..self.extents[2] {
                    // SAFETY: a position of the plane.
                    unsafe {
                        let at = plane.add(d * sd + h * sh + w * sw);
                        let old = if self.beta == S::Real::default() { self.beta } else { self.beta * (*at).load() };
                        *at = S::store(old);
                    }
                }
            }
        }
    }

    unsafe fn block(&self, n: usize, group: usize, block: Range<usize>, pixels: Range<usize>, tile: Matrix<S::Real>) {
        // One order keeps a channel's rows together, the other a tap's: each run of rows is one product.
        let (channel_step, tap_step) = self.columns.row_steps();
        let taps = self.columns.taps();
        let (runs, run) = if channel_step == 1 && taps > 1 { (taps, block.len()) } else { (1, block.len() * taps) };
        let Some(y) = S::as_real(self.y.plane(n, group * self.maps)) else { return };
        // SAFETY: the caller promises valid tensors and room for the tile.
        unsafe {
            let y = Matrix::new(y.add(pixels.start * self.y_pixel), self.y.strides[1], self.y_pixel);
            for r in 0..runs {
                let row = block.start * channel_step + r * tap_step;
                let w = Matrix::new(
                    self.w.at.add(group * self.group_stride + row * self.w.column),
                    self.w.column,
                    self.w.row,
                );
                let to = Matrix::new(tile.at.add(r * run * tile.row), tile.row, 1);
                multiply([run, pixels.len(), self.maps], (to, S::Real::default()), self.alpha, w, y);
            }
        }
        for (i, c) in block.enumerate() {
            for tap in 0..taps {
                let row = if runs > 1 { tap * run + i } else { i * taps + tap };
                // SAFETY: the row is one of the tile's.
                unsafe {
                    self.add(
                        self.x.plane(n, group * self.columns.channels + c),
                        tap,
                        pixels.clone(),
                        tile.at.add(row * tile.row),
                    )
                };
            }
        }
    }

    /// Adds one tap's products at `pixels` to the plane.
    unsafe fn add(&self, plane: *mut S, tap: usize, pixels: Range<usize>, products: *const S::Real) {
        let Some(plane) = S::as_real(plane) else { return };
        let [_, height, width]: &[Axis; 3] = &self.columns.axes;
        let (td, th, tw) = (tap / width.taps / height.taps, tap / width.taps % height.taps, tap % width.taps);
        let inside = width.inside(tw);
        let step = width.source_step * self.x.strides[4];
        let mut pixel = pixels.start;
        while pixel < pixels.end {
            let (line, begin) = (pixel / width.count, pixel % width.count);
            let end = width.count.min(begin + pixels.end - pixel);
            let (low, high) = (inside.0.clamp(begin, end), inside.1.clamp(begin, end));
            if let Some(at) =
                self.columns.line([td, th], [line / height.count, line % height.count]).filter(|_| low < high)
            {
                let first = (low * width.source_step) as isize + width.offset_of(tw);
                // SAFETY: `inside` and `line` keep positions in the plane; the products are the piece's.
                unsafe {
                    let to = plane.add(at.wrapping_add_signed(first * self.x.strides[4] as isize));
                    let from = std::slice::from_raw_parts(products.add(pixel - pixels.start + low - begin), high - low);
                    if step == 1 {
                        for (to, &new) in std::slice::from_raw_parts_mut(to, from.len()).iter_mut().zip(from) {
                            *to = *to + new;
                        }
                    } else {
                        for (i, &new) in from.iter().enumerate() {
                            *to.add(i * step) = *to.add(i * step) + new;
                        }
                    }
                }
            }
            pixel += end - begin;
        }
    }
}
