//! Batch normalization: y = scale·(x − mean)/√(variance + epsilon) + bias, with a mean and a variance for each group of
//! elements; Ioffe and Szegedy, arXiv:1502.03167. On raw host pointers of any strides; no FFI.
//!
//! `statistics` finds means and variances, `forward` normalizes, `backward` differentiates, and `mask` keeps which
//! elements a ReLU let through. Everything is computed in double precision and rounded once when it is stored. The
//! loops follow the formulas, one group at a time; groups are spread over rayon's threads.
//!
//! In formulas m is the number of a group's elements, and x̂ = (x − mean)·inverse deviation.

mod backward;
mod forward;
mod mask;
mod statistics;

pub use backward::{Backward, Gate, Gradient, backward};
pub use forward::{Forward, Relu, forward};
pub use mask::{Mask, mask_bytes};
pub use statistics::{Centre, Moments, average, moments};

use crate::Element;

/// Which elements form a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those of all images at one c, d, h, w.
    PerActivation,
    /// Those of one channel.
    Spatial,
}

/// The extents of all tensors of a call, and their groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which elements form a group.
    pub mode: Mode,
    /// n, c, d, h, w; d is 1 for images.
    pub dims: [usize; 5],
}

/// The indices n, c, d, h, w of an element.
type Place = [usize; 5];

impl Shape {
    /// The number of groups, which is the length of every array of parameters. Groups are in order of c, d, h, w.
    pub fn groups(&self) -> usize {
        let [_, c, d, h, w] = self.dims;
        match self.mode {
            Mode::PerActivation => c * d * h * w,
            Mode::Spatial => c,
        }
    }

    /// m: the number of elements in each group.
    pub fn members(&self) -> usize {
        self.dims.iter().product::<usize>() / self.groups()
    }

    /// The elements of a group.
    fn places(&self, group: usize) -> impl Iterator<Item = Place> + Clone {
        let [images, _, d, h, w] = self.dims;
        let volume = d * h * w;
        let (c, within) = match self.mode {
            Mode::PerActivation => (group / volume, group % volume..group % volume + 1),
            Mode::Spatial => (group, 0..volume),
        };
        (0..images).flat_map(move |n| within.clone().map(move |at| [n, c, at / (h * w), at / w % h, at % w]))
    }
}

/// A tensor in memory that a caller has promised to be valid.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<T> {
    /// The first element, at any alignment.
    pub data: *mut T,
    /// In elements: n, c, d, h, w.
    pub strides: [usize; 5],
}

// SAFETY: the functions of this module say in their safety sections which memory they use, from any thread.
unsafe impl<T> Send for Tensor<T> {}
// SAFETY: the functions of this module say in their safety sections which memory they use, from any thread.
unsafe impl<T> Sync for Tensor<T> {}

impl<T: Element> Tensor<T> {
    fn at(self, place: Place) -> *mut T {
        let offset: usize = place.iter().zip(self.strides).map(|(i, stride)| i * stride).sum();
        self.data.wrapping_add(offset)
    }

    /// # Safety
    /// The element is in bounds and initialised.
    unsafe fn load(self, place: Place) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { self.at(place).read_unaligned() }.to_f64()
    }

    /// # Safety
    /// The element is in bounds, and nobody else uses it.
    unsafe fn store(self, place: Place, value: f64) {
        // SAFETY: the caller's promise.
        unsafe { self.at(place).write_unaligned(T::from_f64(value)) }
    }
}

/// `new = alpha·result + beta·old`. With `beta` 0 the old value is not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blend {
    /// The result's factor.
    pub alpha: f64,
    /// The old value's factor.
    pub beta: f64,
}

impl Blend {
    /// The new value.
    pub fn of(self, result: f64, old: impl FnOnce() -> f64) -> f64 {
        let scaled = self.alpha * result;
        if self.beta == 0.0 { scaled } else { scaled + self.beta * old() }
    }
}
