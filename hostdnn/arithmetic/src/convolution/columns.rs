//! Column matrices (im2col): row (channel, tap), column destination position, in pieces of any size.

use super::correlation::{Axis, Correlation, Filter};
use super::element::{Matrix, Storage};
use super::memory::Shared;
use std::ops::Range;

/// The order of a column matrix's rows; the filter matrix's columns have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All taps of a channel together, as filters lie in NCHW.
    ChannelTap,
    /// All channels of a tap together, as filters lie in NHWC.
    TapChannel,
}

/// The column matrix of one image and group.
pub struct Columns {
    pub axes: [Axis; 3],
    pub channels: usize,
    /// Strides of the source: n, c, d, h, w.
    pub strides: [usize; 5],
    pub order: Order,
    /// Source lines by (depth tap, height tap, depth position, height position), if computed beforehand: see [`Self::write_lines`].
    pub lines: Option<Shared<isize>>,
}

const OUTSIDE: isize = -1;

impl Columns {
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }

    pub fn rows(&self) -> usize {
        self.channels * self.taps()
    }

    pub fn pixels(&self) -> usize {
        self.axes.iter().map(|a| a.count).product()
    }

    /// Rows that one channel, and one tap, are apart.
    pub fn row_steps(&self) -> (usize, usize) {
        match self.order {
            Order::ChannelTap => (self.taps(), 1),
            Order::TapChannel => (1, self.channels),
        }
    }

    /// How many lines [`Self::write_lines`] writes.
    pub fn lines_len(axes: &[Axis; 3]) -> usize {
        axes[0].taps * axes[1].taps * axes[0].count * axes[1].count
    }

    /// # Safety
    /// `to` is writable for [`Self::lines_len`] elements.
    pub unsafe fn write_lines(&mut self, to: Shared<isize>) {
        let [depth, height, _] = self.axes;
        let mut next = 0;
        for td in 0..depth.taps {
            for th in 0..height.taps {
                for od in 0..depth.count {
                    for oh in 0..height.count {
                        let line = self.line([td, th], [od, oh]).map_or(OUTSIDE, |line| line as isize);
                        // SAFETY: `next` counts up to `lines_len`.
                        unsafe { to.at(next).write(line) };
                        next += 1;
                    }
                }
            }
        }
        self.lines = Some(to);
    }

    /// The source line that two taps meet at two positions, from the plane's start; `None` in the padding.
    pub fn line(&self, [td, th]: [usize; 2], [od, oh]: [usize; 2]) -> Option<usize> {
        let [depth, height, _] = &self.axes;
        match self.lines {
            Some(lines) => {
                let index = ((td * height.taps + th) * depth.count + od) * height.count + oh;
                // SAFETY: `write_lines` wrote an element for every such index.
                usize::try_from(unsafe { lines.at(index).read() }).ok()
            }
            None => Some(depth.source(od, td)? * self.strides[2] + height.source(oh, th)? * self.strides[3]),
        }
    }

    /// The element of a filter (from its group's first) that belongs to `row`.
    pub fn filter_offset<S>(&self, filter: &Filter<S>, row: usize) -> usize {
        let (c, tap) = match self.order {
            Order::ChannelTap => (row / self.taps(), row % self.taps()),
            Order::TapChannel => (row % self.channels, row / self.channels),
        };
        c * filter.reduce + self.tap_offset(filter, tap)
    }

    fn tap_offset<S>(&self, filter: &Filter<S>, tap: usize) -> usize {
        let [_, height, width] = &self.axes;
        let at = [tap / width.taps / height.taps, tap / width.taps % height.taps, tap % width.taps];
        (0..3).map(|d| at[d] * self.axes[d].tap_step * filter.tap[d]).sum()
    }

    /// The channels whose rows for `tap` lie in `rows`.
    fn channels_in(&self, rows: &Range<usize>, tap: usize) -> Range<usize> {
        let (channel_step, tap_step) = self.row_steps();
        let from = |row: usize| row.saturating_sub(tap * tap_step).div_ceil(channel_step).min(self.channels);
        from(rows.start)..from(rows.end)
    }

    /// Writes the piece `rows` × `pixels` to `to` and returns its layout.
    ///
    /// # Safety
    /// `source` is the image's first channel in the group, readable as the strides say; `to` is writable for rows × pixels
    /// elements, the pixels rounded up to a multiple of 16.
    pub unsafe fn pack<S: Storage>(
        &self,
        source: *const S,
        rows: Range<usize>,
        pixels: Range<usize>,
        to: *mut S::Real,
    ) -> Matrix<S::Real> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.strides[1] == 1 && self.channels > 1 {
                let leading = rows.len();
                self.pack_channels(source, rows, pixels, to);
                Matrix::new(to, 1, leading)
            } else {
                let leading = pixels.len().next_multiple_of(16);
                self.pack_planes(source, rows, pixels, to, leading);
                Matrix::new(to, leading, 1)
            }
        }
    }

    /// Row after row, by runs of positions along w.
    unsafe fn pack_planes<S: Storage>(
        &self,
        source: *const S,
        rows: Range<usize>,
        pixels: Range<usize>,
        to: *mut S::Real,
        leading: usize,
    ) {
        let [depth, height, width] = &self.axes;
        let (channel_step, tap_step) = self.row_steps();
        for tap in 0..self.taps() {
            let (td, th, tw) = (tap / width.taps / height.taps, tap / width.taps % height.taps, tap % width.taps);
            let channels = self.channels_in(&rows, tap);
            if channels.is_empty() {
                continue;
            }
            let inside = width.inside(tw);
            let mut pixel = pixels.start;
            while pixel < pixels.end {
                let (line, begin) = (pixel / width.count, pixel % width.count);
                let end = width.count.min(begin + pixels.end - pixel);
                let position = [line / height.count, line % height.count];
                assert!(position[0] < depth.count);
                let (low, high, from) = match self.line([td, th], position) {
                    Some(from) => {
                        let (low, high) = (inside.0.clamp(begin, end), inside.1.clamp(begin, end));
                        let first = (low * width.source_step) as isize + width.offset_of(tw);
                        (low, high, from.wrapping_add_signed(first * self.strides[4] as isize))
                    }
                    None => (end, end, 0),
                };
                for c in channels.clone() {
                    let row = c * channel_step + tap * tap_step - rows.start;
                    // SAFETY: the run begins at pixel − pixels.start of a row in the piece and ends inside it; `inside`
                    // and `line` keep the reads inside the source.
                    unsafe {
                        let run = to.add(row * leading + pixel - pixels.start);
                        let run = std::slice::from_raw_parts_mut(run, end - begin);
                        run[..low - begin].fill(S::Real::default());
                        if low < high {
                            let from = source.add(c * self.strides[1] + from);
                            S::load_run(from, width.source_step * self.strides[4], &mut run[low - begin..high - begin]);
                        }
                        run[high.max(low) - begin..].fill(S::Real::default());
                    }
                }
                pixel += end - begin;
            }
        }
    }

    /// Position after position, by runs of channels, which lie side by side in the source.
    unsafe fn pack_channels<S: Storage>(
        &self,
        source: *const S,
        rows: Range<usize>,
        pixels: Range<usize>,
        to: *mut S::Real,
    ) {
        let [_, height, width] = &self.axes;
        let (channel_step, tap_step) = self.row_steps();
        let leading = rows.len();
        for tap in 0..self.taps() {
            let (td, th, tw) = (tap / width.taps / height.taps, tap / width.taps % height.taps, tap % width.taps);
            let channels = self.channels_in(&rows, tap);
            if channels.is_empty() {
                continue;
            }
            let first_row = channels.start * channel_step + tap * tap_step - rows.start;
            for pixel in pixels.clone() {
                let (line, ow) = (pixel / width.count, pixel % width.count);
                let line = self.line([td, th], [line / height.count, line % height.count]);
                let from =
                    line.zip(width.source(ow, tw)).map(|(line, iw)| line + iw * self.strides[4] + channels.start);
                let run = (pixel - pixels.start) * leading + first_row;
                // SAFETY: rows first_row, first_row + channel_step, … of the position's column lie in the piece, and
                // the channels read lie in the source.
                unsafe {
                    if channel_step == 1 {
                        let run = std::slice::from_raw_parts_mut(to.add(run), channels.len());
                        match from {
                            Some(from) => S::load_run(source.add(from), 1, run),
                            None => run.fill(S::Real::default()),
                        }
                    } else {
                        for i in 0..channels.len() {
                            let value = from.map_or(S::Real::default(), |from| (*source.add(from + i)).load());
                            to.add(run + i * channel_step).write(value);
                        }
                    }
                }
            }
        }
    }
}

