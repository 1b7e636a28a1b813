//! Products of few rows with a matrix, by the processor's widest vectors. The matrix is read once for every four rows.

use pulp::Simd;

/// The most rows of a matrix that one sum adds up: a longer one would round each product to the size of the whole.
const MOST_SUMMED: usize = 32;

/// Numbers that fill vectors.
pub trait Vectors: Copy {
    /// Σ of each matrix row times each x, all as wide as the matrix.
    fn dots<S: Simd, const P: usize, const X: usize>(simd: S, matrix: [&[Self]; P], x: [&[Self]; X]) -> [[Self; P]; X];

    /// The columns from `first` on, V vectors wide, of each y times the matrix, which has `columns` columns.
    fn sums<S: Simd, const V: usize, const Y: usize>(
        simd: S,
        matrix: &[Self],
        columns: usize,
        first: usize,
        y: [&[Self]; Y],
        to: [&mut [Self]; Y],
    );

    /// The numbers of a vector.
    fn lanes<S: Simd>() -> usize;
}

macro_rules! vectors {
    ($real:ty, $vector:ident, $lanes:ident, $parts:ident, $parts_mut:ident, $splat:ident, $fused:ident, $add:ident, $sum:ident) => {
        impl Vectors for $real {
            #[inline(always)]
            fn dots<S: Simd, const P: usize, const X: usize>(
                simd: S,
                matrix: [&[Self]; P],
                x: [&[Self]; X],
            ) -> [[Self; P]; X] {
                // Loops and no closures: a closure would be compiled without the processor's vectors.
                let width = matrix[0].len();
                let mut sums = [[simd.$splat(0.0); P]; X];
                let mut columns = [&[] as &[S::$vector]; P];
                let mut rows = [&[] as &[S::$vector]; X];
                let whole = width / S::$lanes;
                for place in 0..P {
                    columns[place] = &S::$parts(matrix[place]).0[..whole];
                }
                for place in 0..X {
                    rows[place] = &S::$parts(x[place]).0[..whole];
                }
                for column in 0..whole {
                    for (sums, x) in sums.iter_mut().zip(&rows) {
                        for (sum, matrix) in sums.iter_mut().zip(&columns) {
                            *sum = simd.$fused(x[column], matrix[column], *sum);
                        }
                    }
                }
                let mut found = [[0.0; P]; X];
                for place in 0..X {
                    for row in 0..P {
                        let mut sum = simd.$sum(sums[place][row]);
                        for column in whole * S::$lanes..width {
                            sum = x[place][column].mul_add(matrix[row][column], sum);
                        }
                        found[place][row] = sum;
                    }
                }
                found
            }

            #[inline(always)]
            fn sums<S: Simd, const V: usize, const Y: usize>(
                simd: S,
                matrix: &[Self],
                columns: usize,
                first: usize,
                y: [&[Self]; Y],
                to: [&mut [Self]; Y],
            ) {
                let mut all = [[simd.$splat(0.0); V]; Y];
                for (part, matrix) in matrix.chunks(MOST_SUMMED * columns).enumerate() {
                    let mut sums = [[simd.$splat(0.0); V]; Y];
                    for (row, matrix) in matrix.chunks_exact(columns).enumerate() {
                        let (p, _) = S::$parts(&matrix[first..][..V * S::$lanes]);
                        for (sums, y) in sums.iter_mut().zip(&y) {
                            let y = simd.$splat(y[part * MOST_SUMMED + row]);
                            for (sum, p) in sums.iter_mut().zip(p) {
                                *sum = simd.$fused(y, *p, *sum);
                            }
                        }
                    }
                    for (all, sums) in all.iter_mut().zip(sums) {
                        for (all, sum) in all.iter_mut().zip(sums) {
                            *all = simd.$add(*all, sum);
                        }
                    }
                }
                for (to, all) in to.into_iter().zip(all) {
                    S::$parts_mut(to).0.copy_from_slice(&all);
                }
            }

            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }
        }
    };
}

vectors!(f32, f32s, F32_LANES, as_simd_f32s, as_mut_simd_f32s, splat_f32s, mul_add_e_f32s, add_f32s, reduce_sum_f32s);
vectors!(f64, f64s, F64_LANES, as_simd_f64s, as_mut_simd_f64s, splat_f64s, mul_add_e_f64s, add_f64s, reduce_sum_f64s);
