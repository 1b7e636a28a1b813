//! Convolutions and their gradients.

use std::ffi::c_void;

use gpu::Element;
use half::{bf16, f16};

use crate::element::Number;

/// The tensor that is computed: y, or the gradient of x or of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// y\[n\]\[k\]\[o\] = Σ over c, t of w\[k\]\[c\]\[t\] · x\[n\]\[c\]\[o · stride + t · dilation - padding\]
    Y,
    /// The transposed sum, of dy into dx.
    X,
    /// dw\[k\]\[c\]\[t\] = Σ over n, o of dy\[n\]\[k\]\[o\] · x\[n\]\[c\]\[o · stride + t · dilation - padding\]
    Filter,
}

/// A convolution of packed tensors, channels first. The arrays have the values of slices, rows and columns. An output's
/// channel k reads the inputs c of its group.
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    /// The tensor that is computed.
    pub result: Tensor,
    /// n
    pub images: usize,
    /// The channels of x, of all groups.
    pub inputs: usize,
    /// The channels of y, of all groups.
    pub outputs: usize,
    /// Divides both counts of channels.
    pub groups: usize,
    /// The sizes of x.
    pub x: [usize; 3],
    /// The sizes of y.
    pub y: [usize; 3],
    /// The sizes of the filter.
    pub filter: [usize; 3],
    /// The distance of the inputs of neighbouring outputs.
    pub stride: [usize; 3],
    /// The zeros before the first of each axis.
    pub padding: [usize; 3],
    /// The distance of neighbouring places of the filter.
    pub dilation: [usize; 3],
}

/// result = `alpha` · sums + `beta` · result, where a `beta` of 0 leaves the result unread. The tensors are x, the filter
/// and y, or their gradients. If the result is y, a bias that is not null is a number for each channel, which is added to
/// the sums.
///
/// # Safety
/// All are memory of the host as large as the tensors, with elements of this type. The result overlaps no other.
pub unsafe fn convolve(
    element: Element,
    of: &Convolution,
    tensors: [*mut c_void; 3],
    bias: *const c_void,
    alpha: f32,
    beta: f32,
) {
    // SAFETY: the caller promises memory as large as the tensors, with elements of this type.
    unsafe {
        match element {
            Element::Float => convolve_in::<f32>(of, tensors, bias, alpha, beta),
            Element::Half => convolve_in::<f16>(of, tensors, bias, alpha, beta),
            Element::Bfloat16 => convolve_in::<bf16>(of, tensors, bias, alpha, beta),
        }
    }
}

/// # Safety
/// As for [`convolve`], with elements of type `T`.
unsafe fn convolve_in<T: Number>(
    of: &Convolution,
    [x, w, y]: [*mut c_void; 3],
    bias: *const c_void,
    alpha: f32,
    beta: f32,
) {
    let [x_count, w_count, y_count] = of.counts();
    // SAFETY: the caller promises three tensors of these sizes, and that the result overlaps no other.
    unsafe {
        let read = |data: *mut c_void, count| doubles(std::slice::from_raw_parts(data.cast_const().cast::<T>(), count));
        let write = |data: *mut c_void, count| std::slice::from_raw_parts_mut(data.cast::<T>(), count);
        match of.result {
            Tensor::Y => {
                let bias = if bias.is_null() { vec![0.0; of.outputs] } else { read(bias.cast_mut(), of.outputs) };
                of.compute_outputs([&read(x, x_count), &read(w, w_count), &bias], write(y, y_count), alpha, beta);
            }
            Tensor::X => of.compute_inputs(write(x, x_count), &read(w, w_count), &read(y, y_count), alpha, beta),
            Tensor::Filter => of.compute_filters(&read(x, x_count), write(w, w_count), &read(y, y_count), alpha, beta),
        }
    }
}

/// Numbers in double precision: each is read many times.
fn doubles<T: Number>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(number.to_f32())).collect()
}

/// The number of places in an array of sizes.
fn places(sizes: [usize; 3]) -> usize {
    sizes.iter().product()
}

/// The three indices of a place.
fn indices(place: usize, [_, rows, columns]: [usize; 3]) -> [usize; 3] {
    [place / (rows * columns), place / columns % rows, place % columns]
}

/// A plane of a tensor, by its number.
fn plane(tensor: &[f64], index: usize, sizes: [usize; 3]) -> &[f64] {
    &tensor[index * places(sizes)..][..places(sizes)]
}

impl Convolution {
    /// The elements of x, of the filter, and of y.
    fn counts(&self) -> [usize; 3] {
        let Self { images, inputs, outputs, groups, x, y, filter, .. } = *self;
        [images * inputs * places(x), outputs * (inputs / groups) * places(filter), images * outputs * places(y)]
    }

    /// The index in x, along an axis, for one in y and one in the filter. `None` in the padding.
    fn below(&self, axis: usize, at: usize, by: usize) -> Option<usize> {
        let from = (at * self.stride[axis] + by * self.dilation[axis]).checked_sub(self.padding[axis])?;
        (from < self.x[axis]).then_some(from)
    }

