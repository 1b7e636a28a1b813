//! Matrix products of rows: by the `gemm` crate, and for few rows by loops that read the matrix once.
//!
//! The `gemm` crate packs the matrix at each call, which costs more than the product where the rows are few.
#![allow(unsafe_code)] // The threads write parts of the same rows, and `gemm` takes pointers.

use pulp::{Arch, Simd, WithSimd};

use super::real::Real;
use super::threads::share;

/// Rows of numbers: each begins `stride` behind the one before.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, C> {
    numbers: &'a [C],
    stride: usize,
    width: usize,
    count: usize,
}

impl<'a, C: Real> Rows<'a, C> {
    /// `count` rows, the first at the beginning of `numbers`.
    pub fn new(numbers: &'a [C], stride: usize, width: usize, count: usize) -> Self {
        assert!(width <= stride && (count == 0 || (count - 1) * stride + width <= numbers.len()), "rows out of range");
        Self { numbers, stride, width, count }
    }

    /// One of them.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [C] {
        &self.numbers[row * self.stride..][..self.width]
    }
}

/// Rows that a product writes.
pub(super) struct RowsMut<'a, C> {
    numbers: &'a mut [C],
    stride: usize,
    width: usize,
    count: usize,
}

impl<'a, C: Real> RowsMut<'a, C> {
    /// `count` rows, the first at the beginning of `numbers`.
    pub fn new(numbers: &'a mut [C], stride: usize, width: usize, count: usize) -> Self {
        let _ = Rows::new(numbers, stride, width, count);
        Self { numbers, stride, width, count }
    }
}

/// The place of a matrix, for threads that write different parts of it.
#[derive(Clone, Copy)]
struct Target<C> {
    first: *mut C,
    stride: usize,
}

// SAFETY: it is memory that one `RowsMut` borrows, and the threads write different elements.
unsafe impl<C: Send> Sync for Target<C> {}

impl<C: Real> Target<C> {
    fn of(rows: &mut RowsMut<C>) -> Self {
        Self { first: rows.numbers.as_mut_ptr(), stride: rows.stride }
    }

    /// The first element of a row.
    fn row(self, row: usize) -> *mut C {
        self.first.wrapping_add(row * self.stride)
    }

    /// Some elements of a row.
    ///
    /// # Safety
    /// They are in the rows that `of` got, and nobody else uses them meanwhile.
    #[inline(always)]
    unsafe fn part<'a>(self, row: usize, first: usize, width: usize) -> &'a mut [C] {
        // SAFETY: the caller promises that the elements are borrowed by nobody else and in range.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.stride + first), width) }
    }
}

/// Up to this number of rows the loops here are faster than the `gemm` crate, which first packs the whole matrix.
const FEW: usize = 48;

/// The most products that one sum adds up: a longer one would round each product to the size of the whole.
const MOST_SUMMED: usize = 128;

/// The same where rows are added up one by one, and the columns of which a thread adds up at once.
const GROUP: usize = 16;
const LEAST: usize = 64;

/// Multiplications that are worth another thread: some 100 µs. Waking it takes a few, but where another library's
/// threads spin, as OpenMP's do for milliseconds behind their own work, it may wait for the processor.
const WORTH_A_THREAD: usize = 1 << 22;

fn parts_of(columns: usize, products_a_column: usize) -> usize {
    (WORTH_A_THREAD / products_a_column.max(1)).clamp(1, columns.max(1))
}

/// y = x Pᵀ, row by row: P has y's width in rows and x's width in columns, without gaps.
pub(super) fn multiply<C: Real>(threads: usize, matrix: &[C], x: Rows<C>, mut y: RowsMut<C>) {
    let (rows, columns) = (y.width, x.width);
    assert!(matrix.len() == rows * columns && x.count == y.count, "sizes of a product");
    let target = Target::of(&mut y);
    if x.count <= FEW {
        let work = |first: usize, end: usize| Arch::new().dispatch(Dots { matrix, x, target, first, end });
        share(threads, 0, rows, parts_of(rows, columns * x.count).next_multiple_of(4), &work);
    } else {
        let work = |first: usize, end: usize| {
            for part in (0..columns).step_by(MOST_SUMMED) {
                // SAFETY: rows of y, within its borrow, that no other thread writes; x and P are read, and in range.
                unsafe {
                    gemm(
                        [end - first, rows, MOST_SUMMED.min(columns - part)],
                        (target.row(first), [target.stride, 1]),
                        (x.numbers.as_ptr().add(first * x.stride + part), [x.stride, 1]),
                        (matrix.as_ptr().add(part), [1, columns]),
                        part > 0,
                    );
                }
            }
        };
        share(threads, 0, x.count, parts_of(x.count, rows * columns).max(FEW), &work);
    }
}

