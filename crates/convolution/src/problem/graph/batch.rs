//! An operation graph cut along the mini-batch.

use cudnn_abi::*;

use crate::problem::graph::{Convolution, Factor, Operation, Problem, Tensor};
use cudnn::convolution::Direction;
use cudnn::tensor::{disjoint, element_size};

/// The alignment of a workspace, in bytes.
pub const WORKSPACE_ALIGNMENT: usize = 256;

impl Tensor {
    /// Bytes of an element.
    pub fn element(&self) -> usize {
        element_size(self.data_type).unwrap_or(1)
    }

    /// Bytes between images; 0 if all images share the tensor.
    pub fn image_stride(&self) -> usize {
        if self.is_batched { self.strides[0] as usize * self.element() } else { 0 }
    }

    /// The number of values.
    pub fn values(&self) -> usize {
        self.dims.iter().map(|&dim| dim as usize).product()
    }

    /// The size of the tensor's buffer in bytes, from its first element to the end of its last. `None` if that
    /// overflows.
    pub fn bytes(&self) -> Option<usize> {
        let along = |last: i64, (dim, stride): (&i64, &i64)| (dim - 1).checked_mul(*stride)?.checked_add(last);
        let last = self.dims.iter().zip(&self.strides).try_fold(0, along)?;
        usize::try_from(last).ok()?.checked_add(1)?.checked_mul(self.element())
    }

    /// Returns true if the values fill their memory without gaps or overlaps, in any order.
    pub fn is_packed(&self) -> bool {
        self.is_disjoint() && self.bytes() == Some(self.values() * self.element())
    }

    /// Returns true if no two values share an address.
    fn is_disjoint(&self) -> bool {
        disjoint(self.strides.iter().copied().zip(self.dims.iter().copied()))
    }
}

impl Problem {
    /// The graph's convolution.
    pub fn convolution(&self) -> &Convolution {
        let convolution = self.operations.iter().find_map(|operation| match operation {
            Operation::Convolution(convolution) => Some(convolution),
            Operation::Pointwise(_) => None,
        });
        convolution.expect("an operation graph that is a kernel has a convolution")
    }

    /// Images in the mini-batch.
    pub fn batch(&self) -> usize {
        self.tensors[self.convolution().x].dims[0] as usize
    }

    /// The same problem over `batch` images.
    pub fn with_batch(&self, batch: usize) -> Self {
        let mut problem = self.clone();
        for tensor in problem.tensors.iter_mut().filter(|tensor| tensor.is_batched) {
            tensor.dims[0] = batch as i64;
        }
        problem
    }

    /// The same problem with `beta` in place of its own.
    pub fn with_beta(&self, beta: Factor) -> Self {
        self.with_factors([self.convolution().alpha, beta])
    }

    /// The same problem with alpha and beta in place of its own.
    pub fn with_factors(&self, [alpha, beta]: [Factor; 2]) -> Self {
        let mut problem = self.clone();
        for operation in &mut problem.operations {
            if let Operation::Convolution(convolution) = operation {
                (convolution.alpha, convolution.beta) = (alpha, beta);
            }
        }
        problem
    }

    /// The places of the tensors that the graph writes to memory.
    pub fn results<'a>(&'a self) -> impl Iterator<Item = usize> + 'a {
        const WRITTEN: [cudnnBackendAttributeName_t; 2] =
            [CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC];
        let written = |operation: &'a Operation| {
            let (result, operands) = match operation {
                Operation::Convolution(convolution) => (Some(convolution.result()), &[][..]),
                Operation::Pointwise(pointwise) => (None, &pointwise.operands[..]),
            };
            let others = operands.iter().filter(|(name, _)| WRITTEN.contains(name));
            result.into_iter().chain(others.map(|(_, place)| *place))
        };
        self.operations.iter().flat_map(written).filter(|&place| !self.tensors[place].is_virtual)
    }

    /// Returns true if micro-batches add up in one result: BackwardFilter.
    pub fn adds_up(&self) -> bool {
        self.convolution().direction == Direction::BackwardFilter
    }

    /// Bytes of one image in a result that the graph only overwrites, image after image. Until an image is computed,
    /// its bytes are free. 0 for any other result.
    pub fn unwritten_per_image(&self) -> usize {
        let convolution = self.convolution();
        let result = &self.tensors[convolution.result()];
        let image: i64 = result.dims[1..].iter().product();
        let is_free = self.operations.len() == 1
            && result.image_stride() >= WORKSPACE_ALIGNMENT
            && convolution.beta == Factor::ZERO
            && result.is_batched
            && result.is_packed()
            && result.strides[0] == image;
        if is_free { result.image_stride() } else { 0 }
    }

    /// Returns true if micro-batches can compute the problem.
    pub fn splittable(&self) -> bool {
        let Convolution { direction, w, .. } = *self.convolution();
        let cut = |place: usize| self.tensors[place].is_batched && self.tensors[place].is_disjoint();
        self.batch() > 1
            && match direction {
                // A pointwise operation must not see an incomplete sum.
                Direction::BackwardFilter => self.operations.len() == 1 && self.tensors[w].is_packed(),
                Direction::Forward | Direction::BackwardData => !self.tensors[w].is_batched && self.results().all(cut),
            }
    }

    /// Returns true if micro-batches of `size` images start at addresses that meet their tensors' declared alignments.
    pub fn aligned(&self, size: usize) -> bool {
        let starts = |tensor: &Tensor| (size * tensor.image_stride()).is_multiple_of(tensor.alignment.max(1) as usize);
        size >= self.batch() || self.tensors.iter().filter(|tensor| !tensor.is_virtual).all(starts)
    }

    /// Returns true if partial sums over micro-batches would be rounded to fewer bits than their computation has:
    /// BackwardFilter with a half or bfloat16 filter.
    pub fn sums_in_reduced_precision(&self) -> bool {
        let Convolution { direction, w, .. } = *self.convolution();
        let data_type = self.tensors[w].data_type;
        direction == Direction::BackwardFilter && matches!(data_type, CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16)
    }
}

impl Convolution {
    /// The place of the convolution's result.
    pub fn result(&self) -> usize {
        match self.direction {
            Direction::Forward => self.y,
            Direction::BackwardData => self.x,
            Direction::BackwardFilter => self.w,
        }
    }
}
