//! The small matrices of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", and their application to
//! sixteen tiles at once.
//!
//! A 1-D correlation of m outputs with r taps at t = m + r − 1 points is `Aᵀ[(G g) ⊙ (Bᵀ d)]`; nested, the 2-D one is
//! `Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A`. Transposing that bilinear form in `g` gives the filter's gradient,
//! `Gᵀ[(Bᵀ d B) ⊙ (A y Aᵀ)]G`.

use pulp::{Arch, Simd, WithSimd};

/// Tiles that are transformed together.
pub const LANES: usize = 16;

/// A constant matrix of `O` rows and `I` columns.
pub trait Matrix<const O: usize, const I: usize> {
    const ENTRIES: [[f32; I]; O];
}

/// F(m×m, r×r): the three matrices. Points 0, 1, −1, (2, −2,) ∞.
pub trait Variant<const T: usize, const M: usize, const R: usize> {
    type Input: Matrix<T, T>;
    type Filter: Matrix<T, R>;
    type Output: Matrix<M, T>;
}

pub struct Input4;
pub struct Input6;
pub struct Filter4x3;
pub struct Filter6x3;
pub struct Filter6x5;
pub struct Output2x4;
pub struct Output4x6;
pub struct Output2x6;

impl Matrix<4, 4> for Input4 {
    const ENTRIES: [[f32; 4]; 4] = [[1., 0., -1., 0.], [0., 1., 1., 0.], [0., -1., 1., 0.], [0., -1., 0., 1.]];
}

impl Matrix<6, 6> for Input6 {
    const ENTRIES: [[f32; 6]; 6] = [
        [4., 0., -5., 0., 1., 0.],
        [0., -4., -4., 1., 1., 0.],
        [0., 4., -4., -1., 1., 0.],
        [0., -2., -1., 2., 1., 0.],
        [0., 2., -1., -2., 1., 0.],
        [0., 4., 0., -5., 0., 1.],
    ];
}

impl Matrix<4, 3> for Filter4x3 {
    const ENTRIES: [[f32; 3]; 4] = [[1., 0., 0.], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0., 0., 1.]];
}

const fn filter6<const R: usize>() -> [[f32; R]; 6] {
    // A point's powers over the product of its differences from the other finite points.
    const POINTS: [(f64, f64); 5] = [(0., 4.), (1., -6.), (-1., -6.), (2., 24.), (-2., 24.)];
    let mut entries = [[0.0; R]; 6];
    let mut row = 0;
    while row < 5 {
        let (point, scale) = POINTS[row];
        let (mut power, mut column) = (1.0, 0);
        while column < R {
            entries[row][column] = (power / scale) as f32;
            power *= point;
            column += 1;
        }
        row += 1;
    }
    entries[5][R - 1] = 1.0;
    entries
}

impl Matrix<6, 3> for Filter6x3 {
    const ENTRIES: [[f32; 3]; 6] = filter6();
}

impl Matrix<6, 5> for Filter6x5 {
    const ENTRIES: [[f32; 5]; 6] = filter6();
}

impl Matrix<2, 4> for Output2x4 {
    const ENTRIES: [[f32; 4]; 2] = [[1., 1., 1., 0.], [0., 1., -1., 1.]];
}

impl Matrix<4, 6> for Output4x6 {
    const ENTRIES: [[f32; 6]; 4] =
        [[1., 1., 1., 1., 1., 0.], [0., 1., -1., 2., -2., 0.], [0., 1., 1., 4., 4., 0.], [0., 1., -1., 8., -8., 1.]];
}

impl Matrix<2, 6> for Output2x6 {
    const ENTRIES: [[f32; 6]; 2] = [[1., 1., 1., 1., 1., 0.], [0., 1., -1., 2., -2., 1.]];
}

/// The transpose of a matrix.
pub struct Transposed<X>(X);

impl<const O: usize, const I: usize, X: Matrix<I, O>> Matrix<O, I> for Transposed<X> {
    const ENTRIES: [[f32; I]; O] = {
        let mut entries = [[0.0; I]; O];
        let mut o = 0;
        while o < O {
            let mut i = 0;
            while i < I {
                entries[o][i] = X::ENTRIES[i][o];
                i += 1;
            }
            o += 1;
        }
        entries
    };
}

