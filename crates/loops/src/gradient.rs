//! Filter gradients of convolutions.

use std::ffi::c_void;

use gpu::Element;
use half::{bf16, f16};

use crate::element::Number;

/// A filter gradient: dw\[k\]\[c\]\[r\]\[s\] = Σ over n, p, q of dy\[n\]\[k\]\[p\]\[q\] ·
/// x\[n\]\[c\]\[p · stride + r - padding\]\[q · stride + s - padding\], for packed NCHW tensors.
#[derive(Clone, Copy, Debug)]
pub struct FilterGradient {
    /// n
    pub images: usize,
    /// k: dy's channels.
    pub k: usize,
    /// c: x's channels.
    pub c: usize,
    /// Rows and columns of x.
    pub x: [usize; 2],
    /// Rows p and columns q of dy.
    pub dy: [usize; 2],
    /// Rows r and columns s of the filter.
    pub filter: [usize; 2],
    /// The stride in both directions.
    pub stride: usize,
    /// The zeros on each side of x.
    pub padding: usize,
}

/// dw = `alpha` · gradient + `beta` · dw, where a `beta` of 0 leaves dw unread. The inputs are x and dy.
///
/// # Safety
/// All three are memory of the host as large as the tensors, with elements of this type. dw overlaps neither input.
pub unsafe fn filter_gradient(
    element: Element,
    of: &FilterGradient,
    inputs: [*const c_void; 2],
    dw: *mut c_void,
    alpha: f32,
    beta: f32,
) {
    // SAFETY: the caller promises memory as large as the tensors, with elements of this type.
    unsafe {
        match element {
            Element::Float => filter_gradient_in::<f32>(of, inputs, dw, alpha, beta),
            Element::Half => filter_gradient_in::<f16>(of, inputs, dw, alpha, beta),
            Element::Bfloat16 => filter_gradient_in::<bf16>(of, inputs, dw, alpha, beta),
        }
    }
}

/// # Safety
/// As for [`filter_gradient`], with elements of type `T`.
unsafe fn filter_gradient_in<T: Number>(
    of: &FilterGradient,
    [x, dy]: [*const c_void; 2],
    dw: *mut c_void,
    alpha: f32,
    beta: f32,
) {
    let FilterGradient { images, k, c, x: [height, width], dy: [p, q], filter: [rows, columns], .. } = *of;
    // SAFETY: the caller promises three tensors of these sizes, and that dw overlaps neither x nor dy.
    let (x, dy, dw) = unsafe {
        (
            std::slice::from_raw_parts(x.cast::<T>(), images * c * height * width),
            std::slice::from_raw_parts(dy.cast::<T>(), images * k * p * q),
            std::slice::from_raw_parts_mut(dw.cast::<T>(), k * c * rows * columns),
        )
    };
    // The index in x for a position of dy and an offset in the filter; `None` in the padding.
    let below =
        |at: usize, by: usize, length: usize| (at * of.stride + by).checked_sub(of.padding).filter(|it| *it < length);
    for (place, dw) in dw.iter_mut().enumerate() {
        let (s, r) = (place % columns, place / columns % rows);
        let (of_c, of_k) = (place / (columns * rows) % c, place / (columns * rows * c));
        let mut sum = 0.0;
        for image in 0..images {
            let x = &x[(image * c + of_c) * height * width..][..height * width];
            let dy = &dy[(image * k + of_k) * p * q..][..p * q];
            for (row, h) in (0..p).filter_map(|row| Some((row, below(row, r, height)?))) {
                for (column, w) in (0..q).filter_map(|column| Some((column, below(column, s, width)?))) {
                    sum += f64::from(dy[row * q + column].to_f32()) * f64::from(x[h * width + w].to_f32());
                }
            }
        }
        dw.add_scaled(sum, alpha, beta);
    }
}
