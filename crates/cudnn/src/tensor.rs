//! Tensors as plain values, read back from the descriptors of a call.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::calls;

/// The most dimensions that we read of a tensor: 3-D convolutions have N, C, D, H, W.
pub const MAX_RANK: usize = 5;
/// The rank that we request from descriptors; cuDNN may write as many values.
pub const ASKED_RANK: usize = CUDNN_DIM_MAX as usize;
/// The largest rank that `cudnnGetConvolutionNdDescriptor` accepts as a request.
pub const ASKED_SPATIAL_RANK: usize = ASKED_RANK - 2;

/// A tensor's element type, and its dimensions and strides in elements. Unused dimensions and strides are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// The type of an element.
    pub data_type: cudnnDataType_t,
    /// Images, channels, depth if there is one, height and width.
    pub dims: [c_int; MAX_RANK],
    /// From one element to the next along each dimension.
    pub strides: [c_int; MAX_RANK],
}

/// Bytes of an element, for the types whose convolutions we plan; `None` for all others.
pub fn element_size(data_type: cudnnDataType_t) -> Option<usize> {
    match data_type {
        CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 => Some(2),
        CUDNN_DATA_FLOAT => Some(4),
        CUDNN_DATA_DOUBLE => Some(8),
        _ => None,
    }
}

impl Tensor {
    /// Reads a descriptor's rank and tensor. Returns `None` for a null or unset descriptor, a rank that convolutions do
    /// not have, or a negative stride.
    ///
    /// # Safety
    /// `descriptor` is null or a live cuDNN tensor descriptor.
    pub unsafe fn read(descriptor: cudnnTensorDescriptor_t) -> Option<(usize, Self)> {
        if descriptor.is_null() {
            return None;
        }
        let (mut data_type, mut rank) = (0, 0);
        let (mut dims, mut strides) = ([0; ASKED_RANK], [0; ASKED_RANK]);
        // SAFETY: the arrays hold as many values as are asked for.
        let status = unsafe {
            calls::cudnnGetTensorNdDescriptor(
                descriptor,
                CUDNN_DIM_MAX,
                &mut data_type,
                &mut rank,
                dims.as_mut_ptr(),
                strides.as_mut_ptr(),
            )
        };
        let rank = usize::try_from(rank).ok()?;
        let usable = status == CUDNN_STATUS_SUCCESS
            && (4..=MAX_RANK).contains(&rank)
            && dims[..rank].iter().all(|&d| d > 0)
            && strides[..rank].iter().all(|&s| s >= 0);
        usable.then(|| {
            let tensor = Self { data_type, dims: in_use(&dims, rank), strides: in_use(&strides, rank) };
            (rank, tensor)
        })
    }

    /// Bytes from one image to the next.
    pub fn image_stride(&self) -> usize {
        self.strides[0] as usize * self.element()
    }

    /// The size of the tensor's buffer in bytes, from its first element to the end of its last.
    pub fn bytes(&self) -> usize {
        let last: usize = (self.dims.iter().zip(&self.strides))
            .filter(|(dim, _)| **dim > 0)
            .map(|(dim, stride)| (*dim as usize - 1) * *stride as usize)
            .sum();
        (last + 1) * self.element()
    }

    /// Returns true if no two elements share an address.
    pub fn disjoint(&self) -> bool {
        disjoint(self.strides.iter().zip(&self.dims).map(|(stride, dim)| (i64::from(*stride), i64::from(*dim))))
    }

    fn element(&self) -> usize {
        element_size(self.data_type).unwrap_or(1)
    }

    /// The same tensor with `batch` images.
    pub fn with_batch(mut self, batch: usize) -> Self {
        self.dims[0] = batch as c_int;
        self
    }
}

/// Returns true if no two elements of a tensor share an address, so that images can be written one after another. Each
/// axis is (stride, dimension).
pub fn disjoint(axes: impl Iterator<Item = (i64, i64)>) -> bool {
    let mut axes: Vec<_> = axes.filter(|(_, dim)| *dim > 1).collect();
    axes.sort_unstable();
    let mut extent = 1;
    axes.iter().all(|&(stride, dim)| {
        let is_free = stride >= extent;
        extent += stride * (dim - 1);
        is_free
    })
}

/// The first `rank` values, the others 0 so that equal values compare and hash equal.
pub fn in_use<const N: usize>(values: &[c_int], rank: usize) -> [c_int; N] {
    std::array::from_fn(|i| if i < rank { values[i] } else { 0 })
}
