//! The graph of a legacy API convolution.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::problem;
use crate::problem::graph::{Convolution, Factor, Operation, Problem, Tensor};

/// The alignment that frameworks' allocators guarantee, in bytes; no engine asks for more.
const ALIGNMENT: i64 = 16;

impl Problem {
    /// The graph of a legacy convolution problem, y = conv. The filter is packed in its format, and tensors are aligned
    /// to 16 bytes. The math type is left out: in graphs, an engine's notes state its arithmetic.
    pub fn of_convolution(problem: &problem::Problem) -> Self {
        let rank = usize::from(problem.rank);
        let wide = |values: &[c_int]| values.iter().copied().map(i64::from).collect::<Vec<_>>();
        let tensor = |is_batched, data_type, dims, strides| Tensor {
            data_type,
            dims,
            strides,
            alignment: ALIGNMENT,
            is_virtual: false,
            is_by_value: false,
            is_batched,
        };
        let of = |t: &cudnn::tensor::Tensor| tensor(true, t.data_type, wide(&t.dims[..rank]), wide(&t.strides[..rank]));
        let w_dims = wide(&problem.w_dims[..rank]);
        let w_strides = packed(&w_dims, problem.w_format);
        let (pad, spatial) = (wide(&problem.pad[..rank - 2]), rank - 2);
        let convolution = Convolution {
            direction: problem.direction,
            x: 0,
            w: 1,
            y: 2,
            compute_type: problem.compute_type,
            mode: problem.mode,
            pre_padding: pad.clone(),
            post_padding: pad,
            stride: wide(&problem.stride[..spatial]),
            dilation: wide(&problem.dilation[..spatial]),
            alpha: Factor::ONE,
            beta: Factor::ZERO,
        };
        Self {
            tensors: vec![of(&problem.x), tensor(false, problem.w_type, w_dims, w_strides), of(&problem.y)],
            operations: vec![Operation::Convolution(convolution)],
        }
    }
}

/// The strides of a packed tensor: channels innermost for NHWC, else in the order of its dimensions.
fn packed(dims: &[i64], format: cudnnTensorFormat_t) -> Vec<i64> {
    let mut innermost_first: Vec<usize> = (0..dims.len()).rev().collect();
    if format == CUDNN_TENSOR_NHWC {
        innermost_first.retain(|&axis| axis != 1);
        innermost_first.insert(0, 1);
    }
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for axis in innermost_first {
        strides[axis] = stride;
        stride *= dims[axis];
    }
    strides
}
