//! Two-dimensional transforms of real planes, a few at a time, in and out of matrices that lie frequency by frequency.

use super::super::element::Real;
use hostdnn_fft::{Complex, Plans};

/// Plans for planes of one size.
pub struct Transform<T> {
    height: usize,
    /// Frequencies along the width: `width / 2 + 1`.
    half: usize,
    width: usize,
    plans: Plans<T>,
}

impl<T: Real> Transform<T> {
    pub fn new(height: usize, width: usize) -> Self {
        let plans = T::plans(height, width).expect("only types with transforms come here");
        Self { height, half: width / 2 + 1, width, plans }
    }

    fn scratch_len(&self) -> usize {
        let Plans { forward_line, inverse_line, forward_column, inverse_column } = &self.plans;
        let lines = forward_line.get_scratch_len().max(inverse_line.get_scratch_len());
        let columns = forward_column.get_inplace_scratch_len().max(inverse_column.get_inplace_scratch_len());
        lines.max(columns)
    }
}

/// The spectra of a few planes, each with the frequencies along the height innermost, and room to compute them.
pub struct Planes<'a, T> {
    transform: &'a Transform<T>,
    spectra: &'a mut [Complex<T>],
    half_line: &'a mut [Complex<T>],
    scratch: &'a mut [Complex<T>],
    line: &'a mut [T],
}

impl<'a, T: Real> Planes<'a, T> {
    /// # Safety
    /// `memory` is aligned to cache lines, holds numbers of any value and is nobody else's for `'a`. It has room for
    /// `count` spectra and a few times `height + width` numbers.
    pub unsafe fn new(transform: &'a Transform<T>, memory: *mut u8, count: usize) -> Self {
        let sizes = [count * transform.height * transform.half, transform.half, transform.scratch_len()];
        let mut next = memory.cast::<Complex<T>>();
        let mut take = |len: usize| {
            // SAFETY: the caller's promise; the parts follow one another.
            unsafe {
                let part = std::slice::from_raw_parts_mut(next, len);
                next = next.add(len);
                part
            }
        };
        let [spectra, half_line, scratch] = sizes.map(&mut take);
        // SAFETY: the caller promises room for the line behind the other parts.
        let line = unsafe { std::slice::from_raw_parts_mut(next.cast(), transform.width) };
        Self { transform, spectra, half_line, scratch, line }
    }

    fn spectrum(&self, plane: usize) -> std::ops::Range<usize> {
        let len = self.transform.height * self.transform.half;
        plane * len..(plane + 1) * len
    }

    /// Transforms a plane: `fill(row, line)` writes lines `rows.0..rows.1` over zeros; all other lines are 0.
    pub fn transform(&mut self, plane: usize, rows: (usize, usize), fill: impl Fn(usize, &mut [T])) {
        let range = self.spectrum(plane);
        let spectrum = &mut self.spectra[range];
        spectrum.fill(Complex::default());
        for row in rows.0..rows.1 {
            self.line.fill(T::default());
            fill(row, self.line);
            let done = self.transform.plans.forward_line.process_with_scratch(self.line, self.half_line, self.scratch);
            assert!(done.is_ok(), "buffers have the plan's lengths");
            for (column, &value) in spectrum.chunks_exact_mut(self.transform.height).zip(&*self.half_line) {
                column[row] = value;
            }
        }
        self.transform.plans.forward_column.process_with_scratch(spectrum, self.scratch);
    }

    /// Transforms a plane's spectrum back and calls `take(row, line)` for its first `rows` lines.
    pub fn invert(&mut self, plane: usize, rows: usize, take: impl Fn(usize, &[T])) {
        let range = self.spectrum(plane);
        let spectrum = &mut self.spectra[range];
        self.transform.plans.inverse_column.process_with_scratch(spectrum, self.scratch);
        let scale = T::of(1.0 / (self.transform.height * self.transform.width) as f64);
        for row in 0..rows {
            for (column, value) in spectrum.chunks_exact(self.transform.height).zip(&mut *self.half_line) {
                *value = column[row] * scale;
            }
            // Real by symmetry, except for rounding.
            self.half_line[0].im = T::default();
            if self.transform.width.is_multiple_of(2) {
                self.half_line[self.transform.half - 1].im = T::default();
            }
            let done = self.transform.plans.inverse_line.process_with_scratch(self.half_line, self.line, self.scratch);
            assert!(done.is_ok(), "buffers have the plan's lengths");
            take(row, self.line);
        }
    }

    /// Writes the first `count` spectra side by side: frequency f of plane i to `to + f·step + i`.
    ///
    /// # Safety
    /// These places are writable.
    pub unsafe fn write(&self, to: *mut Complex<T>, step: usize, count: usize) {
        let len = self.spectrum(0).len();
        for frequency in 0..len {
            for plane in 0..count {
                // SAFETY: the caller's promise.
                unsafe { to.add(frequency * step + plane).write(self.spectra[plane * len + frequency]) };
            }
        }
    }

    /// Reads what [`Self::write`] wrote.
    ///
    /// # Safety
    /// These places are readable.
    pub unsafe fn read(&mut self, from: *const Complex<T>, step: usize, count: usize) {
        let len = self.spectrum(0).len();
        for frequency in 0..len {
            for plane in 0..count {
                // SAFETY: the caller's promise.
                self.spectra[plane * len + frequency] = unsafe { from.add(frequency * step + plane).read() };
            }
        }
    }
}