/// x = y P, row by row, with P as in [`multiply`].
pub(super) fn multiply_transposed<C: Real>(threads: usize, matrix: &[C], y: Rows<C>, mut x: RowsMut<C>) {
    let (rows, columns) = (y.width, x.width);
    assert!(matrix.len() == rows * columns && x.count == y.count, "sizes of a product");
    let target = Target::of(&mut x);
    if x.count <= FEW {
        let work = |first: usize, end: usize| Arch::new().dispatch(Sums { matrix, columns, y, target, first, end });
        share(threads, 0, columns, parts_of(columns, rows * x.count).next_multiple_of(64), &work);
    } else {
        let work = |first: usize, end: usize| {
            for part in (0..rows).step_by(MOST_SUMMED) {
                // SAFETY: as above.
                unsafe {
                    gemm(
                        [end - first, columns, MOST_SUMMED.min(rows - part)],
                        (target.row(first), [target.stride, 1]),
                        (y.numbers.as_ptr().add(first * y.stride + part), [y.stride, 1]),
                        (matrix.as_ptr().add(part * columns), [columns, 1]),
                        part > 0,
                    );
                }
            }
        };
        share(threads, 0, x.count, parts_of(x.count, rows * columns).max(FEW), &work);
    }
}

/// P = Σ y xᵀ over the rows of y and x, or P plus it.
pub(super) fn accumulate<C: Real>(threads: usize, y: Rows<C>, x: Rows<C>, matrix: &mut [C], adds: bool) {
    let (rows, columns) = (y.width, x.width);
    assert!(matrix.len() == rows * columns && x.count == y.count, "sizes of a product");
    let mut whole = RowsMut::new(matrix, columns, columns, rows);
    let target = Target::of(&mut whole);
    let least = parts_of(rows, columns * x.count);
    let work = |first: usize, end: usize| {
        if x.count <= FEW {
            return Arch::new().dispatch(Outer { y, x, target, first, end, adds });
        }
        // Shorter sums take longer, of which there is little where the rows are few.
        let summed = if x.count <= 4 * MOST_SUMMED { MOST_SUMMED / 4 } else { MOST_SUMMED };
        for part in (0..x.count).step_by(summed) {
            // SAFETY: rows of P, within its borrow, that no other thread writes; y and x are read, and in range.
            unsafe {
                gemm(
                    [end - first, columns, summed.min(x.count - part)],
                    (target.row(first), [columns, 1]),
                    (y.numbers.as_ptr().add(part * y.stride + first), [1, y.stride]),
                    (x.numbers.as_ptr().add(part * x.stride), [x.stride, 1]),
                    adds || part > 0,
                );
            }
        }
    };
    share(threads, 0, rows, least, &work);
}

/// The sum of rows, from a column on, or `to` plus it.
pub(super) fn sum_rows<C: Real>(threads: usize, rows: Rows<C>, first: usize, to: &mut [C], adds: bool) {
    if threads > 1 && to.len() >= 2 * LEAST {
        let (half, (left, right)) = (threads / 2, to.split_at_mut(to.len() * (threads / 2) / threads));
        let middle = first + left.len();
        rayon::join(|| sum_rows(half, rows, first, left, adds), || sum_rows(threads - half, rows, middle, right, adds));
        return;
    }
    if !adds {
        to.fill(C::ZERO);
    }
    for (part, to) in to.chunks_mut(LEAST).enumerate() {
        let first = first + part * LEAST;
        for group in (0..rows.count).step_by(GROUP) {
            let mut sums = [C::ZERO; LEAST];
            for row in group..rows.count.min(group + GROUP) {
                sums.iter_mut().zip(&rows.row(row)[first..][..to.len()]).for_each(|(sum, number)| *sum += *number);
            }
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        }
    }
}