    /// All triples of indices that meet along each axis, by the index in the result: the other two as a pair, in the
    /// order of their names in `sizes`.
    fn meetings(&self, by: impl Fn([usize; 3]) -> (usize, [usize; 2]), sizes: [usize; 3]) -> [Meetings; 3] {
        [0, 1, 2].map(|axis| {
            let mut found = vec![vec![]; sizes[axis]];
            for y in 0..self.y[axis] {
                for w in 0..self.filter[axis] {
                    if let Some(x) = self.below(axis, y, w) {
                        let (result, others) = by([x, w, y]);
                        found[result].push(others);
                    }
                }
            }
            found
        })
    }

    fn compute_outputs<T: Number>(&self, [x, w, bias]: [&[f64]; 3], y: &mut [T], alpha: f32, beta: f32) {
        let Self { inputs, outputs, groups, .. } = *self;
        let [of_inputs, of_outputs] = [inputs / groups, outputs / groups];
        let meetings = self.meetings(|[x, w, y]| (y, [x, w]), self.y);
        for (index, y) in y.iter_mut().enumerate() {
            let (place, k) = (index % places(self.y), index / places(self.y) % outputs);
            let (n, at) = (index / places(self.y) / outputs, indices(place, self.y));
            let mut sum = bias[k];
            for c in 0..of_inputs {
                let x = plane(x, n * inputs + k / of_outputs * of_inputs + c, self.x);
                let w = plane(w, k * of_inputs + c, self.filter);
                sum += products(&meetings, at, (x, self.x), (w, self.filter));
            }
            y.add_scaled(sum, alpha, beta);
        }
    }

    fn compute_inputs<T: Number>(&self, x: &mut [T], w: &[f64], y: &[f64], alpha: f32, beta: f32) {
        let Self { inputs, outputs, groups, .. } = *self;
        let [of_inputs, of_outputs] = [inputs / groups, outputs / groups];
        let meetings = self.meetings(|[x, w, y]| (x, [w, y]), self.x);
        for (index, x) in x.iter_mut().enumerate() {
            let (place, c) = (index % places(self.x), index / places(self.x) % inputs);
            let (n, at) = (index / places(self.x) / inputs, indices(place, self.x));
            let mut sum = 0.0;
            for k in (0..of_outputs).map(|k| c / of_inputs * of_outputs + k) {
                let y = plane(y, n * outputs + k, self.y);
                let w = plane(w, k * of_inputs + c % of_inputs, self.filter);
                sum += products(&meetings, at, (w, self.filter), (y, self.y));
            }
            x.add_scaled(sum, alpha, beta);
        }
    }

    fn compute_filters<T: Number>(&self, x: &[f64], w: &mut [T], y: &[f64], alpha: f32, beta: f32) {
        let Self { images, inputs, outputs, groups, .. } = *self;
        let [of_inputs, of_outputs] = [inputs / groups, outputs / groups];
        let meetings = self.meetings(|[x, w, y]| (w, [x, y]), self.filter);
        for (index, w) in w.iter_mut().enumerate() {
            let (place, c) = (index % places(self.filter), index / places(self.filter) % of_inputs);
            let (k, at) = (index / places(self.filter) / of_inputs, indices(place, self.filter));
            let mut sum = 0.0;
            for n in 0..images {
                let x = plane(x, n * inputs + k / of_outputs * of_inputs + c, self.x);
                let y = plane(y, n * outputs + k, self.y);
                sum += products(&meetings, at, (x, self.x), (y, self.y));
            }
            w.add_scaled(sum, alpha, beta);
        }
    }
}

/// For each index along an axis of one tensor, the pairs of indices in the two others that it meets.
type Meetings = Vec<Vec<[usize; 2]>>;

/// The sum of the products that meet at a place of the result, of planes with their sizes.
fn products(
    meetings: &[Meetings; 3],
    [slice, row, column]: [usize; 3],
    (one, [_, one_rows, one_columns]): (&[f64], [usize; 3]),
    (other, [_, other_rows, other_columns]): (&[f64], [usize; 3]),
) -> f64 {
    // Several sums, because an addition takes longer than all else here, and the next one to its sum waits for it.
    let mut sums = [0.0; 4];
    let (fours, rest) = meetings[2][column].as_chunks();
    for [one_slice, other_slice] in &meetings[0][slice] {
        for [one_row, other_row] in &meetings[1][row] {
            let one = &one[(one_slice * one_rows + one_row) * one_columns..][..one_columns];
            let other = &other[(other_slice * other_rows + other_row) * other_columns..][..other_columns];
            for four in fours {
                let products: [f64; 4] = four.map(|[i, j]| one[i] * other[j]);
                sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            }
            for (sum, &[i, j]) in sums.iter_mut().zip(rest) {
                *sum += one[i] * other[j];
            }
        }
    }
    sums.iter().sum()
}
