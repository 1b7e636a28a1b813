//! Tensors.

use super::*;
use crate::error::support;

/// The most dimensions.
const DIM_MAX: usize = 8;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_TENSOR_DATA_TYPE, DATA_TYPE).or(CUDNN_DATA_FLOAT as i64),
        Attribute::many(CUDNN_ATTR_TENSOR_DIMENSIONS, INTEGER, DIM_MAX),
        Attribute::many(CUDNN_ATTR_TENSOR_STRIDES, INTEGER, DIM_MAX),
        Attribute::one(CUDNN_ATTR_TENSOR_UNIQUE_ID, INTEGER).or(-1),
        Attribute::one(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, INTEGER).or(1).unreadable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_TENSOR_VECTOR_COUNT, INTEGER).or(1),
        Attribute::one(CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, INTEGER).or(-1),
        Attribute::one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, BOOLEAN).or(0),
        Attribute::one(CUDNN_ATTR_TENSOR_IS_BY_VALUE, BOOLEAN).or(0),
        Attribute::one(CUDNN_ATTR_TENSOR_REORDERING_MODE, &[CUDNN_TYPE_TENSOR_REORDERING_MODE])
            .read_as(INTEGER, ATTRIBUTE_TYPE)
            .written_as(CUDNN_TYPE_INT32)
            .or(0),
        Attribute::one(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, DESCRIPTOR),
    ],
    finalize: |descriptor| Tensor::of(descriptor).check(),
    ..Kind::USUAL
};

/// One tensor of a graph. Dimensions and strides in elements, images first, then channels and the spatial extent.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The id for variant packs and operations.
    pub uid: i64,
    /// The type of an element.
    pub data_type: cudnnDataType_t,
    /// Dimensions, as many as there are strides.
    pub dims: Vec<i64>,
    /// Distances from one element to the next along each dimension.
    pub strides: Vec<i64>,
    /// The alignment of its address in bytes.
    pub alignment: i64,
    /// Intermediate within the graph: it has no memory.
    pub is_virtual: bool,
    /// Elements are packed into vectors, reordered, or not plain numbers, so that strides do not describe them.
    is_packed: bool,
    is_by_value: bool,
    /// The program's own bytes of virtual and by value: cuDNN compares these.
    marks: [i64; 2],
    vectorized_dimension: i64,
}

impl Tensor {
    /// Reads a descriptor.
    pub fn of(descriptor: &Descriptor) -> Self {
        Self {
            uid: descriptor.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID),
            data_type: descriptor.enumerator(CUDNN_ATTR_TENSOR_DATA_TYPE),
            dims: descriptor.integers(CUDNN_ATTR_TENSOR_DIMENSIONS).to_vec(),
            strides: descriptor.integers(CUDNN_ATTR_TENSOR_STRIDES).to_vec(),
            alignment: descriptor.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
            is_virtual: descriptor.integer(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0,
            is_packed: descriptor.integer(CUDNN_ATTR_TENSOR_VECTOR_COUNT) != 1
                || descriptor.integer(CUDNN_ATTR_TENSOR_REORDERING_MODE) != 0
                || !descriptor.descriptors(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).is_empty(),
            is_by_value: descriptor.integer(CUDNN_ATTR_TENSOR_IS_BY_VALUE) & 1 != 0,
            marks: [CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_ATTR_TENSOR_IS_BY_VALUE].map(|name| descriptor.integer(name)),
            vectorized_dimension: descriptor.integer(CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION),
        }
    }

    fn check(&self) -> Result {
        require((1..=DIM_MAX).contains(&self.dims.len()), "a tensor has one to eight dimensions")?;
        require(self.dims.len() == self.strides.len(), "as many dimensions as strides")?;
        require(self.dims.iter().all(|&dim| dim >= 0), "dimensions are not negative")?;
        require(self.strides.iter().all(|&stride| stride >= 0), "strides are not negative")?;
        let long = self.dims.iter().filter(|&&dim| dim > 1).count();
        require(!self.is_by_value || long <= 1, "a tensor by value has at most one dimension of several elements")?;
        require(
            self.vectorized_dimension <= self.dims.len() as i64,
            "the vectorized dimension is one of the tensor's",
        )?;
        let size = element_size(self.data_type);
        support(size > 0, "data types that the graph API takes")?;
        require(self.alignment > 0 && self.alignment % size == 0, "the alignment is whole elements")
    }