/// The order of rows in which the filter, if possible, is a matrix in its own memory.
pub fn order_for<S: Storage>(filter: &Filter<S>, axes: &[Axis; 3], channels: usize) -> Order {
    let suits = |order| filter.column_stride(axes, channels, order).is_some();
    if !suits(Order::ChannelTap) && suits(Order::TapChannel) { Order::TapChannel } else { Order::ChannelTap }
}

impl<S: Storage> Correlation<S> {
    /// The columns of a phase.
    pub fn columns(&self, axes: [Axis; 3]) -> Columns {
        let order = order_for(&self.filter, &axes, self.reduce);
        Columns { axes, channels: self.reduce, strides: self.source.strides, order, lines: None }
    }
}

impl<S: Storage> Filter<S> {
    /// The one stride between the filter matrix's columns in `order`, if there is one.
    pub fn column_stride(&self, axes: &[Axis; 3], reduce: usize, order: Order) -> Option<usize> {
        let taps = [0, 1, 2].map(|d| (axes[d].taps, self.tap[d] * axes[d].tap_step));
        let channels = (reduce, self.reduce);
        let dimensions = match order {
            Order::ChannelTap => [channels, taps[0], taps[1], taps[2]],
            Order::TapChannel => [taps[0], taps[1], taps[2], channels],
        };
        let (mut stride, mut span) = (None, 1);
        for (extent, step) in dimensions.into_iter().rev().filter(|&(extent, _)| extent > 1) {
            if step != *stride.get_or_insert(step) * span {
                return None;
            }
            span *= extent;
        }
        Some(stride.unwrap_or(1))
    }