/// F(2×2, 3×3).
pub struct F2x3;
/// F(4×4, 3×3).
pub struct F4x3;
/// F(2×2, 5×5).
pub struct F2x5;

impl Variant<4, 2, 3> for F2x3 {
    type Input = Input4;
    type Filter = Filter4x3;
    type Output = Output2x4;
}

impl Variant<6, 4, 3> for F4x3 {
    type Input = Input6;
    type Filter = Filter6x3;
    type Output = Output4x6;
}

impl Variant<6, 2, 5> for F2x5 {
    type Input = Input6;
    type Filter = Filter6x5;
    type Output = Output2x6;
}

/// `X·v` for a constant matrix: zeros cost nothing and ones no multiplication.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "o and i index constants that the loops are unrolled for")]
fn apply<S: Simd, X: Matrix<O, I>, const O: usize, const I: usize>(simd: S, v: [S::f32s; I]) -> [S::f32s; O] {
    let mut result = [simd.splat_f32s(0.0); O];
    for o in 0..O {
        let mut sum = None;
        for i in 0..I {
            let entry = X::ENTRIES[o][i];
            sum = match sum {
                sum if entry == 0.0 => sum,
                None if entry == 1.0 => Some(v[i]),
                None => Some(simd.mul_f32s(simd.splat_f32s(entry), v[i])),
                Some(sum) if entry == 1.0 => Some(simd.add_f32s(sum, v[i])),
                Some(sum) if entry == -1.0 => Some(simd.sub_f32s(sum, v[i])),
                Some(sum) => Some(simd.mul_add_f32s(simd.splat_f32s(entry), v[i], sum)),
            };
        }
        result[o] = sum.unwrap_or(simd.splat_f32s(0.0));
    }
    result
}

struct Sandwich<X, const O: usize, const I: usize> {
    from: *const f32,
    from_step: usize,
    to: *mut f32,
    to_step: usize,
    matrix: std::marker::PhantomData<X>,
}

impl<X: Matrix<O, I>, const O: usize, const I: usize> WithSimd for Sandwich<X, O, I> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "j indexes columns of rows")]
    fn with_simd<S: Simd>(self, simd: S) {
        for lane in (0..LANES).step_by(S::F32_LANES) {
            let mut half = [[simd.splat_f32s(0.0); I]; O];
            for j in 0..I {
                let mut column = [simd.splat_f32s(0.0); I];
                for (i, element) in column.iter_mut().enumerate() {
                    // SAFETY: `transform`'s caller promises LANES numbers at every position.
                    *element = unsafe {
                        self.from.add((i * I + j) * self.from_step + lane).cast::<S::f32s>().read_unaligned()
                    };
                }
                for (o, value) in apply::<S, X, O, I>(simd, column).into_iter().enumerate() {
                    half[o][j] = value;
                }
            }
            for (o, row) in half.into_iter().enumerate() {
                for (p, value) in apply::<S, X, O, I>(simd, row).into_iter().enumerate() {
                    // SAFETY: `transform`'s caller promises LANES numbers at every position.
                    unsafe { self.to.add((o * O + p) * self.to_step + lane).cast::<S::f32s>().write_unaligned(value) };
                }
            }
        }
    }
}

/// `X·D·Xᵀ` for [`LANES`] tiles `D` side by side: position `p` (row-major) of all of them lies at `from + p·from_step`, and
/// of the results at `to + p·to_step`.
///
/// # Safety
/// [`LANES`] numbers are readable, and writable, at each position.
#[inline]
pub unsafe fn transform<X: Matrix<O, I>, const O: usize, const I: usize>(
    arch: Arch,
    (from, from_step): (*const f32, usize),
    (to, to_step): (*mut f32, usize),
) {
    arch.dispatch(Sandwich::<X, O, I> { from, from_step, to, to_step, matrix: std::marker::PhantomData });
}
