//! Element-wise arithmetic over strided tensors of up to eight dimensions, on raw host pointers. Knows nothing of cuDNN's
//! C ABI. Every value is computed in double precision and rounded once when it is stored.

mod activation;
pub mod chain;
mod walk;

pub use activation::{activate, activate_backward};
pub use hostdnn_arithmetic::Element;
pub use walk::Walk;

use hostdnn_arithmetic::tasks;

/// A tensor's elements in memory that the caller has promised to be valid.
#[derive(Clone, Copy)]
pub struct Data<T>(pub *mut T);

// SAFETY: the functions below say in their safety sections that the memory may be used from any thread meanwhile.
unsafe impl<T> Send for Data<T> {}
// SAFETY: the functions below say in their safety sections that the memory may be used from any thread meanwhile.
unsafe impl<T> Sync for Data<T> {}

impl<T: Element> Data<T> {
    /// The elements from `offset` on.
    pub fn skip(self, offset: isize) -> Self {
        Self(self.0.wrapping_offset(offset))
    }

    /// # Safety
    /// Element `offset` is in bounds and initialised.
    unsafe fn load(self, offset: isize) -> f64 {
        // SAFETY: the caller promises a valid element; elements may be unaligned in a buffer from C.
        unsafe { self.0.offset(offset).read_unaligned() }.to_f64()
    }

    /// # Safety
    /// Element `offset` is in bounds.
    unsafe fn store(self, offset: isize, value: f64) {
        // SAFETY: the caller promises an element in bounds; elements may be unaligned in a buffer from C.
        unsafe { self.0.offset(offset).write_unaligned(T::from_f64(value)) }
    }
}

/// `out = f(inputs) + beta·out` for every index of `walk`, whose operands are the inputs and then `out`.
/// With `beta` 0 the old value is not read.
///
/// # Safety
/// All operands are valid for the offsets that `walk` reaches, and nobody else writes them meanwhile. No two indices name
/// one element of `out`; an input may be `out` itself with the same strides, and overlaps it in no other way.
pub unsafe fn combine<const N: usize, const M: usize, I: Element, O: Element>(
    walk: &Walk<M>,
    inputs: [Data<I>; N],
    out: Data<O>,
    beta: f64,
    f: impl Fn([f64; N]) -> f64 + Sync,
) {
    const { assert!(M == N + 1) };
    let piece = |index: usize| {
        let (mut at, length) = walk.piece(index);
        for _ in 0..length {
            // SAFETY: the caller promises that every offset of the walk is valid.
            unsafe {
                let mut value = f(std::array::from_fn(|i| inputs[i].load(at[i])));
                if beta != 0.0 {
                    value += beta * out.load(at[N]);
                }
                out.store(at[N], value);
            }
            walk.advance(&mut at);
        }
    };
    tasks::spread(walk.pieces(), walk.pieces_a_task(), &piece);
}

/// The sum of all elements that `walk` reaches.
///
/// # Safety
/// `data` is valid for the offsets that `walk` reaches, and nobody writes it meanwhile.
pub unsafe fn sum<T: Element>(walk: &Walk<1>, data: Data<T>) -> f64 {
    let mut total = 0.0;
    for index in 0..walk.pieces() {
        let (mut at, length) = walk.piece(index);
        for _ in 0..length {
            // SAFETY: the caller promises that every offset of the walk is valid.
            total += unsafe { data.load(at[0]) };
            walk.advance(&mut at);
        }
    }
    total
}