    /// Equality with another operation's tensor of the same unique id: strides along extents of 1 do not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        let strides = self.strides.iter().zip(&other.strides).zip(&self.dims);
        (&self.dims, self.data_type, self.alignment, self.marks)
            == (&other.dims, other.data_type, other.alignment, other.marks)
            && strides.into_iter().all(|((one, another), &dim)| one == another || dim == 1)
    }

    /// Checks that hostdnn computes with its elements, and that they lie where its strides say.
    pub fn check_supported(&self) -> Result {
        let known =
            matches!(self.data_type, CUDNN_DATA_FLOAT | CUDNN_DATA_DOUBLE | CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16);
        supported(known, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "data in float, double, half or bfloat16")?;
        supported(!self.is_packed, CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "tensors that are plain and strided")?;
        supported(!self.dims.contains(&0), CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "tensors that are not empty")?;
        let small = self.span().is_some_and(|span| span <= i32::MAX.into());
        supported(small, CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "tensors that span fewer than 2^31 elements")
    }

    /// Elements from the first to the last one inclusive; `None` if they cannot be counted.
    pub fn span(&self) -> Option<i64> {
        let mut steps = self.dims.iter().zip(&self.strides).map(|(&dim, &stride)| (dim - 1).checked_mul(stride));
        steps.try_fold(1i64, |sum, step| sum.checked_add(step?))
    }

    /// Bytes from the first element to the end of the last.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.span().unwrap_or(0) * element_size(self.data_type)).unwrap_or(0)
    }

    /// Returns whether dimensions overlap in cuDNN's view: in order of stride, one begins inside the one before.
    /// Strides of 0, which repeat, do not count.
    pub fn has_overlapping_strides(&self) -> bool {
        let extents = self.strides.iter().zip(&self.dims).filter(|&(&stride, &dim)| stride > 0 && dim > 1);
        let mut axes: Vec<_> = extents.collect();
        axes.sort_unstable();
        axes.windows(2).any(|pair| pair[1].0 < &pair[0].0.saturating_mul(*pair[0].1))
    }

    /// Returns whether it spans as many elements as it has.
    pub fn has_no_gaps(&self) -> bool {
        let count = self.dims.iter().try_fold(1i64, |product, &dim| product.checked_mul(dim));
        count.is_some() && count == self.span()
    }

    /// Returns whether every index has its own element: in order of stride, each stride exceeds the extent of the
    /// dimensions inside it.
    pub fn is_injective(&self) -> bool {
        let mut axes: Vec<_> = self.strides.iter().zip(&self.dims).filter(|&(_, &dim)| dim > 1).collect();
        axes.sort_unstable();
        let mut inside = 0;
        axes.into_iter().all(|(&stride, &dim)| {
            let apart = stride > inside;
            inside += stride * (dim - 1);
            apart
        })
    }
}

/// A status of the CUDNN_STATUS_NOT_SUPPORTED family unless `holds`; `rule` names the supported cases.
pub fn supported(holds: bool, status: cudnnStatus_t, rule: &'static str) -> Result {
    if holds { Ok(()) } else { Err(Error::new(status, format!("supported are {rule}"))) }
}

/// Bytes of one element of a type that tensors accept; 0 for others.
pub fn element_size(data_type: cudnnDataType_t) -> i64 {
    match data_type {
        CUDNN_DATA_INT8 | CUDNN_DATA_UINT8 | CUDNN_DATA_BOOLEAN | CUDNN_DATA_FP8_E4M3 | CUDNN_DATA_FP8_E5M2 => 1,
        CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 => 2,
        CUDNN_DATA_FLOAT | CUDNN_DATA_INT32 => 4,
        CUDNN_DATA_DOUBLE | CUDNN_DATA_INT64 => 8,
        // Types that cuDNN accepts and hostdnn does not compute with: narrow ones, and complex numbers.
        15..=18 => 1,
        19 => 4,
        20 => 8,
        21 => 16,
        _ => 0,
    }
}
