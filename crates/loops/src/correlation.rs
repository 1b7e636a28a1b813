//! Correlations: convolutions and their input gradients.

use std::ffi::c_void;

use gpu::Element;
use half::{bf16, f16};

use crate::element::Number;

/// A correlation of packed images and filters: out\[n\]\[m\]\[p\]\[q\] = Σ over d, r, s of v\[m\]\[d\]\[r\]\[s\] ·
/// in\[n\]\[d\]\[p · stride + r - padding\]\[q · stride + s - padding\]. For a convolution v is its filter w. For an
/// input gradient v\[m\]\[d\] is w\[d\]\[m\] with rows and columns reversed.
#[derive(Clone, Copy, Debug)]
pub struct Correlation {
    /// True for an input gradient, false for a convolution.
    pub is_gradient: bool,
    /// n
    pub images: usize,
    /// d: the channels of the images read.
    pub depth: usize,
    /// m: the channels of the images written.
    pub rows: usize,
    /// Rows and columns of the images read.
    pub from: [usize; 2],
    /// Rows p and columns q of the images written.
    pub to: [usize; 2],
    /// The filter's rows r, which equal its columns s.
    pub filter: usize,
    /// The stride in both directions.
    pub stride: usize,
    /// The zeros above the images and on their left.
    pub padding: usize,
}

/// to = `alpha` · sums + `beta` · to, where a `beta` of 0 leaves `to` unread. The inputs are the filter and the images.
///
/// # Safety
/// All three are memory of the host as large as the tensors, with elements of this type. `to` overlaps neither input.
pub unsafe fn correlate(
    element: Element,
    of: &Correlation,
    inputs: [*const c_void; 2],
    to: *mut c_void,
    alpha: f32,
    beta: f32,
) {
    // SAFETY: the caller promises memory as large as the tensors, with elements of this type.
    unsafe {
        match element {
            Element::Float => correlate_in::<f32>(of, inputs, to, alpha, beta),
            Element::Half => correlate_in::<f16>(of, inputs, to, alpha, beta),
            Element::Bfloat16 => correlate_in::<bf16>(of, inputs, to, alpha, beta),
        }
    }
}

/// # Safety
/// As for [`correlate`], with elements of type `T`.
unsafe fn correlate_in<T: Number>(
    of: &Correlation,
    [w, from]: [*const c_void; 2],
    to: *mut c_void,
    alpha: f32,
    beta: f32,
) {
    let Correlation { images, depth, rows, from: [height, width], to: [p, q], filter, .. } = *of;
    let places = filter * filter;
    // SAFETY: the caller promises three tensors of these sizes, and that the output overlaps neither input.
    let (w, from, to) = unsafe {
        (
            std::slice::from_raw_parts(w.cast::<T>(), rows * depth * places),
            std::slice::from_raw_parts(from.cast::<T>(), images * depth * height * width),
            std::slice::from_raw_parts_mut(to.cast::<T>(), images * rows * p * q),
        )
    };
    // The index in the input for a position of the output and an offset in the filter; `None` in the padding.
    let below =
        |at: usize, by: usize, length: usize| (at * of.stride + by).checked_sub(of.padding).filter(|it| *it < length);
    for (index, to) in to.iter_mut().enumerate() {
        let (column, row, m, n) = (index % q, index / q % p, index / (q * p) % rows, index / (q * p * rows));
        let mut sum = 0.0;
        for d in 0..depth {
            let from = &from[(n * depth + d) * height * width..][..height * width];
            let w = match of.is_gradient {
                true => &w[(d * rows + m) * places..][..places],
                false => &w[(m * depth + d) * places..][..places],
            };
            for (r, h) in (0..filter).filter_map(|r| Some((r, below(row, r, height)?))) {
                for (s, x) in (0..filter).filter_map(|s| Some((s, below(column, s, width)?))) {
                    let place = r * filter + s;
                    let w = w[if of.is_gradient { places - 1 - place } else { place }];
                    sum += f64::from(w.to_f32()) * f64::from(from[h * width + x].to_f32());
                }
            }
        }
        to.add_scaled(sum, alpha, beta);
    }
}
