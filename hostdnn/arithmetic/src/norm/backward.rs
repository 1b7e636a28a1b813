//! Gradients.

use super::{Blend, Centre, Mask, Relu, Shape, Tensor};
use crate::{Element, tasks};

/// Which elements of dy the ReLU lets through to the normalization.
#[derive(Clone, Copy, Debug)]
pub enum Gate<'a> {
    /// All: there is no ReLU.
    Open,
    /// Those whose normalized value, with these biases, is not cut off.
    Recomputed(Relu, &'a [f64]),
    /// Those that the mask of the forward computation marks.
    Kept(Mask),
}

/// The operands of [`backward`]. Arrays have a number for each group.
#[derive(Clone, Copy, Debug)]
pub struct Backward<'a, T> {
    /// The input of the forward computation.
    pub x: Tensor<T>,
    /// The gradient of its output.
    pub dy: Tensor<T>,
    /// The gradient of its input.
    pub dx: Tensor<T>,
    /// How the result joins the old dx.
    pub blend: Blend,
    /// The gradient of the added z, if it is asked for. It replaces the old contents.
    pub dz: Option<Tensor<T>>,
    /// Means and inverse deviations of the forward computation.
    pub centres: &'a [Centre],
    /// Scales.
    pub scale: &'a [f64],
    /// The ReLU's part.
    pub gate: Gate<'a>,
}

/// The gradient of a group's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient {
    /// Σ g·x̂
    pub scale: f64,
    /// Σ g
    pub bias: f64,
}

/// With g = dy where the gate is open, and 0 elsewhere:
/// `dx = alpha·scale·inverse_deviation·(g − (Σ g + x̂·Σ g·x̂)/m) + beta·dx`, and `dz = g`. Returns the parameters'
/// gradients, group by group.
///
/// # Safety
/// Tensors and mask are valid for `shape`, and nobody else uses them meanwhile. No two indices name one element of dx,
/// or of dz. x and dy may be dx or dz itself with the same strides, and overlap them in no other way. dx and dz are
/// apart.
pub unsafe fn backward<T: Element>(shape: &Shape, operands: &Backward<T>) -> Vec<Gradient> {
    let Backward { x, dy, dx, blend, dz, centres, scale, gate } = *operands;
    let of_group = |group: usize| {
        let Centre { mean, inverse_deviation } = centres[group];
        // SAFETY: the caller promises valid elements.
        let pair = |place| unsafe {
            let normal = (x.load(place) - mean) * inverse_deviation;
            let open = match gate {
                Gate::Open => true,
                Gate::Recomputed(relu, bias) => relu.lets_through(scale[group] * normal + bias[group]),
                Gate::Kept(mask) => mask.get(shape, place),
            };
            (normal, if open { dy.load(place) } else { 0.0 })
        };
        let mut sum = Gradient { scale: 0.0, bias: 0.0 };
        for (normal, g) in shape.places(group).map(pair) {
            sum.scale += g * normal;
            sum.bias += g;
        }
        let m = shape.members() as f64;
        for place in shape.places(group) {
            let (normal, g) = pair(place);
            let gradient = scale[group] * inverse_deviation * (g - (sum.bias + normal * sum.scale) / m);
            // SAFETY: the caller promises valid elements, and each belongs to one group.
            unsafe {
                dx.store(place, blend.of(gradient, || dx.load(place)));
                if let Some(dz) = dz {
                    dz.store(place, g);
                }
            }
        }
        sum
    };
    tasks::map(shape.groups(), of_group)
}