/// c = a b, or c plus it: sizes are [rows, columns, inner], and each matrix has its steps by [row, column].
///
/// # Safety
/// The matrices a and b may be read, and c written, and c overlaps nothing.
unsafe fn gemm<C: Real>(
    [rows, columns, inner]: [usize; 3],
    (c, [c_row, c_column]): (*mut C, [usize; 2]),
    (a, [a_row, a_column]): (*const C, [usize; 2]),
    (b, [b_row, b_column]): (*const C, [usize; 2]),
    adds: bool,
) {
    let [cr, cc, ar, ac, br, bc] = [c_row, c_column, a_row, a_column, b_row, b_column].map(|step| step as isize);
    // SAFETY: the caller's promise. Parallelism is the caller's too.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            c,
            cc,
            cr,
            adds,
            a,
            ac,
            ar,
            b,
            bc,
            br,
            C::ONE,
            C::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        ); // fmt: skip
    }
}

/// y = x Pᵀ: the rows of P, and columns of y, from `first` to `end`.
struct Dots<'a, C> {
    matrix: &'a [C],
    x: Rows<'a, C>,
    target: Target<C>,
    first: usize,
    end: usize,
}

impl<C: Real> WithSimd for Dots<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut row = self.first;
        while row + 4 <= self.end {
            self.rows_of_matrix::<S, 4>(simd, row);
            row += 4;
        }
        while row < self.end {
            self.rows_of_matrix::<S, 1>(simd, row);
            row += 1;
        }
    }
}

impl<C: Real> Dots<'_, C> {
    #[inline(always)]
    fn rows_of_matrix<S: Simd, const P: usize>(&self, simd: S, row: usize) {
        let columns = self.x.width;
        let mut matrix: [&[C]; P] = [&[]; P];
        for (place, part) in matrix.iter_mut().enumerate() {
            *part = &self.matrix[(row + place) * columns..][..columns];
        }
        let mut at = 0;
        while at + 4 <= self.x.count {
            self.dots::<S, P, 4>(simd, row, matrix, at);
            at += 4;
        }
        while at < self.x.count {
            self.dots::<S, P, 1>(simd, row, matrix, at);
            at += 1;
        }
    }

    #[inline(always)]
    fn dots<S: Simd, const P: usize, const X: usize>(&self, simd: S, row: usize, matrix: [&[C]; P], at: usize) {
        let mut x: [&[C]; X] = [&[]; X];
        for (place, x) in x.iter_mut().enumerate() {
            *x = self.x.row(at + place);
        }
        let found = C::dots(simd, matrix, x);
        for (place, found) in found.iter().enumerate() {
            // SAFETY: this thread's columns of the rows that y has.
            unsafe { self.target.part(at + place, row, P) }.copy_from_slice(found);
        }
    }
}

/// x = y P: the columns of P and of x from `first` to `end`.
struct Sums<'a, C> {
    matrix: &'a [C],
    columns: usize,
    y: Rows<'a, C>,
    target: Target<C>,
    first: usize,
    end: usize,
}

impl<C: Real> WithSimd for Sums<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = C::lanes::<S>();
        let mut first = self.first;
        while first + 4 * lanes <= self.end {
            self.columns::<S, 4>(simd, first);
            first += 4 * lanes;
        }
        while first + lanes <= self.end {
            self.columns::<S, 1>(simd, first);
            first += lanes;
        }
        for column in first..self.end {
            for at in 0..self.y.count {
                let of_column = self.matrix[column..].iter().step_by(self.columns);
                let sum = self.y.row(at).iter().zip(of_column).fold(C::ZERO, |sum, (y, p)| y.fused(*p, sum));
                // SAFETY: this thread's columns of the rows that x has.
                unsafe { self.target.part(at, column, 1).fill(sum) };
            }
        }
    }
}

impl<C: Real> Sums<'_, C> {
    #[inline(always)]
    fn columns<S: Simd, const V: usize>(&self, simd: S, first: usize) {
        let mut at = 0;
        while at + 4 <= self.y.count {
            self.sums::<S, V, 4>(simd, first, at);
            at += 4;
        }
        while at < self.y.count {
            self.sums::<S, V, 1>(simd, first, at);
            at += 1;
        }
    }

    #[inline(always)]
    fn sums<S: Simd, const V: usize, const Y: usize>(&self, simd: S, first: usize, at: usize) {
        let mut y: [&[C]; Y] = [&[]; Y];
        for (place, y) in y.iter_mut().enumerate() {
            *y = self.y.row(at + place);
        }
        let width = V * C::lanes::<S>();
        // SAFETY: this thread's columns of the rows that x has, each of them once.
        let to = std::array::from_fn(|place| unsafe { self.target.part(at + place, first, width) });
        C::sums::<S, V, Y>(simd, self.matrix, self.columns, first, y, to);
    }
}

