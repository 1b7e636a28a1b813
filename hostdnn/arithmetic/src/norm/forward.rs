//! Normalization by given centres, in training and in inference.

use super::{Blend, Centre, Mask, Shape, Tensor};
use crate::{Element, tasks};

/// max(0, x) after the normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relu {
    /// Whether NaN stays NaN; otherwise it becomes 0.
    pub keeps_nan: bool,
}

impl Relu {
    pub(super) fn lets_through(self, value: f64) -> bool {
        value > 0.0 || (self.keeps_nan && value.is_nan())
    }
}

/// The operands of [`forward`]. Arrays have a number for each group.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a, T> {
    /// The input.
    pub x: Tensor<T>,
    /// What is added to the normalized input, before the ReLU.
    pub z: Option<Tensor<T>>,
    /// The result.
    pub y: Tensor<T>,
    /// How the result joins the old y.
    pub blend: Blend,
    /// Means and inverse deviations.
    pub centres: &'a [Centre],
    /// Scales.
    pub scale: &'a [f64],
    /// Biases.
    pub bias: &'a [f64],
    /// The function after that, if any.
    pub relu: Option<Relu>,
    /// Where the ReLU's choices are kept for the gradient.
    pub mask: Option<Mask>,
}

/// `y = alpha·relu(scale·x̂ + bias + z) + beta·y`.
///
/// # Safety
/// Tensors and mask are valid for `shape`, and nobody else uses them meanwhile. No two indices name one element of y.
/// x and z may be y itself with the same strides, and overlap it in no other way.
pub unsafe fn forward<T: Element>(shape: &Shape, operands: &Forward<T>) {
    let Forward { x, z, y, blend, centres, scale, bias, relu, mask } = *operands;
    tasks::spread(shape.groups(), 1, &|group| {
        let Centre { mean, inverse_deviation } = centres[group];
        for place in shape.places(group) {
            // SAFETY: the caller promises valid elements, and each belongs to one group.
            unsafe {
                let normal = (x.load(place) - mean) * inverse_deviation;
                let sum = scale[group] * normal + bias[group] + z.map_or(0.0, |z| z.load(place));
                let open = relu.is_none_or(|relu| relu.lets_through(sum));
                if let Some(mask) = mask {
                    mask.set(shape, place, open);
                }
                y.store(place, blend.of(if open { sum } else { 0.0 }, || y.load(place)));
            }
        }
    });
}
