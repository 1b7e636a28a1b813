//! Tensor descriptors.

use super::boundary::{read_array, refer, refer_mut, write, write_all, write_array};
use super::entries::*;
use crate::descriptor::{DIM_MAX, TensorDescriptor, checked_rank};
use crate::error::Result;
use std::ffi::c_int;

impl Answer for cudnnSetTensor4dDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, format, data_type, n, c, h, w } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let tensor = unsafe { refer_mut::<TensorDescriptor>(descriptor) }?;
        tensor.set_4d(format, data_type, [n, c, h, w])
    }
}

impl Answer for cudnnSetTensor4dDescriptorEx {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, n, c, h, w, n_stride, c_stride, h_stride, w_stride } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let tensor = unsafe { refer_mut::<TensorDescriptor>(descriptor) }?;
        tensor.set_strided(data_type, &[n, c, h, w], &[n_stride, c_stride, h_stride, w_stride])
    }
}

impl Answer for cudnnGetTensor4dDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, n, c, h, w, n_stride, c_stride, h_stride, w_stride } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let tensor = refer::<TensorDescriptor>(descriptor)?;
            let (dims, strides) = tensor.first_4d();
            write_all(
                [data_type, n, c, h, w, n_stride, c_stride, h_stride, w_stride],
                [
                    tensor.data_type(),
                    dims[0],
                    dims[1],
                    dims[2],
                    dims[3],
                    strides[0],
                    strides[1],
                    strides[2],
                    strides[3],
                ],
            )
        }
    }
}

impl Answer for cudnnSetTensorNdDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, rank, dims, strides } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays hold `rank` values.
        unsafe {
            let tensor = refer_mut::<TensorDescriptor>(descriptor)?;
            TensorDescriptor::check_type(data_type)?;
            let rank = checked_rank(rank, 2, DIM_MAX)?;
            tensor.set_strided(data_type, read_array(dims, rank)?, read_array(strides, rank)?)
        }
    }
}

impl Answer for cudnnSetTensorNdDescriptorEx {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, format, data_type, rank, dims } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array holds `rank` values.
        unsafe {
            let tensor = refer_mut::<TensorDescriptor>(descriptor)?;
            TensorDescriptor::check_format(format, data_type)?;
            let rank = checked_rank(rank, 2, DIM_MAX)?;
            tensor.set_packed(format, data_type, read_array(dims, rank)?)
        }
    }
}

/// Writes the first `requested` dimensions and strides, or as many as there are.
impl Answer for cudnnGetTensorNdDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, requested, data_type, rank, dims, strides } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the arrays take as many values as are asked for.
        unsafe {
            let tensor = refer::<TensorDescriptor>(descriptor)?;
            let all = tensor.dims().len();
            let count = all.min(usize::try_from(requested).unwrap_or(0));
            write_all([data_type, rank], [tensor.data_type(), all as c_int])?;
            write_array(dims, &tensor.dims()[..count])?;
            write_array(strides, &tensor.strides()[..count])
        }
    }
}

impl Answer for cudnnGetTensorSizeInBytes {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(size, refer::<TensorDescriptor>(descriptor)?.size_in_bytes()) }
    }
}