struct Outer<'a, C> {
    y: Rows<'a, C>,
    x: Rows<'a, C>,
    target: Target<C>,
    first: usize,
    end: usize,
    adds: bool,
}

impl<C: Real> WithSimd for Outer<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let columns = self.x.width;
        for row in self.first..self.end {
            // SAFETY: a row of P that no other thread writes.
            let to = unsafe { self.target.part(row, 0, columns) };
            if !self.adds {
                to.fill(C::ZERO);
            }
            for at in 0..self.x.count.min(GROUP) {
                let y = self.y.row(at)[row];
                to.iter_mut().zip(self.x.row(at)).for_each(|(to, x)| *to = y.fused(*x, *to));
            }
            for (part, to) in to.chunks_mut(LEAST).enumerate() {
                for group in (GROUP..self.x.count).step_by(GROUP) {
                    let mut sums = [C::ZERO; LEAST];
                    for at in group..self.x.count.min(group + GROUP) {
                        let (y, x) = (self.y.row(at)[row], &self.x.row(at)[part * LEAST..][..to.len()]);
                        for (sum, x) in sums.iter_mut().zip(x) {
                            *sum = y.fused(*x, *sum);
                        }
                    }
                    for (to, sum) in to.iter_mut().zip(sums) {
                        *to += sum;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn random(random: &mut StdRng, count: usize) -> Vec<f64> {
        (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
    }

    fn check(rows: usize, columns: usize, count: usize, threads: usize) {
        let mut rng = StdRng::seed_from_u64((rows * 1000 + columns * 10 + count) as u64);
        let (matrix, x_stride, y_stride) = (random(&mut rng, rows * columns), columns + 3, rows + 5);
        let x = random(&mut rng, count * x_stride);
        let mut y = vec![f64::NAN; count * y_stride];
        let (x_rows, x_at) = (Rows::new(&x, x_stride, columns, count), |row, column| x[row * x_stride + column]);
        multiply(threads, &matrix, x_rows, RowsMut::new(&mut y, y_stride, rows, count));
        let near = |found: f64, exact: f64| (found - exact).abs() < 1e-12 * (1.0 + columns.max(rows).max(count) as f64);
        for at in 0..count {
            for row in 0..rows {
                let exact = (0..columns).map(|column| x_at(at, column) * matrix[row * columns + column]).sum();
                assert!(near(y[at * y_stride + row], exact), "{rows}x{columns}, {count} rows");
            }
            assert!(y[at * y_stride + rows..][..5].iter().all(|number| number.is_nan()), "between the rows");
        }
        let dy = random(&mut rng, count * y_stride);
        let dy_rows = Rows::new(&dy, y_stride, rows, count);
        let mut dx = vec![f64::NAN; count * x_stride];
        multiply_transposed(threads, &matrix, dy_rows, RowsMut::new(&mut dx, x_stride, columns, count));
        for at in 0..count {
            for column in 0..columns {
                let exact = (0..rows).map(|row| dy[at * y_stride + row] * matrix[row * columns + column]).sum();
                assert!(near(dx[at * x_stride + column], exact), "{rows}x{columns}, {count} rows, transposed");
            }
        }
        for adds in [false, true] {
            let mut sum = if adds { matrix.clone() } else { vec![f64::NAN; rows * columns] };
            accumulate(threads, dy_rows, x_rows, &mut sum, adds);
            for row in 0..rows {
                for column in 0..columns {
                    let exact: f64 = (0..count).map(|at| dy[at * y_stride + row] * x_at(at, column)).sum();
                    let exact = exact + if adds { matrix[row * columns + column] } else { 0.0 };
                    assert!(near(sum[row * columns + column], exact), "{rows}x{columns}, {count} rows, accumulated");
                }
            }
        }
    }

    #[test]
    fn products_are_right() {
        for (rows, columns) in [(1, 1), (3, 7), (8, 64), (130, 65), (31, 200)] {
            for count in [0, 1, 2, 5, FEW, FEW + 1, 90] {
                check(rows, columns, count, 1);
                super::super::threads::Threads::new(2).run(|threads| check(rows, columns, count, threads));
            }
        }
    }
}
