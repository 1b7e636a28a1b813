//! Means and variances.

use super::{Shape, Tensor};
use crate::{Element, tasks};

/// A group's mean, and its variance: the mean of (x − mean)².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The mean.
    pub mean: f64,
    /// The biased variance.
    pub variance: f64,
}

/// What normalizes a group: x̂ = (x − mean)·inverse_deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centre {
    /// The mean.
    pub mean: f64,
    /// 1/√(variance + epsilon). cuDNN calls it the inverse variance.
    pub inverse_deviation: f64,
}

impl Moments {
    /// The centre that these moments give.
    pub fn centre(self, epsilon: f64) -> Centre {
        Centre { mean: self.mean, inverse_deviation: 1.0 / (self.variance + epsilon).sqrt() }
    }

    /// The variance with m − 1 in place of m. With m = 1 it is 0·∞, and so NaN, as in cuDNN.
    pub fn unbiased_variance(self, members: usize) -> f64 {
        let m = members as f64;
        self.variance * (m / (m - 1.0))
    }
}

/// A running statistic after a new value. The old one is read even if its factor is 0, as in cuDNN.
pub fn average(old: f64, new: f64, factor: f64) -> f64 {
    (1.0 - factor) * old + factor * new
}

/// The moments of each group.
///
/// # Safety
/// `x` is valid for `shape`, and nobody writes it meanwhile.
pub unsafe fn moments<T: Element>(shape: &Shape, x: Tensor<T>) -> Vec<Moments> {
    let of_group = |group| {
        let places = shape.places(group);
        // SAFETY: the caller promises valid elements.
        let load = |place| unsafe { x.load(place) };
        let m = shape.members() as f64;
        // Sums of distances from one element, and from the mean, stay small where the mean is large.
        let first = places.clone().next().map_or(0.0, load);
        let mean = first + places.clone().map(|place| load(place) - first).sum::<f64>() / m;
        let variance = places.map(|place| (load(place) - mean).powi(2)).sum::<f64>() / m;
        Moments { mean, variance }
    };
    tasks::map(shape.groups(), of_group)
}