    /// The first filter element of a phase in a group.
    pub fn first(&self, axes: &[Axis; 3], group: usize) -> *mut S {
        let tap: usize = (0..3).map(|d| axes[d].tap_first * self.tap[d]).sum();
        self.data.at(group * self.group + tap)
    }

    /// The filter matrix's piece `rows` × `columns`, by reference if the filter has this layout in memory.
    pub fn matrix(&self, columns: &Columns, group: usize) -> Option<Matrix<S::Real>> {
        let stride = self.column_stride(&columns.axes, columns.channels, columns.order)?;
        Some(Matrix::new(S::as_real(self.first(&columns.axes, group))?, self.row, stride))
    }

    /// Writes the piece `rows` × `which` (of the columns) of the filter matrix to `to`, row after row.
    ///
    /// # Safety
    /// `to` is writable for `rows.len() × which.len()` elements; the filter is readable.
    pub unsafe fn pack(
        &self,
        columns: &Columns,
        group: usize,
        rows: Range<usize>,
        which: Range<usize>,
        to: *mut S::Real,
    ) -> Matrix<S::Real> {
        let (channel_step, tap_step) = columns.row_steps();
        let first = self.first(&columns.axes, group);
        let leading = which.len();
        for tap in 0..columns.taps() {
            let offset = columns.tap_offset(self, tap);
            let channels = columns.channels_in(&which, tap);
            for row in rows.clone() {
                for c in channels.clone() {
                    let column = c * channel_step + tap * tap_step - which.start;
                    // SAFETY: the column lies in the piece by `channels_in`; the element is one of the filter's.
                    unsafe {
                        let from = first.add(row * self.row + c * self.reduce + offset);
                        to.add((row - rows.start) * leading + column).write((*from).load());
                    }
                }
            }
        }
        Matrix::new(to, leading, 1)
    }
}
