//! Numbers: the stored types, the computing types, and matrix products of the latter.

use gemm::{Parallelism, gemm};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use hostdnn_fft::{Complex, FftNum, Plans};
use std::slice;

/// A number that convolutions are computed in: `f32` or `f64`. All bytes zero is the number 0.
pub trait Real: FftNum + Default {
    /// Whether there are Winograd and Fourier transforms of this type. They compute in single precision.
    const HAS_TRANSFORMS: bool;

    fn of(value: f64) -> Self;
    fn single(self) -> f32;

    /// Plans of Fourier transforms for planes of one size, if this type has transforms.
    fn plans(height: usize, width: usize) -> Option<Plans<Self>>;
}

impl Real for f32 {
    const HAS_TRANSFORMS: bool = true;

    fn of(value: f64) -> Self {
        value as f32
    }

    fn single(self) -> f32 {
        self
    }

    fn plans(height: usize, width: usize) -> Option<Plans<Self>> {
        Some(Plans::new(height, width))
    }
}

impl Real for f64 {
    const HAS_TRANSFORMS: bool = false;

    fn of(value: f64) -> Self {
        value
    }

    fn single(self) -> f32 {
        self as f32
    }

    fn plans(_: usize, _: usize) -> Option<Plans<Self>> {
        None
    }
}

/// A number as it lies in a tensor.
pub trait Storage: Copy + Send + Sync + 'static {
    type Real: Real;

    fn load(self) -> Self::Real;
    fn store(value: Self::Real) -> Self;

    fn to_single(self) -> f32;
    fn from_single(value: f32) -> Self;

    /// The tensor's memory as computing numbers, if the two types are the same.
    fn as_real(pointer: *mut Self) -> Option<*mut Self::Real>;

    /// `to[i] = from[i·step]`.
    ///
    /// # Safety
    /// All offsets `0, step, …` from `from` that `to` asks for are readable.
    unsafe fn load_run(from: *const Self, step: usize, to: &mut [Self::Real]);
}

macro_rules! stored_as_computed {
    ($real:ty) => {
        impl Storage for $real {
            type Real = $real;

            fn load(self) -> $real {
                self
            }

            fn store(value: $real) -> Self {
                value
            }

            fn to_single(self) -> f32 {
                self as f32
            }

            fn from_single(value: f32) -> Self {
                value.into()
            }

            fn as_real(pointer: *mut Self) -> Option<*mut $real> {
                Some(pointer)
            }

            unsafe fn load_run(from: *const Self, step: usize, to: &mut [$real]) {
                // SAFETY: the caller's promise. Known steps let the compiler load vectors and shuffle.
                unsafe {
                    match step {
                        1 => to.copy_from_slice(slice::from_raw_parts(from, to.len())),
                        2 => load_strided::<Self, 2>(from, to),
                        4 => load_strided::<Self, 4>(from, to),
                        _ => {
                            for (i, to) in to.iter_mut().enumerate() {
                                *to = *from.add(i * step);
                            }
                        }
                    }
                }
            }
        }
    };
}

stored_as_computed!(f32);
stored_as_computed!(f64);

/// # Safety
/// As for [`Storage::load_run`] with `step` = `STEP`.
unsafe fn load_strided<T: Copy, const STEP: usize>(from: *const T, to: &mut [T]) {
    let Some(last) = to.len().checked_sub(1) else { return };
    // SAFETY: the last element read is the last that `to` asks for.
    let from = unsafe { slice::from_raw_parts(from, last * STEP + 1) };
    let (whole, rest) = from.as_chunks::<STEP>();
    for (to, from) in to.iter_mut().zip(whole) {
        *to = from[0];
    }
    to[last] = rest[0];
}

macro_rules! stored_in_two_bytes {
    ($stored:ty) => {
        impl Storage for $stored {
            type Real = f32;

            fn load(self) -> f32 {
                self.to_f32()
            }

            fn store(value: f32) -> Self {
                Self::from_f32(value)
            }

            fn to_single(self) -> f32 {
                self.to_f32()
            }

            fn from_single(value: f32) -> Self {
                Self::from_f32(value)
            }

            fn as_real(_: *mut Self) -> Option<*mut f32> {
                None
            }

            unsafe fn load_run(from: *const Self, step: usize, to: &mut [f32]) {
                // SAFETY: the caller's promise.
                unsafe {
                    if step == 1 {
                        slice::from_raw_parts(from, to.len()).convert_to_f32_slice(to);
                    } else {
                        for (i, to) in to.iter_mut().enumerate() {
                            *to = (*from.add(i * step)).to_f32();
                        }
                    }
                }
            }
        }
    };
}

stored_in_two_bytes!(f16);
stored_in_two_bytes!(bf16);

/// A matrix in memory: its first element and the distances, in elements, from row to row and column to column.
pub struct Matrix<T> {
    pub at: *const T,
    pub row: usize,
    pub column: usize,
}

impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<T> {}

impl<T> Matrix<T> {
    pub fn new(at: *const T, row: usize, column: usize) -> Self {
        Self { at, row, column }
    }

    pub fn transposed(self) -> Self {
        Self { at: self.at, row: self.column, column: self.row }
    }
}

/// `c = keep·c + scale·a·b`, where `a` is m×k and `b` is k×n; with `keep` 0, `c` is not read. Uses only this thread.
///
/// # Safety
/// The elements of `a` and `b` are readable, those of `c` writable and nobody else's.
pub unsafe fn multiply<T: Real>(size: [usize; 3], (c, keep): (Matrix<T>, T), scale: T, a: Matrix<T>, b: Matrix<T>) {
    // SAFETY: the caller's promise.
    unsafe { product(size, (c, keep, keep != T::zero()), scale, (a, false), b) };
}

/// `c = a·b` in complex numbers, with `a` conjugated if asked; `a` is m×k and `b` is k×n.
///
/// # Safety
/// As for [`multiply`].
pub unsafe fn multiply_complex<T: Real>(
    size: [usize; 3],
    c: Matrix<Complex<T>>,
    a: Matrix<Complex<T>>,
    conjugate_a: bool,
    b: Matrix<Complex<T>>,
) {
    let (zero, one) = (Complex::new(T::zero(), T::zero()), Complex::new(T::one(), T::zero()));
    // SAFETY: the caller's promise.
    unsafe { product(size, (c, zero, false), one, (a, conjugate_a), b) };
}

/// [`multiply`] for real and complex numbers. Whether `c` is read, and whether `a` is conjugated, stand beside them.
///
/// # Safety
/// As for [`multiply`].
unsafe fn product<T: 'static>(
    [m, n, k]: [usize; 3],
    (c, keep, reads_c): (Matrix<T>, T, bool),
    scale: T,
    (a, conjugate_a): (Matrix<T>, bool),
    b: Matrix<T>,
) {
    let stride = |s: usize| s as isize;
    // SAFETY: the caller's promise.
    unsafe {
        gemm(
            m,
            n,
            k,
            c.at.cast_mut(),
            stride(c.column),
            stride(c.row),
            reads_c,
            a.at,
            stride(a.column),
            stride(a.row),
            b.at,
            stride(b.column),
            stride(b.row),
            keep,
            scale,
            false,
            conjugate_a,
            false,
            Parallelism::None,
        );
    }
}
