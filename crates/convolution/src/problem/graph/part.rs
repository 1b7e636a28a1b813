//! A part of a convolution, by which a run finds out how an engine computes all of it.

use crate::problem::graph::{Operation, Problem, Tensor};

impl Tensor {
    /// The same tensor with another size of one dimension, without gaps, its dimensions in the same order in memory.
    fn with_size(&self, dimension: usize, size: i64) -> Self {
        let mut part = self.clone();
        part.dims[dimension] = size;
        let mut order: Vec<usize> = (0..part.dims.len()).collect();
        order.sort_by_key(|dimension| (self.strides[*dimension], self.dims[*dimension]));
        let mut stride = 1;
        for dimension in order {
            part.strides[dimension] = stride;
            stride *= part.dims[dimension];
        }
        part
    }
}

impl Problem {
    /// A convolution alone, with about half of the data: of the images along their longest side, or of the outputs if the
    /// filter is larger. `None` if it cannot be cut.
    pub fn halved(&self) -> Option<Self> {
        let [Operation::Convolution(convolution)] = &self.operations[..] else { return None };
        let place = |part: &mut Self, of: usize, dimension: usize, size: i64| {
            part.tensors[of] = part.tensors[of].with_size(dimension, size);
        };
        let [x, w, y] = [convolution.x, convolution.w, convolution.y].map(|place| &self.tensors[place]);
        let mut part = self.clone();
        if w.bytes()? > x.bytes()?.max(y.bytes()?) {
            let is_in_groups = w.dims[1] != x.dims[1];
            // A multiple of 8 stays one.
            let outputs = if w.dims[0] < 16 { w.dims[0] / 2 } else { w.dims[0] / 16 * 8 };
            if is_in_groups || outputs == 0 {
                return None;
            }
            place(&mut part, convolution.w, 0, outputs);
            place(&mut part, convolution.y, 1, outputs);
            return Some(part);
        }
        let axis = (0..y.dims.len() - 2).rev().max_by_key(|axis| y.dims[2 + axis])?;
        let of_y = y.dims[2 + axis] / 2;
        let reach = (w.dims[2 + axis] - 1) * convolution.dilation[axis] + 1;
        let padding = convolution.pre_padding[axis] + convolution.post_padding[axis];
        let of_x = (of_y - 1) * convolution.stride[axis] + reach - padding;
        if of_y < 1 || !(1..x.dims[2 + axis]).contains(&of_x) {
            return None;
        }
        place(&mut part, convolution.x, 2 + axis, of_x);
        place(&mut part, convolution.y, 2 + axis, of_y);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::graph::{Convolution, Factor};
    use cudnn::convolution::Direction;
    use cudnn_abi::*;

    fn tensor(dims: &[i64], is_last: bool) -> Tensor {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if is_last {
            order[1..].rotate_left(1); // images, then places, then channels
        }
        let (mut strides, mut stride) = (vec![0; dims.len()], 1);
        for dimension in order.into_iter().rev() {
            strides[dimension] = stride;
            stride *= dims[dimension];
        }
        let (data_type, dims) = (CUDNN_DATA_FLOAT, dims.to_vec());
        Tensor { data_type, dims, strides, alignment: 16, is_virtual: false, is_by_value: false, is_batched: true }
    }

    /// One image with sides `x`: channels, outputs, and groups; the filter's sides, and padding, stride and dilation.
    fn convolution(
        x: &[i64],
        [channels, outputs, groups]: [i64; 3],
        filter: &[i64],
        [padding, stride, dilation]: [i64; 3],
        is_last: bool,
    ) -> Problem {
        let side = |(x, filter): (&i64, &i64)| (x + 2 * padding - dilation * (filter - 1) - 1) / stride + 1;
        let y: Vec<i64> = x.iter().zip(filter).map(side).collect();
        let of = |first: [i64; 2], sides: &[i64]| tensor(&[&first[..], sides].concat(), is_last);
        let all = |value: i64| vec![value; x.len()];
        let its = Convolution {
            direction: Direction::BackwardData,
            x: 0,
            w: 1,
            y: 2,
            compute_type: CUDNN_DATA_FLOAT,
            mode: CUDNN_CROSS_CORRELATION,
            pre_padding: all(padding),
            post_padding: all(padding),
            stride: all(stride),
            dilation: all(dilation),
            alpha: Factor::ONE,
            beta: Factor::ZERO,
        };
        Problem {
            tensors: vec![of([1, channels], x), of([outputs, channels / groups], filter), of([1, outputs], &y)],
            operations: vec![Operation::Convolution(its)],
        }
    }

    fn bytes(problem: &Problem) -> usize {
        problem.tensors.iter().map(|tensor| tensor.bytes().unwrap()).sum()
    }

    #[test]
    fn parts_are_convolutions_of_about_half_of_the_data() {
        for is_last in [false, true] {
            for (x, channels, filter, steps) in [
                (&[512, 512][..], [8, 8, 1], &[3, 3][..], [1, 1, 1]),
                (&[64, 300], [16, 24, 8], &[7, 1], [3, 2, 1]),
                (&[40, 41], [16, 24, 1], &[5, 5], [0, 3, 2]),
                (&[224, 224], [3, 64, 1], &[16, 16], [0, 16, 1]),
                (&[32, 64, 64], [4, 4, 4], &[3, 3, 3], [1, 1, 1]),
                (&[14, 14], [1024, 1024, 1], &[3, 3], [1, 1, 1]),
                (&[9], [700, 12, 1], &[9], [0, 1, 1]),
            ] {
                let mut problem = convolution(x, channels, filter, steps, is_last);
                let mut parts = 0;
                while let Some(part) = problem.halved() {
                    // What its sizes give is the same problem.
                    let [x, w, y] = [0, 1, 2].map(|place| &part.tensors[place].dims);
                    let [inputs, outputs] = [x[1], y[1]];
                    let groups = inputs / w[1];
                    assert_eq!(part, convolution(&x[2..], [inputs, outputs, groups], &w[2..], steps, is_last));
                    assert_eq!([inputs, groups], [channels[0], channels[2]]);
                    // A short side reads as much around it as before.
                    assert!(bytes(&part) < bytes(&problem), "{:?}", part.tensors);
                    (problem, parts) = (part, parts + 1);
                }
                assert!(parts > 2, "{x:?}: {parts}");
            }
        }
    }

    #[test]
    fn what_cannot_be_cut_stays() {
        let of = |x: &[i64], channels, filter: &[i64]| convolution(x, channels, filter, [0, 1, 1], false);
        assert_eq!(of(&[3, 3], [2, 1, 1], &[3, 3]).halved(), None, "one output of one place");
        assert_eq!(of(&[3, 3], [512, 512, 2], &[3, 3]).halved(), None, "groups whose filter is large");
        let mut fused = of(&[8, 8], [2, 2, 1], &[3, 3]);
        fused.operations.push(fused.operations[0].clone());
        assert_eq!(fused.halved(), None, "several operations");
    }
}
